// tenon.allocator.averagely: consecutive queues in shares of equal size (spec: client §5.7, AVG).
#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

namespace {

struct Averagely {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.allocator.averagely",
                                               .version = "1.0.0",
                                               .name = "AVG",
                                               .vendor = "Tenon",
                                               .doc = "consecutive queues in shares of equal size"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName = "AVG";

  explicit Averagely(tenon::plugin::Host&) {}

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(in, out, cap, n, err, [&](tenon::allocator::Indexes& to) {
      tenon::allocator::averagely(
          in->queue_count, in->client_count, in->self_index, [&](std::uint32_t k) { to.add(k); });
    });
  }
};

}  // namespace

TENON_PLUGINS(Averagely);
