// The table of consumers without a network: look-ups beside heartbeats, expressions, the alarm about
// members that subscribe differently.
#include "client/consumers.h"

#include "broker_harness.h"
#include "util/snapshot.h"

#include "tenon/base/log.h"
#include "tenon/net/io_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tenon::broker::test::consumers {

/// Swallows what is sent.
class Sink final : public net::Connection {
 public:
  Sink(std::uint64_t id, net::IoThread& thread)
      : Connection(id),
        thread_(thread) {}
  net::IoThread& io_thread() noexcept override { return thread_; }
  std::string& out() noexcept override { return out_; }
  void flush() override {}
  void send(net::OutFrame) override {}
  void close(net::CloseReason) override {}
  std::size_t queued_bytes() const noexcept override { return 0; }

 private:
  net::IoThread& thread_;
  std::string out_{};
};

/// A filter plug-in for expressions of type ODD that counts, and that stays in compile() while closed.
class OddFilter {
 public:
  OddFilter() {
    plugin_.table.types = types_;
    plugin_.table.compile = [](void* self,
                               tenon_str,
                               tenon_str text,
                               std::uint32_t,
                               tenon_filter_expr** out,
                               tenon_error*) noexcept -> tenon_status {
      auto& mine = *static_cast<OddFilter*>(self);
      mine.compiled.fetch_add(1);
      std::unique_lock lock(mine.mutex_);
      mine.inside_ = true;
      mine.changed_.notify_all();
      mine.changed_.wait(lock, [&mine] { return mine.open_; });
      mine.inside_ = false;
      *out = static_cast<tenon_filter_expr*>(self);
      return text.len == 0 ? TENON_INVALID : TENON_OK;
    };
    plugin_.table.release = [](void* self, tenon_filter_expr*) noexcept {
      static_cast<OddFilter*>(self)->released.fetch_add(1);
    };
    plugin_.table.match_index = [](void*,
                                   const tenon_filter_expr*,
                                   const tenon_index_entry*,
                                   std::size_t,
                                   std::size_t n,
                                   std::uint8_t* verdict) noexcept {
      std::fill_n(verdict, n, std::uint8_t{TENON_MATCH_UNDECIDED});
    };
    plugin_.self = this;
  }
  const host::Interface<tenon_filter>& plugin() const { return plugin_; }
  void close() {
    const std::scoped_lock lock(mutex_);
    open_ = false;
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_inside() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_; });
  }

  std::atomic<int> compiled{0};
  std::atomic<int> released{0};

 private:
  const char* types_[2] = {"ODD", nullptr};
  host::Interface<tenon_filter> plugin_{};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  bool open_ = true;
  bool inside_ = false;
};

struct Table {
  std::unique_ptr<net::IoPool> pool = net::IoPool::start({.threads = 1, .name = "io"}).value();
  TempFolder folder{};
  BrokerConfig config = test_config(folder.path());
  OddFilter odd{};
  Filters filters{};
  ConsumerFilters expressions{config, system_clock(), filters};
  Consumers table{expressions};
  std::uint64_t last_id = 0;

  Table() { filters.add(odd.plugin()); }
  ~Table() { pool->stop(); }

  net::ConnectionPtr connection() { return std::make_shared<Sink>(++last_id, pool->at(0)); }
  void beat(const net::ConnectionPtr& c,
            const std::string& id,
            const std::string& group,
            const std::string& text,
            std::int64_t version = 1,
            const std::string& type = "TAG") {
    auto data = consumer_beat(id, group, "T", text, version).consumers[0];
    data.subscriptions[0].expression_type = type;
    table.heartbeat({c, id, proto::Language::kJava, 409, 0, true}, data);
  }
};

/// Keeps the lines of level warn and above.
class Lines final : public LogSink {
 public:
  Lines() { set_log_sink(this); }
  ~Lines() override { set_log_sink(nullptr); }
  bool enabled(LogLevel level, std::string_view) noexcept override {
    return level >= LogLevel::kWarn;
  }
  void write(LogLevel,
             std::string_view component,
             std::string_view text,
             const SourceLocation&) noexcept override {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(std::string(component) + ": " + std::string(text));
  }
  /// Those with this text in them.
  std::vector<std::string> with(std::string_view part) const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> out;
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) {
        out.push_back(line);
      }
    }
    return out;
  }

 private:
  mutable std::mutex mutex_{};
  std::vector<std::string> lines_{};
};

struct Counted {
  explicit Counted(std::atomic<int>& count, int number = 0)
      : alive(count),
        value(number) {
    alive.fetch_add(1);
  }
  ~Counted() { alive.fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::atomic<int>& alive;
  int value;
};

}  // namespace tenon::broker::test::consumers

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

TEST_SUITE("broker/consumers") {
  TEST_CASE("what was replaced is freed when its readers are gone, and not before") {
    std::atomic<int> alive{0};
    {
      Snapshot<consumers::Counted> value(std::make_unique<consumers::Counted>(alive, 1));
      {
        const ReadSection outer;
        CHECK(value.read([](const auto& v) { return v.value; }) == 1);
        value.replace(std::make_unique<consumers::Counted>(alive, 2));
        CHECK(value.read([](const auto& v) { return v.value; }) == 2);  // did not end the outer one
        value.replace(std::make_unique<consumers::Counted>(alive, 3));
        CHECK(alive == 3);
        std::thread([&] { CHECK(value.read([](const auto& v) { return v.value; }) == 3); }).join();
        CHECK(value.retired() == 2);
      }
      value.replace(std::make_unique<consumers::Counted>(alive, 4));
      CHECK(value.retired() == 0);
      CHECK(alive == 1);
    }
    CHECK(alive == 0);
  }

  TEST_CASE("readers of a value that is replaced all the time see it whole, also in new threads") {
    struct Pair {
      int a = 0;
      int b = 0;
    };
    Snapshot<Pair> value;
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
      readers.emplace_back([&] {
        int last = 0;
        while (!stop.load()) {
          value.read([&](const Pair& p) {
            torn.fetch_add(p.a != p.b || p.a < last ? 1 : 0);
            last = p.a;
          });
        }
      });
    }
    for (int i = 1; i <= 20'000; ++i) {
      auto next = std::make_unique<Pair>();
      next->a = i;
      next->b = i;
      value.replace(std::move(next));
      if (i % 5'000 == 0) {
        std::thread([&] { value.read([](const Pair&) {}); }).join();
      }
    }
    stop = true;
    for (std::thread& t : readers) {
      t.join();
    }
    CHECK(torn == 0);
  }

  TEST_CASE("a look-up waits for no heartbeat, not even for one that compiles an expression") {
    consumers::Table t;
    const auto first = t.connection();
    const auto second = t.connection();
    t.beat(first, "A", "CG", "x");
    t.odd.close();
    std::thread beating([&] { t.beat(second, "B", "CG", "n % 2", 2, "ODD"); });
    t.odd.wait_inside();  // the heartbeat holds what it needs of the group
    const auto view = t.table.pull_view("CG", "T");
    CHECK(view.online);
    REQUIRE(view.subscription != nullptr);
    CHECK(view.subscription->data.sub_string == "x");
    CHECK(t.table.is_online("CG"));
    CHECK(t.table.subscribes("CG", "T"));
    CHECK_FALSE(t.table.pull_view("CG", "Other").subscription);
    CHECK_FALSE(t.table.is_online("Nobody"));
    t.odd.open();
    beating.join();
    CHECK(t.table.pull_view("CG", "T").subscription->data.sub_string == "n % 2");
    t.table.connection_closed(second, true);
    CHECK(t.table.is_online("CG"));
    t.table.connection_closed(first, true);
    CHECK_FALSE(t.table.is_online("CG"));
  }

  TEST_CASE("look-ups on several threads beside heartbeats of 200 groups see each as it was told") {
    consumers::Table t;
    constexpr int kGroups = 200;  // more than there are shards
    std::vector<net::ConnectionPtr> clients;
    for (int g = 0; g < kGroups; ++g) {
      clients.push_back(t.connection());
      t.beat(clients.back(), "id", "G" + std::to_string(g), "v1", 1);
    }
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r) {
      readers.emplace_back([&] {
        std::vector<std::int64_t> seen(kGroups, 0);
        for (std::size_t g = 0; !stop.load(); g = (g + 7) % kGroups) {
          const auto view = t.table.pull_view("G" + std::to_string(g), "T");
          const bool good = view.subscription != nullptr &&
                            view.subscription->data.sub_version >= seen[g] &&
                            view.subscription->data.sub_string ==
                                "v" + std::to_string(view.subscription->data.sub_version);
          wrong.fetch_add(good ? 0 : 1);
          seen[g] = good ? view.subscription->data.sub_version : seen[g];
        }
      });
    }
    for (int version = 2; version <= 10; ++version) {
      for (std::size_t g = 0; g < kGroups; ++g) {
        t.beat(clients[g], "id", "G" + std::to_string(g), "v" + std::to_string(version), version);
      }
    }
    stop = true;
    for (std::thread& r : readers) {
      r.join();
    }
    CHECK(wrong == 0);
    for (const auto& c : clients) {
      t.table.connection_closed(c, false);
    }
    CHECK_FALSE(t.table.is_online("G0"));
  }

  TEST_CASE("an expression is compiled once for its subscription, however often it is told") {
    consumers::Table t;
    const auto first = t.connection();
    const auto second = t.connection();
    for (int i = 0; i < 5; ++i) {
      t.beat(first, "A", "CG", "n % 2", 1, "ODD");
      t.beat(second, "B", "CG", "n % 2", 1, "ODD");
      CHECK(t.table.pull_view("CG", "T").subscription->filter != nullptr);
    }
    CHECK(t.odd.compiled == 1);
    t.beat(first, "A", "CG", "n % 2", 2, "ODD");  // subscribed anew with the same text
    CHECK(t.odd.compiled <= 2);
    const int before = t.odd.compiled;
    t.beat(first, "A", "CG", "n % 4", 3, "ODD");
    CHECK(t.odd.compiled == before + 1);
  }

  TEST_CASE("expressions that come with the pull are kept: each is compiled once, 64 of them") {
    consumers::OddFilter odd;
    {
      Filters filters;
      filters.add(odd.plugin());
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 3; ++i) {
          const auto filter = filters.compiled("ODD", "n % " + std::to_string(i));
          REQUIRE(filter.has_value());
          CHECK(filter.value() != nullptr);
        }
      }
      CHECK(odd.compiled == 3);
      CHECK(filters.compiled("ODD", "").has_error());
      CHECK(filters.compiled("ODD", "").has_error());  // a wrong one is not kept
      CHECK(odd.compiled == 5);
      for (int i = 0; i < 100; ++i) {
        REQUIRE(filters.compiled("ODD", "m % " + std::to_string(i)).has_value());
      }
      CHECK(odd.compiled == 105);
      CHECK(odd.released == 103 - static_cast<int>(Filters::kKept));
      REQUIRE(filters.compiled("ODD", "m % 36").has_value());  // the oldest that is there
      CHECK(odd.compiled == 105);
      REQUIRE(filters.compiled("ODD", "n % 0").has_value());
      CHECK(odd.compiled == 106);
    }
    CHECK(odd.released == 104);
  }

  TEST_CASE("members that subscribe differently are one line in the log, and one when they agree") {
    const consumers::Lines lines;
    consumers::Table t;
    const auto first = t.connection();
    const auto second = t.connection();
    t.beat(first, "client-A", "CG", "x");
    t.beat(second, "client-B", "CG", "x");
    CHECK(lines.with("CG").empty());
    for (int i = 0; i < 5; ++i) {
      t.beat(second, "client-B", "CG", "x || y", 2);
      t.beat(first, "client-A", "CG", "x");
      t.beat(second, "client-B", "CG", "z", 3);  // still different
    }
    const auto alarm = lines.with("subscribe differently");
    REQUIRE(alarm.size() == 1);
    CHECK(alarm[0].find("group=\"CG\"") != std::string::npos);
    for (const char* part : {"client-A", "client-B", "T:x\"", "T:x || y\""}) {
      CHECK_MESSAGE(alarm[0].find(part) != std::string::npos, alarm[0]);
    }
    CHECK(t.table.mismatched_groups() == 1);
    CHECK(t.table.mismatch_total() == 1);
    t.beat(first, "client-A", "CG", "z", 4);
    CHECK(lines.with("subscribe the same again").size() == 1);
    CHECK(t.table.mismatched_groups() == 0);
    t.beat(first, "client-A", "CG", "q", 5);
    CHECK(lines.with("subscribe differently").size() == 2);  // it has begun again
    t.table.leave(second, "CG", true);
    CHECK(lines.with("subscribe the same again").size() == 2);
    CHECK(t.table.mismatch_total() == 2);
  }
}
