#include "host_test.h"

#include "tenon/base/log.h"
#include "tenon/host/hold.h"

#include <doctest/doctest.h>

#include <thread>

using tenon::Errc;

namespace {

/// Collects log lines as "component: text".
class Lines final : public tenon::LogSink {
 public:
  Lines() { tenon::set_log_sink(this); }
  ~Lines() override { tenon::set_log_sink(nullptr); }
  bool enabled(tenon::LogLevel level, std::string_view) noexcept override {
    return level >= tenon::LogLevel::kInfo;
  }
  void write(tenon::LogLevel,
             std::string_view component,
             std::string_view text,
             const std::source_location&) noexcept override {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(std::string(component) + ": " + std::string(text));
  }
  bool has(std::string_view part) {
    const std::scoped_lock lock(mutex_);
    for (const std::string& l : lines_) {
      if (l.find(part) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

template <class Table>
tenon::host::Interface<Table> interface_of(tenon::host::Instance& i, const char* iid) {
  auto r = i.interface<Table>(iid);
  REQUIRE_MESSAGE(r.has_value(), (r ? "" : r.error().detail));
  return r.value();
}

std::unique_ptr<tenon::host::Instance> inited(tenon::host::PluginRegistry& registry,
                                              const std::string& plugin) {
  auto i = registry.create(test::plugin_file(plugin).string(), {});
  REQUIRE_MESSAGE(i.has_value(), (i ? "" : i.error().detail));
  REQUIRE(i.value()->init().has_value());
  return std::move(i).value();
}

}  // namespace

TEST_SUITE("host/instance") {
  TEST_CASE("created, inited, active and back, and nothing else") {
    test::Hooks hooks;
    auto registry = test::make_registry();
    auto i = test::make_services(*registry);
    CHECK(i->activate().error().code == Errc::kConflict);
    CHECK_FALSE(i->interface<tenon_selector>(TENON_QUEUE_SELECTOR_IID).has_value());
    REQUIRE(i->init().has_value());
    CHECK(i->init().error().detail == "plug-in test.services: cannot init while inited");
    CHECK(i->interface<tenon_selector>(TENON_QUEUE_SELECTOR_IID).has_value());
    REQUIRE(i->activate().has_value());
    CHECK_FALSE(i->activate().has_value());
    i->deactivate();
    i->deactivate();
    CHECK(hooks.deactivated == 1);
    REQUIRE(i->activate().has_value());
    CHECK(i->status() == std::vector<std::pair<std::string, std::string>>{{"state", "fine"}});
    i.reset();
    CHECK(hooks.deactivated == 2);
    CHECK(hooks.destroyed == 1);
  }

  TEST_CASE("a plug-in in C11 and one in C++20, from files") {
    auto registry = test::make_registry();
    tenon_queue_set set{};
    set.size = sizeof set;
    set.count = 4;
    tenon_select how{};
    how.size = sizeof how;
    how.attempt = 2;
    auto c = inited(*registry, "test.host.good");
    const auto in_c = interface_of<tenon_selector>(*c, TENON_QUEUE_SELECTOR_IID);
    CHECK(in_c->select(in_c.self, &set, &how) == 3);
    auto cpp = inited(*registry, "test.host.glue");
    const auto in_cpp = interface_of<tenon_selector>(*cpp, TENON_QUEUE_SELECTOR_IID);
    CHECK(in_cpp->select(in_cpp.self, &set, &how) == 2);
    how.attempt = 6;  // throws inside
    CHECK(in_cpp->select(in_cpp.self, &set, &how) == TENON_INTERNAL);
    CHECK((in_cpp->report == nullptr));  // the class has no such function
  }

  TEST_CASE("an exception of a C++ plug-in arrives as status with text") {
    auto registry = test::make_registry();
    auto options = test::node(tenon::ConfigNode::Table{});
    const auto create = [&](const char* mode) {
      options.set("mode", test::node(std::string(mode), 7));
      tenon::host::InstanceOptions o;
      o.options = &options;
      return registry->create(test::plugin_file("test.host.glue").string(), o).value();
    };
    const auto init = create("throw-init")->init();
    REQUIRE_FALSE(init.has_value());
    CHECK(init.error().code == Errc::kInternal);
    CHECK(init.error().detail == "plug-in org.example.glue: init: constructor says no");
    auto i = create("throw-activate");
    REQUIRE(i->init().has_value());
    const auto active = i->activate();
    REQUIRE_FALSE(active.has_value());
    CHECK(active.error().code == Errc::kConflict);
    CHECK(active.error().detail == "plug-in org.example.glue: activate: activate says no");
  }

  TEST_CASE("a failure of a C plug-in keeps code and text") {
    auto registry = test::make_registry();
    auto i = registry->create(test::plugin_file("test.host.instanceinit").string(), {}).value();
    const auto r = i->init();
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == Errc::kBusy);
    CHECK(r.error().detail == "plug-in org.example.variant: init: the moon is full");
  }

  TEST_CASE("a required member that is null is named") {
    auto registry = test::make_registry();
    auto i = inited(*registry, "test.host.nullmember");
    const auto r = i->interface<tenon_selector>(TENON_QUEUE_SELECTOR_IID);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == Errc::kInvalid);
    CHECK(r.error().detail ==
          "plug-in org.example.variant: tenon.queue-selector/1: member select is null; repair the "
          "plug-in");
    CHECK(i->interface<tenon_storage>(TENON_STORAGE_IID).error().code == Errc::kUnsupported);
  }

  TEST_CASE("tables of a newer and of an older minor are adopted by their common prefix") {
    auto registry = test::make_registry();
    auto newer = inited(*registry, "test.host.newertable");
    const auto n = interface_of<tenon_selector>(*newer, TENON_QUEUE_SELECTOR_IID);
    CHECK(n->size == sizeof(tenon_selector));
    CHECK((n->select != nullptr));
    auto older = inited(*registry, "test.host.oldertable");
    const auto o = interface_of<tenon_selector>(*older, TENON_QUEUE_SELECTOR_IID);
    CHECK(o->size == offsetof(tenon_selector, report));
    CHECK((o->select != nullptr));
    CHECK((o->report == nullptr));  // not read, although something stands there
    CHECK((o->stats == nullptr));
    CHECK_FALSE(TENON_HAS(&o.table, tenon_selector, report));
  }

  TEST_CASE("log lines carry the name of the instance and the pairs") {
    test::Hooks hooks;
    Lines lines;
    auto registry = test::make_registry();
    tenon::host::InstanceOptions o;
    o.name = "slot-a";
    auto i = test::make_services(*registry, o);
    REQUIRE(i->init().has_value());
    hooks.host->info("ready", {{"port", "1"}, {"text", "two words"}});
    CHECK(lines.has("plugin:slot-a: ready port=1 text=\"two words\""));
    CHECK(hooks.host->log_enabled(TENON_LOG_INFO));
    CHECK_FALSE(hooks.host->log_enabled(TENON_LOG_DEBUG));
    CHECK(hooks.host->log_api.level == TENON_LOG_INFO);
    hooks.host->log(TENON_LOG_HOST_MISBEHAVES, "append overlaps");
    CHECK(lines.has("plugin:slot-a: host misbehaves: append overlaps"));
  }

  TEST_CASE("clock and folders are those of the options") {
    test::Hooks hooks;
    const tenon::ManualClock clock(123'456);
    auto registry = test::make_registry();
    tenon::host::InstanceOptions o;
    o.clock = &clock;
    o.store_root = "/a/store";
    o.private_dir = "/a/store/plugins/x";
    auto i = test::make_services(*registry, o);
    REQUIRE(i->init().has_value());
    CHECK(hooks.host->wall_ms() == 123'456);
    CHECK(hooks.host->directory(TENON_DIR_STORE_ROOT) == "/a/store");
    CHECK(hooks.host->directory(TENON_DIR_PRIVATE) == "/a/store/plugins/x");
    CHECK(hooks.host->directory(TENON_DIR_TEMP).empty());
    CHECK(tenon::plugin::text(hooks.host->api.name) == "tenon");
    CHECK(hooks.host->api.side == TENON_SIDE_BROKER);
    CHECK(hooks.host->storage.size == 0);  // not offered without receiver
  }

  TEST_CASE("metrics: one cell per name and labels, seen in the snapshot") {
    test::Hooks hooks;
    auto registry = test::make_registry();
    auto i = test::make_services(*registry);
    REQUIRE(i->init().has_value());
    auto& h = *hooks.host;
    const tenon_kv label{tenon::plugin::str("queue"), tenon::plugin::str("7")};
    const auto name = tenon::plugin::str("appended_total");
    std::uint64_t* a = nullptr;
    std::uint64_t* again = nullptr;
    std::int64_t* gauge = nullptr;
    tenon::plugin::ErrorText err;
    REQUIRE(h.metrics.counter(h.ctx(), name, &label, 1, &a, err.raw()) == TENON_OK);
    REQUIRE(h.metrics.counter(h.ctx(), name, &label, 1, &again, err.raw()) == TENON_OK);
    CHECK(a == again);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
    CHECK(h.metrics.gauge(h.ctx(), name, nullptr, 0, &gauge, err.raw()) == TENON_CONFLICT);
    CHECK(err.text() == "metric appended_total exists with another kind");
    CHECK(h.metrics.gauge(h.ctx(), tenon::plugin::str("Bad-Name"), nullptr, 0, &gauge, err.raw()) ==
          TENON_INVALID);
    REQUIRE(
        h.metrics.gauge(h.ctx(), tenon::plugin::str("lag_bytes"), nullptr, 0, &gauge, err.raw()) ==
        TENON_OK);
    *a += 5;
    *gauge = -3;
    const double bounds[] = {1, 10};
    const double values[] = {0.5, 1, 2, 100};
    std::uint64_t histogram = 0;
    REQUIRE(h.metrics.histogram(h.ctx(),
                                tenon::plugin::str("flush_ms"),
                                nullptr,
                                0,
                                bounds,
                                2,
                                &histogram,
                                err.raw()) == TENON_OK);
    h.metrics.observe(h.ctx(), histogram, values, 4);
    h.metrics.observe(h.ctx(), 999, values, 4);  // unknown: ignored
    const auto all = i->metrics();
    REQUIRE(all.size() == 3);
    CHECK(all[0].value == 5);
    CHECK(all[0].labels == std::vector<std::pair<std::string, std::string>>{{"queue", "7"}});
    CHECK(all[1].value == -3);
    CHECK(all[2].counts == std::vector<std::uint64_t>{2, 1, 1});
    CHECK(all[2].value == doctest::Approx(103.5));
  }

  TEST_CASE("holds are counted; an instance with an open one is not destroyed") {
    test::Hooks hooks;
    Lines lines;
    auto registry = test::make_registry();
    tenon::host::InstanceOptions o;
    o.shutdown_timeout = std::chrono::milliseconds(20);
    auto i = test::make_services(*registry, o);
    REQUIRE(i->init().has_value());
    tenon_buf buf{};
    auto& h = *hooks.host;
    REQUIRE(h.buffer.acquire(h.ctx(), 1000, &buf) == TENON_OK);
    buf.ptr[999] = 1;
    CHECK(i->holds().open() == 1);
    SUBCASE("released in time") {
      buf.hold.release(buf.hold.owner, buf.hold.id);
      i.reset();
      CHECK(hooks.destroyed == 1);
    }
    SUBCASE("released too late: parked, and the late release is harmless") {
      i.reset();
      CHECK(hooks.destroyed == 0);
      CHECK(lines.has("open holds"));
      buf.hold.release(buf.hold.owner, buf.hold.id);
    }
  }

  TEST_CASE("Hold releases once, also when moved") {
    static int released = 0;
    released = 0;
    tenon::host::HoldCounter counter;
    const tenon_hold raw{
        &counter, [](void*, std::uint64_t id) noexcept { released += static_cast<int>(id); }, 10};
    {
      tenon::host::Hold a(counter, raw);
      CHECK(counter.open() == 1);
      tenon::host::Hold b(std::move(a));
      a = std::move(b);
      CHECK(counter.open() == 1);
      const tenon::host::Hold none(counter, tenon_hold{});
      CHECK_FALSE(static_cast<bool>(none));
      CHECK(counter.open() == 1);
    }
    CHECK(released == 10);
    CHECK(counter.open() == 0);
  }

  TEST_CASE("events of a storage plug-in reach the receiver, also from an older plug-in") {
    struct Events final : tenon::host::StorageEvents {
      void progress(const tenon_progress& p) noexcept override { last = p; }
      void arrivals(const tenon_arrival*, std::size_t, std::size_t n) noexcept override {
        arrived += n;
      }
      void index_bits(const tenon_arrival*,
                      std::size_t,
                      std::size_t,
                      std::uint8_t*,
                      std::size_t) noexcept override {}
      tenon_status deliver_time(std::uint32_t level,
                                std::int64_t ms,
                                std::int64_t& out) noexcept override {
        out = ms + level;
        return TENON_OK;
      }
      void fault(tenon_status why, std::string_view what) noexcept override {
        faults.emplace_back(why, what);
      }
      tenon_progress last{};
      std::size_t arrived = 0;
      std::vector<std::pair<tenon_status, std::string>> faults{};
    } events;
    test::Hooks hooks;
    auto registry = test::make_registry();
    tenon::host::InstanceOptions o;
    o.storage_events = &events;
    auto i = test::make_services(*registry, o);
    REQUIRE(i->init().has_value());
    auto& h = *hooks.host;
    tenon_progress p{sizeof p, TENON_CHANGED_END, 100, 90, 0, 0, 0, 77};
    h.storage.progress(h.ctx(), &p);
    CHECK(events.last.end == 100);
    CHECK(events.last.min_phys == 77);
    p.size = offsetof(tenon_progress, dispatched);
    p.end = 200;
    h.storage.progress(h.ctx(), &p);
    CHECK(events.last.end == 200);
    CHECK(events.last.min_phys == 0);  // beyond the size of the sender
    const tenon_arrival a{};
    h.storage.arrivals(h.ctx(), &a, sizeof a, 1);
    CHECK(events.arrived == 1);
    std::int64_t due = 0;
    CHECK(h.storage.deliver_time(h.ctx(), 3, 1000, &due) == TENON_OK);
    CHECK(due == 1003);
    h.storage.fault(h.ctx(), TENON_IO, tenon::plugin::str("disk gone"));
    REQUIRE(events.faults.size() == 1);
    CHECK(events.faults[0].second == "disk gone");
  }
}
