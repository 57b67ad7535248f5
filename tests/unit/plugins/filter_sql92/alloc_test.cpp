// No allocation per evaluation: operator new and malloc are counted per thread.
#include "sql.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>

namespace {
thread_local std::uint64_t allocations = 0;
}

// GCC sees the free() of memory from the replaced operator new and calls it a mismatch.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) {
    return p;
  }
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
#pragma GCC diagnostic pop

using namespace tenon::filter_sql92;

TEST_SUITE("plugins/filter_sql92") {
  TEST_CASE("evaluation does not allocate, whatever its outcome") {
    const std::string message = tenon::test::raw({{"a", "5"},
                                                  {"UNIQ_KEY", "C0A801051E5818B4AAC2117A8B5E0000"},
                                                  {"price", "12.5"},
                                                  {"region", "east"},
                                                  {"name", std::string(200, 'x')}});
    std::uint64_t used = 0;
    for (const char* text : {"a > 3 AND price < 20.0 AND region IN ('east', 'west')",
                             "a BETWEEN 1 AND 9 OR name CONTAINS 'xx'",
                             "name = 5",
                             "missing = 5",
                             "price = -price",
                             "name > price"}) {
      const Program program = tenon::test::compiled(text, Dialect::k5);
      const std::uint64_t before = allocations;
      for (int i = 0; i < 100; ++i) {
        static_cast<void>(program.run(message));
      }
      used += allocations - before;
    }
    CHECK(used == 0);
  }
}
