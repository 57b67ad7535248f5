// The linked-in plug-in through which the tests reach the host services.
#define TENON_PLUGIN_ENTRY_SYMBOL test_services_entry
#include "host_test.h"

namespace test {

Hooks* hooks = nullptr;

Hooks::Hooks() {
  hooks = this;
}
Hooks::~Hooks() {
  hooks = nullptr;
}

namespace {

struct Services {
  static constexpr tenon::plugin::About kAbout{.id = "test.services", .version = "1.0.0"};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("listed", TENON_TYPE_INT, "1", "listed but never read"),
      tenon::plugin::key("flush_interval", TENON_TYPE_DURATION, "500ms", "how often")};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit Services(tenon::plugin::Host& host) {
    if (hooks != nullptr) {
      hooks->host = &host;
      if (hooks->on_init) {
        hooks->on_init(host);
      }
    }
  }
  ~Services() {
    if (hooks != nullptr) {
      ++hooks->destroyed;
    }
  }
  void activate() {
    if (hooks != nullptr && hooks->on_activate) {
      hooks->on_activate();
    }
  }
  void deactivate() {
    if (hooks != nullptr) {
      ++hooks->deactivated;
      if (hooks->on_deactivate) {
        hooks->on_deactivate();
      }
    }
  }
  void status(const tenon_sink& out) {
    const tenon_kv kv{tenon::plugin::str("state"), tenon::plugin::str("fine")};
    out.put(out.ctx, &kv, 1);
  }
  std::int32_t select(const tenon_queue_set*, const tenon_select*) { return 0; }
};

}  // namespace
}  // namespace test

TENON_PLUGINS(test::Services);
