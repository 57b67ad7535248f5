// tenon.host.exec/1: posts, timers, threads, descriptors, and what happens to left-overs.
#include "host_test.h"

#include "tenon/host/thread_tag.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

/// An active instance of the test plug-in and its exec service.
struct Active {
  explicit Active(std::chrono::milliseconds timeout = 20s)
      : registry(test::make_registry()) {
    tenon::host::InstanceOptions o;
    o.shutdown_timeout = timeout;
    instance = test::make_services(*registry, o);
    REQUIRE(instance->init().has_value());
    REQUIRE(instance->activate().has_value());
  }
  const tenon_host_exec& exec() const { return hooks.host->exec; }
  void* ctx() const { return hooks.host->ctx(); }

  test::Hooks hooks;
  std::unique_ptr<tenon::host::PluginRegistry> registry;
  std::unique_ptr<tenon::host::Instance> instance;
};

/// What a task saw.
struct Seen {
  test::Slot<int> runs;
  std::atomic<std::uint32_t> tags{0};
  std::atomic<std::uint64_t> arg{0};
  std::atomic<const Active*> in{nullptr};

  static void run(void* self, std::uint64_t arg) noexcept {
    auto& me = *static_cast<Seen*>(self);
    me.arg = arg;
    const Active* in = me.in.load();
    me.tags = in->exec().where_am_i(in->ctx());
    me.runs.update([](int& n) { ++n; });
  }
};

bool many(int n) {
  return n >= 3;
}
bool once(int n) {
  return n >= 1;
}

}  // namespace

TEST_SUITE("host/exec") {
  TEST_CASE("posts run with their tag") {
    Active a;
    Seen worker;
    Seen control;
    worker.in = &a;
    control.in = &a;
    REQUIRE(a.exec().post(a.ctx(), TENON_ON_WORKER, Seen::run, &worker, 5) == TENON_OK);
    REQUIRE(a.exec().post(a.ctx(), TENON_ON_CONTROL, Seen::run, &control, 6) == TENON_OK);
    REQUIRE(worker.runs.wait(once));
    REQUIRE(control.runs.wait(once));
    CHECK(worker.tags == TENON_AT_WORKER);
    CHECK(worker.arg == 5);
    CHECK(control.tags == TENON_AT_CONTROL);
    CHECK(a.exec().where_am_i(a.ctx()) == 0);
    CHECK(a.exec().post(a.ctx(), 9, Seen::run, &worker, 0) == TENON_INVALID);
    CHECK(a.exec().workers >= 2);
  }

  TEST_CASE("a timer runs once or again and again until it is cancelled") {
    Active a;
    Seen one;
    Seen again;
    one.in = &a;
    again.in = &a;
    std::uint64_t id_one = 0;
    std::uint64_t id_again = 0;
    REQUIRE(a.exec().timer(a.ctx(), TENON_ON_WORKER, 1, 0, Seen::run, &one, 1, &id_one) ==
            TENON_OK);
    REQUIRE(a.exec().timer(a.ctx(), TENON_ON_CONTROL, 0, 1, Seen::run, &again, 2, &id_again) ==
            TENON_OK);
    REQUIRE(one.runs.wait(once));
    REQUIRE(again.runs.wait(many));
    REQUIRE(a.exec().cancel(a.ctx(), id_again) == TENON_OK);
    const int after = again.runs.get();
    CHECK(a.exec().cancel(a.ctx(), id_again) == TENON_NOT_FOUND);
    // A later timer has fired: the cancelled one would have run before.
    Seen later;
    later.in = &a;
    REQUIRE(a.exec().timer(a.ctx(), TENON_ON_CONTROL, 10, 0, Seen::run, &later, 0, nullptr) ==
            TENON_OK);
    REQUIRE(later.runs.wait(once));
    CHECK(again.runs.get() == after);
    CHECK(one.runs.get() == 1);
  }

  TEST_CASE("timers fire in the order of their times") {
    Active a;
    struct Order {
      test::Slot<std::vector<std::uint64_t>> seen;
      static void run(void* self, std::uint64_t arg) noexcept {
        static_cast<Order*>(self)->seen.update([&](auto& v) { v.push_back(arg); });
      }
    } order;
    for (const std::uint64_t ms : {30u, 1u, 15u}) {
      REQUIRE(a.exec().timer(a.ctx(), TENON_ON_CONTROL, ms, 0, Order::run, &order, ms, nullptr) ==
              TENON_OK);
    }
    REQUIRE(order.seen.wait([](const auto& v) { return v.size() == 3; }));
    CHECK(order.seen.get() == std::vector<std::uint64_t>{1, 15, 30});
  }

  TEST_CASE("cancel waits for a running function, except from inside it") {
    Active a;
    struct Task {
      const Active* in;
      std::atomic<std::uint64_t> id{0};
      test::Slot<int> state;  // 1 running, 2 may end, 3 ended
      std::atomic<tenon_status> inside{1};
      static void run(void* self, std::uint64_t) noexcept {
        auto& me = *static_cast<Task*>(self);
        me.state.set(1);
        me.state.wait([](int s) { return s == 2; });
        me.inside = me.in->exec().cancel(me.in->ctx(), me.id);
        me.state.set(3);
      }
    } task{&a, {}, {}, {}};
    std::uint64_t id = 0;
    REQUIRE(a.exec().timer(a.ctx(), TENON_ON_WORKER, 5, 1, Task::run, &task, 0, &id) == TENON_OK);
    task.id = id;
    REQUIRE(task.state.wait([](int s) { return s == 1; }));
    std::thread canceller([&] {
      const tenon_status s = a.exec().cancel(a.ctx(), id);
      CHECK((s == TENON_OK || s == TENON_NOT_FOUND));  // it may have ended before we came
      CHECK(task.state.get() == 3);                    // and never returns earlier
    });
    task.state.set(2);
    canceller.join();
    CHECK(task.inside == TENON_OK);
    CHECK(a.exec().cancel(a.ctx(), id) == TENON_NOT_FOUND);
  }

  TEST_CASE("named threads are joined once") {
    Active a;
    Seen seen;
    seen.in = &a;
    std::uint64_t id = 0;
    REQUIRE(
        a.exec().thread(
            a.ctx(), tenon::plugin::str("a-rather-long-thread-name"), Seen::run, &seen, 9, &id) ==
        TENON_OK);
    CHECK(a.exec().join(a.ctx(), id) == TENON_OK);
    CHECK(seen.runs.get() == 1);
    CHECK(seen.tags == TENON_AT_PLUGIN);
    CHECK(a.exec().join(a.ctx(), id) == TENON_NOT_FOUND);
  }

  TEST_CASE("a descriptor is reported until the watch is cancelled") {
    Active a;
    int fds[2];
    REQUIRE(::pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0);
    struct Watcher {
      test::Slot<std::string> got;
      std::atomic<std::uint32_t> events{0};
      static void ready(void* self, std::int32_t fd, std::uint32_t events) noexcept {
        auto& me = *static_cast<Watcher*>(self);
        char c = 0;
        me.events |= events;
        while (::read(fd, &c, 1) == 1) {
          me.got.update([&](std::string& s) { s += c; });
        }
      }
    } watcher;
    std::uint64_t id = 0;
    REQUIRE(a.exec().watch_fd(a.ctx(), fds[0], TENON_FD_READ, Watcher::ready, &watcher, &id) ==
            TENON_OK);
    CHECK(a.exec().watch_fd(a.ctx(), fds[0], TENON_FD_READ, Watcher::ready, &watcher, nullptr) ==
          TENON_CONFLICT);
    CHECK(a.exec().watch_fd(a.ctx(), -1, TENON_FD_READ, Watcher::ready, &watcher, nullptr) ==
          TENON_INVALID);
    REQUIRE(::write(fds[1], "a", 1) == 1);
    REQUIRE(watcher.got.wait([](const std::string& s) { return s == "a"; }));
    REQUIRE(::write(fds[1], "b", 1) == 1);
    REQUIRE(watcher.got.wait([](const std::string& s) { return s == "ab"; }));
    CHECK(watcher.events == TENON_FD_READ);
    REQUIRE(a.exec().cancel(a.ctx(), id) == TENON_OK);
    REQUIRE(::write(fds[1], "c", 1) == 1);
    char c = 0;
    CHECK(::read(fds[0], &c, 1) == 1);  // nobody else took it
    ::close(fds[0]);
    ::close(fds[1]);
  }

  TEST_CASE(
      "after deactivate nothing is accepted, waiting posts are dropped, left-over timers stopped") {
    Active a;
    Seen timer;
    Seen late;
    timer.in = &a;
    late.in = &a;
    std::uint64_t id = 0;
    REQUIRE(a.exec().timer(a.ctx(), TENON_ON_WORKER, 0, 1, Seen::run, &timer, 0, &id) == TENON_OK);
    REQUIRE(timer.runs.wait(once));
    {
      // The control role is ours, so a control task cannot begin before deactivate is over.
      const tenon::host::ControlScope control;
      REQUIRE(a.exec().post(a.ctx(), TENON_ON_CONTROL, Seen::run, &late, 0) == TENON_OK);
      a.instance->deactivate();
    }
    const int runs = timer.runs.get();
    CHECK(a.exec().post(a.ctx(), TENON_ON_WORKER, Seen::run, &late, 0) == TENON_CLOSED);
    CHECK(a.exec().timer(a.ctx(), TENON_ON_WORKER, 0, 0, Seen::run, &late, 0, &id) == TENON_CLOSED);
    REQUIRE(a.instance->activate().has_value());
    Seen again;
    again.in = &a;
    REQUIRE(a.exec().post(a.ctx(), TENON_ON_CONTROL, Seen::run, &again, 0) == TENON_OK);
    REQUIRE(again.runs.wait(once));
    CHECK(late.runs.get() == 0);
    CHECK(timer.runs.get() == runs);
  }

  TEST_CASE("a thread that deactivate did not join keeps the instance from being destroyed") {
    static auto* go = new test::Slot<bool>;  // the thread may look at it after the test
    int destroyed = -1;
    {
      Active a(30ms);
      std::uint64_t id = 0;
      const auto body = [](void* self, std::uint64_t) noexcept {
        static_cast<test::Slot<bool>*>(self)->wait([](bool b) { return b; });
      };
      REQUIRE(a.exec().thread(a.ctx(), tenon::plugin::str("stuck"), body, go, 0, &id) == TENON_OK);
      a.instance.reset();
      destroyed = a.hooks.destroyed;
      go->set(true);
    }
    CHECK(destroyed == 0);
  }
}
