#include "listener_pool.h"

#include "message_block.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

using namespace tenon::sdk;
using namespace std::chrono_literals;
using detail::ListenerPool;

namespace {

std::vector<MessageView> messages(std::size_t n) {
  auto bytes = std::make_shared<std::string>();
  for (std::size_t i = 0; i < n; ++i) {
    tenon::proto::MessageRecord r;
    r.topic = "T";
    r.queue_offset = static_cast<std::int64_t>(i);
    r.body = tenon::as_bytes(std::string_view("x"));
    std::string one(tenon::proto::encoded_message_bytes(r), '\0');
    tenon::proto::encode_message(r, reinterpret_cast<std::byte*>(one.data()));
    *bytes += one;
  }
  return detail::decode_messages(tenon::as_bytes(*bytes), bytes, "b");
}

}  // namespace

TEST_SUITE("sdk/listener_pool") {
  TEST_CASE("every message is given out once, in slices of at most the batch size") {
    std::mutex mutex;
    std::multiset<std::int64_t> seen;
    std::size_t largest = 0;
    const auto pool = std::make_shared<ListenerPool>(
        4, 3, Executor(), [&](const std::shared_ptr<void>&, std::span<const MessageView> slice) {
          const std::scoped_lock lock(mutex);
          largest = std::max(largest, slice.size());
          for (const MessageView& m : slice) {
            seen.insert(m.queue_offset());
          }
        });
    pool->submit(messages(100), nullptr);
    pool->submit({}, nullptr);
    CHECK(pool->drain(10s));
    pool->stop();
    CHECK(seen.size() == 100);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 100);
    CHECK(largest == 3);
  }

  TEST_CASE("long calls run side by side, up to the number of threads") {
    std::atomic<int> inside{0};
    std::atomic<bool> release{false};
    const auto pool = std::make_shared<ListenerPool>(
        5, 1, Executor(), [&](const std::shared_ptr<void>&, std::span<const MessageView>) {
          ++inside;
          inside.notify_all();
          release.wait(false);
        });
    pool->submit(messages(8), nullptr);
    for (int n = inside.load(); n != 5; n = inside.load()) {
      inside.wait(n);
    }
    CHECK_FALSE(pool->drain(20ms));
    release = true;
    release.notify_all();
    CHECK(pool->drain(10s));
    pool->stop();
    CHECK(inside.load() == 8);
  }

  TEST_CASE("drain from inside a call ends with the last of the other calls") {
    std::atomic<int> begun{0};
    std::atomic<int> drained{-1};
    std::atomic<bool> release{false};
    const auto pool = std::make_shared<ListenerPool>(
        2, 1, Executor(), [](const std::shared_ptr<void>&, std::span<const MessageView>) {});
    pool->post([&] {
      ++begun;
      begun.notify_all();
      release.wait(false);
    });
    // A call of unknown length wakes the second thread.
    pool->post([&] {
      const auto begin = std::chrono::steady_clock::now();
      ++begun;
      begun.notify_all();
      const bool all = pool->drain(20s);
      drained = all && std::chrono::steady_clock::now() - begin < 10s ? 1 : 0;
      drained.notify_all();
    });
    for (int n = begun.load(); n != 2; n = begun.load()) {
      begun.wait(n);
    }
    CHECK(drained.load() == -1);
    release = true;
    release.notify_all();
    drained.wait(-1);
    CHECK(drained.load() == 1);
    pool->stop();
  }

  TEST_CASE("drain asks its owner again when told to, and at the end of its time") {
    const auto pool = std::make_shared<ListenerPool>(
        1, 1, Executor(), [](const std::shared_ptr<void>&, std::span<const MessageView>) {});
    std::atomic<int> asked{0};
    std::atomic<bool> settled{false};
    std::thread helper([&] {
      asked.wait(0);
      settled = true;
      pool->look_again();
    });
    const auto begin = std::chrono::steady_clock::now();
    CHECK(pool->drain(20s, [&] {
      ++asked;
      asked.notify_all();
      return settled.load();
    }));
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    helper.join();
    CHECK_FALSE(pool->drain(1ms, [] { return false; }));
    pool->stop();
  }

  TEST_CASE("stop waits for what runs and drops what waits") {
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
    std::atomic<bool> release{false};
    const auto pool = std::make_shared<ListenerPool>(
        1, 1, Executor(), [&](const std::shared_ptr<void>&, std::span<const MessageView>) {
          ++begun;
          begun.notify_all();
          release.wait(false);
          ++ended;
        });
    pool->submit(messages(10), nullptr);
    begun.wait(0);
    std::thread helper([&] {
      release = true;
      release.notify_all();
    });
    pool->stop();
    helper.join();
    CHECK(begun.load() == ended.load());
    pool->submit(messages(3), nullptr);
    CHECK(begun.load() == ended.load());
  }

  TEST_CASE("stop from inside a call does not wait for itself") {
    std::atomic<bool> done{false};
    std::shared_ptr<ListenerPool> pool;
    pool = std::make_shared<ListenerPool>(
        2, 1, Executor(), [&](const std::shared_ptr<void>&, std::span<const MessageView>) {
          pool->stop();
          done = true;
          done.notify_all();
        });
    pool->submit(messages(1), nullptr);
    done.wait(false);
    CHECK(done.load());
  }

  TEST_CASE("an executor of the program runs the calls") {
    std::vector<std::function<void()>> tasks;
    int calls = 0;
    const auto pool = std::make_shared<ListenerPool>(
        1,
        2,
        [&](std::function<void()> task) { tasks.push_back(std::move(task)); },
        [&](const std::shared_ptr<void>&, std::span<const MessageView>) { ++calls; });
    pool->submit(messages(5), nullptr);
    REQUIRE(tasks.size() == 3);
    tasks[0]();
    tasks[1]();
    CHECK(calls == 2);
    pool->stop();
    tasks[2]();  // came too late: nothing is called any more
    CHECK(calls == 2);
  }
}
