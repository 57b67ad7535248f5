// No allocation per evaluation: operator new is counted per thread.
#include "counting_new.h"
#include "sql.h"

#include <doctest/doctest.h>

#include <string>

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
      const std::uint64_t before = tenon::test::allocations_of_thread();
      for (int i = 0; i < 100; ++i) {
        static_cast<void>(program.run(message));
      }
      used += tenon::test::allocations_of_thread() - before;
    }
    CHECK(used == 0);
  }
}
