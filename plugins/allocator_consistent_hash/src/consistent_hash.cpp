// tenon.allocator.consistent-hash: few queues move when a member comes or goes (spec: client §5.7,
// CONSISTENT_HASH).
#include "ring.h"

#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace {

using tenon::plugin::text;

struct ConsistentHash {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.allocator.consistent-hash",
      .version = "1.0.0",
      .name = "CONSISTENT_HASH",
      .vendor = "Tenon",
      .doc = "ring of members, few queues move when one comes or goes"};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("virtual_nodes",
                         TENON_TYPE_INT,
                         "10",
                         "points of each member on the ring; equal for all members of a group")};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName = "CONSISTENT_HASH";

  explicit ConsistentHash(tenon::plugin::Host& host)
      : points(host.config().get("virtual_nodes", std::uint32_t{10})) {
    if (points < 1 || points > 10'000) {
      host.config().reject("virtual_nodes", "must be 1 to 10000");
    }
  }

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(in, out, cap, n, err, [&](tenon::allocator::Indexes& to) {
      std::vector<std::string_view> members;
      for (const tenon_str client : tenon::allocator::clients(in)) {
        members.push_back(text(client));
      }
      const tenon::allocator::Ring ring(members, points);
      const auto queues = tenon::allocator::queues(in);
      for (std::uint32_t k = 0; k < queues.size(); ++k) {
        // Trap: the key is what Java's MessageQueue prints.
        const std::string key = "MessageQueue [topic=" + std::string(text(in->topic)) +
                                ", brokerName=" + std::string(text(queues[k].broker)) +
                                ", queueId=" + std::to_string(queues[k].queue_id) + "]";
        if (members[ring.owner(tenon::allocator::ring_hash(key))] == members[in->self_index]) {
          to.add(k);
        }
      }
    });
  }

  std::uint32_t points;
};

}  // namespace

TENON_PLUGINS(ConsistentHash);
