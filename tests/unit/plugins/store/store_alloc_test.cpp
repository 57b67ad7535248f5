// Counts the allocations of the appending thread: none in the steady state. An executable of its
// own, because it replaces malloc.
#include "../../../support/store_harness.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

extern "C" const tenon_entry tenon_entry_store_file;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENON_COUNTS_MALLOC 0
#else
#define TENON_COUNTS_MALLOC 1
#endif

namespace {
thread_local bool t_counting = false;
thread_local long t_allocations = 0;
}  // namespace

#if TENON_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* p, std::size_t bytes);

void* malloc(std::size_t bytes) {
  t_allocations += t_counting ? 1 : 0;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  t_allocations += t_counting ? 1 : 0;
  return __libc_calloc(n, bytes);
}
void* realloc(void* p, std::size_t bytes) {
  t_allocations += t_counting ? 1 : 0;
  return __libc_realloc(p, bytes);
}
}
#endif

namespace tenon::test {

TEST_SUITE("store_file/allocation") {
  TEST_CASE("appending allocates nothing in the steady state, with and without a queue handle") {
    TempFolder root;
    FakeHost host(root.path());
    host.record_arrivals = false;
    StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    std::vector<Message> messages(32);
    std::vector<tenon_record> records;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      messages[i].queue_id = static_cast<std::uint32_t>(i % 4);
      messages[i].body = std::string(128, 'x');
      messages[i].properties = properties_of({{"KEYS", "a b"}, {"TAGS", "T"}});
    }
    for (const Message& m : messages) {
      records.push_back(to_record(m));
    }
    std::vector<tenon_append_result> results(records.size());
    const auto append = [&] {
      return store.table().append(store.self(),
                                  records.data(),
                                  sizeof records[0],
                                  records.size(),
                                  results.data(),
                                  sizeof results[0],
                                  nullptr);
    };
    append();
    SUBCASE("by name") {}
    SUBCASE("by handle") {
      for (auto& r : records) {
        r.queue = store.queue("TopicTest", r.queue_id);
      }
    }
    t_allocations = 0;
    t_counting = true;
    for (int i = 0; i < 1000; ++i) {
      append();
    }
    t_counting = false;
    CHECK(results.back().status == TENON_OK);
    CHECK(t_allocations == 0);
#if TENON_COUNTS_MALLOC
    t_counting = true;                   // the counter counts
    int* volatile visible = new int(1);  // an optimiser may drop a pair that nobody sees
    delete visible;
    t_counting = false;
    CHECK(t_allocations > 0);
#endif
  }
}

}  // namespace tenon::test
