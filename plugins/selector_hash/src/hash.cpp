// tenon.selector.hash: messages with one sharding key go to one queue, the same one that a Java
// producer's SelectMessageQueueByHash chooses (spec: client §4.10).
#include "tenon/plugin.hpp"
#include "tenon/proto/properties.h"

#include <cstdint>
#include <cstdlib>

namespace {

struct Hash {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.selector.hash",
      .version = "1.0.0",
      .name = "hash of the sharding key",
      .vendor = "Tenon",
      .doc = "Java's hashCode of the sharding key modulo the number of queues"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit Hash(tenon::plugin::Host&) {}

  /// A retry goes to the same queue: the order of a key's messages is the point.
  std::int32_t select(const tenon_queue_set* set, const tenon_select* how) noexcept {
    if (set->count == 0) {
      return TENON_EMPTY;
    }
    std::int32_t hash = 0;
    if ((how->flags & TENON_SELECT_HAS_HASH) != 0) {
      // A number is hashed as Java hashes a Long; for 0 to 2^31-1 that is the number itself.
      hash = static_cast<std::int32_t>(
          static_cast<std::uint32_t>(how->user_hash ^ (how->user_hash >> 32)));
    } else if (how->sharding_key.len != 0) {
      hash = tenon::proto::java_hash(tenon::plugin::text(how->sharding_key));
    } else {
      return TENON_UNSUPPORTED;
    }
    // Trap: the remainder is negated, not the hash: the absolute value of -2^31 does not exist.
    return static_cast<std::int32_t>(std::abs(std::int64_t{hash} % std::int64_t{set->count}));
  }
};

}  // namespace

TENON_PLUGINS(Hash);
