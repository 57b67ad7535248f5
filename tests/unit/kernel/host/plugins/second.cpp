// A good selector in C++20 on the glue, which also throws on request.
#include "tenon/plugin.hpp"

#include <stdexcept>

namespace {

struct Second {
  static constexpr tenon::plugin::About kAbout{
      .id = "org.example.glue", .version = "2.1.0", .name = "Glue", .doc = "test plug-in"};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("mode", TENON_TYPE_STRING, "good", "good, throw-init or throw-activate")};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit Second(tenon::plugin::Host& host)
      : mode_(host.config().get("mode", "good")) {
    if (mode_ == "throw-init") {
      throw std::runtime_error("constructor says no");
    }
  }
  void activate() {
    if (mode_ == "throw-activate") {
      throw tenon::plugin::Failure(TENON_CONFLICT, "activate says no");
    }
  }
  std::int32_t select(const tenon_queue_set* set, const tenon_select* how) {
    if (how->attempt > 5) {
      throw std::runtime_error("too many attempts");
    }
    return static_cast<std::int32_t>(how->attempt % set->count);
  }
  std::string mode_;
};

}  // namespace

TENON_PLUGINS(Second);
