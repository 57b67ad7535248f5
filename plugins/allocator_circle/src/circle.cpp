// tenon.allocator.circle: queues dealt out one by one (spec: client §5.7, AVG_BY_CIRCLE).
#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

namespace {

struct Circle {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.allocator.circle",
                                               .version = "1.0.0",
                                               .name = "AVG_BY_CIRCLE",
                                               .vendor = "Tenon",
                                               .doc = "queues dealt out one by one"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName = "AVG_BY_CIRCLE";

  explicit Circle(tenon::plugin::Host&) {}

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(in, out, cap, n, err, [&](tenon::allocator::Indexes& to) {
      tenon::allocator::circle(
          in->queue_count, in->client_count, in->self_index, [&](std::uint32_t k) { to.add(k); });
    });
  }
};

}  // namespace

TENON_PLUGINS(Circle);
