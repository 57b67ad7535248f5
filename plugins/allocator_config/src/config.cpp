// tenon.allocator.config: this member consumes a fixed list of queues, whoever else is there (spec:
// client §5.7, CONFIG). Nothing guards against two members with the same queue or a queue without a
// member.
#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using tenon::plugin::text;

struct FixedList {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.allocator.config",
                                               .version = "1.0.0",
                                               .name = "CONFIG",
                                               .vendor = "Tenon",
                                               .doc = "a fixed list of queues"};
  static constexpr tenon_config_key kKeys[] = {tenon::plugin::key(
      "queues",
      TENON_TYPE_ARRAY,
      "",
      "tables { broker = \"broker-a\", queue_id = 0, topic = \"T\" }; without topic: every topic",
      TENON_KEY_REQUIRED)};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName = "CONFIG";

  struct Entry {
    std::string topic;  ///< empty = every topic
    std::string broker;
    std::uint32_t queue_id;
  };

  explicit FixedList(tenon::plugin::Host& host) {
    const auto list = host.config().array("queues");
    if (!list) {
      host.config().reject("queues", "is required");
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const tenon::plugin::Config one = list->at(i);
      entries.push_back({one.get("topic", ""),
                         one.require<std::string>("broker"),
                         one.require<std::uint32_t>("queue_id")});
    }
  }

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(in, out, cap, n, err, [&](tenon::allocator::Indexes& to) {
      const auto queues = tenon::allocator::queues(in);
      for (std::uint32_t k = 0; k < queues.size(); ++k) {
        const auto wanted = [&](const Entry& e) {
          return e.queue_id == queues[k].queue_id && e.broker == text(queues[k].broker) &&
                 (e.topic.empty() || e.topic == text(in->topic));
        };
        if (std::any_of(entries.begin(), entries.end(), wanted)) {
          to.add(k);
        }
      }
    });
  }

  std::vector<Entry> entries;
};

}  // namespace

TENON_PLUGINS(FixedList);
