// What one member of a group subscribes, to find members that subscribe differently. The broker has
// one subscription table per group (spec: broker §10.2), so such members take topics and tags from
// each other; the protocol does not forbid it, people have to hear of it.
#pragma once

#include "tenon/proto/bodies.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Immutable. Members that subscribe the same share one.
struct Wanted {
  std::vector<proto::SubscriptionData> subscriptions{};  ///< by topic, without the retry topic
  std::uint64_t digest = 0;
};
using WantedPtr = std::shared_ptr<const Wanted>;

/// A number that is equal for equal topics, expressions and their types in any order. The retry
/// topic of a group is left out: only some kinds of consumers subscribe it. Does not allocate.
std::uint64_t digest_of(const proto::ConsumerData& data) noexcept;
WantedPtr make_wanted(const proto::ConsumerData& data);

/// "T1:*, T2:TagA || TagB" for logs and tools.
std::string describe(const Wanted& wanted);

}  // namespace tenon::broker
