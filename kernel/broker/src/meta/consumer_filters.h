// Expressions of consumer groups (anything but tags): who filters what since when, the file
// consumerFilter.json, and the bit maps that say beforehand which groups want a message (spec:
// broker §9.6, §9.7, store §8.3).
#pragma once

#include "append/log.h"
#include "meta/json_file.h"
#include "pull/filter.h"
#include "util/bloom.h"
#include "util/hashing.h"
#include "util/published.h"

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// The expression of a group for a topic. Immutable.
struct GroupFilter {
  std::string group{};
  std::string topic{};
  std::string expression{};
  std::string type{};
  std::int64_t born_ms = 0;         ///< messages stored until then have no bit for it
  std::int64_t dead_ms = 0;         ///< nobody subscribes since then, if not before born_ms
  std::int64_t client_version = 0;  ///< of the subscription
  std::vector<std::uint32_t> bits{};
  FilterPtr compiled{};

  bool is_dead() const noexcept { return dead_ms >= born_ms; }
};
using GroupFilterPtr = std::shared_ptr<const GroupFilter>;

/// Thread: any.
class ConsumerFilters final : public IndexBitsSource {
 public:
  ConsumerFilters(const BrokerConfig& config, const Clock& clock, const Filters& filters);

  Result<> load();  ///< Thread: start, with the filter plug-ins there
  /// Drops what is dead for too long, then writes the file if something changed. Blocks on the disk.
  Result<> persist();

  /// What a subscription asks for; null matches everything. Other types than TAG are remembered, a
  /// text that does not compile any more is forgotten.
  /// @return the parser's message
  Result<FilterPtr> subscribe(std::string_view group, const proto::SubscriptionData& data);
  /// The group subscribes to these topics and to no others any more.
  void subscribed(const proto::ConsumerData& data);
  /// Its last member is gone.
  void group_gone(std::string_view group);

  GroupFilterPtr find(std::string_view group, std::string_view topic) const;

  /// Sets the bits of all groups whose expression is TRUE for the message; all bits if the topic has
  /// no expression. Thread: dispatch of the storage, one call at a time. Does not allocate while no
  /// subscription changes.
  void fill_bits(const tenon_arrival& arrival,
                 std::uint8_t* bits,
                 std::size_t bytes) noexcept override;
  std::size_t bitmap_bytes() const noexcept { return bloom_.bytes(); }

 private:
  using Groups = TextMap<GroupFilterPtr>;
  using Topics = TextMap<Groups>;

  Result<> read(std::string_view text);
  std::string text() const;
  void publish_locked();
  void kill_locked(std::string_view group, const std::vector<proto::SubscriptionData>* wanted);
  FilterPtr matcher(const GroupFilterPtr& filter) const;

  const BrokerConfig& config_;
  const Clock& clock_;
  const Filters& filters_;
  const Bloom bloom_;
  JsonFile file_;
  mutable std::mutex mutex_;
  Topics topics_{};
  Published<Topics> published_{};
  Cached<Topics> dispatch_view_{published_};
};

/// For the retry topic of a group: each message is judged by the group's expression for the topic it
/// came from (ExpressionForRetryMessageFilter).
FilterPtr retry_filter(const ConsumerFilters& filters, std::string_view group, FilterPtr by_index);

}  // namespace tenon::broker
