#include "meta/consumer_filters.h"

#include "tenon/base/log.h"
#include "tenon/proto/json.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <utility>

namespace tenon::broker {
namespace {

/// An entry that was alive when the file was written may have been so until shortly before this
/// start (ConsumerFilterManager).
constexpr std::int64_t kAliveBeforeLoadMs = 30'000;

std::string_view as_view(tenon_bytes b) noexcept {
  return b.len == 0 ? std::string_view{}
                    : std::string_view(reinterpret_cast<const char*>(b.ptr), b.len);
}

/// The expression of a group, with the bit map looked at first.
class ExpressionFilter final : public Filter {
 public:
  ExpressionFilter(GroupFilterPtr filter, std::size_t bitmap_bytes)
      : filter_(std::move(filter)),
        bitmap_bytes_(bitmap_bytes) {}

  void match_index(const tenon_index_entry* in,
                   std::size_t n,
                   std::uint8_t* verdict) const override {
    filter_->compiled->match_index(in, n, verdict);
    for (std::size_t i = 0; i < n; ++i) {
      if (verdict[i] == kUndecided && is_unwanted(in[i])) {
        verdict[i] = kNo;
      }
    }
  }
  void match_properties(const tenon_bytes* properties,
                        std::size_t n,
                        std::uint8_t* verdict) const override {
    filter_->compiled->match_properties(properties, n, verdict);
  }

 private:
  /// Trap: a map says something only about messages that were stored after the expression was known
  /// (spec: broker §9.7).
  bool is_unwanted(const tenon_index_entry& entry) const noexcept {
    if ((entry.flags & TENON_EXTENDED) == 0 || entry.store_ms <= filter_->born_ms ||
        entry.bitmap.len != bitmap_bytes_) {
      return false;
    }
    return std::any_of(filter_->bits.begin(), filter_->bits.end(), [&](std::uint32_t bit) {
      return (entry.bitmap.ptr[bit / 8] & 1u << bit % 8) == 0;
    });
  }

  GroupFilterPtr filter_;
  std::size_t bitmap_bytes_;
};

class RetryFilter final : public Filter {
 public:
  RetryFilter(const ConsumerFilters& filters, std::string_view group, FilterPtr by_index)
      : filters_(filters),
        group_(group),
        by_index_(std::move(by_index)) {}

  void match_index(const tenon_index_entry* in,
                   std::size_t n,
                   std::uint8_t* verdict) const override {
    std::fill_n(verdict, n, std::uint8_t{kYes});
    if (by_index_ != nullptr) {
      by_index_->match_index(in, n, verdict);
    }
    std::replace(verdict, verdict + n, std::uint8_t{kYes}, std::uint8_t{kUndecided});
  }
  void match_properties(const tenon_bytes* properties,
                        std::size_t n,
                        std::uint8_t* verdict) const override {
    for (std::size_t i = 0; i < n; ++i) {
      const auto topic = proto::find_property(as_view(properties[i]), proto::prop::kRetryTopic);
      const GroupFilterPtr filter = topic ? filters_.find(group_, *topic) : nullptr;
      verdict[i] = kYes;
      if (filter != nullptr) {
        filter->compiled->match_properties(&properties[i], 1, &verdict[i]);
      }
    }
  }

 private:
  const ConsumerFilters& filters_;
  std::string group_;
  FilterPtr by_index_;
};

bool is_tag(std::string_view type) noexcept {
  return type.empty() || type == kTagType;
}

}  // namespace

FilterPtr retry_filter(const ConsumerFilters& filters, std::string_view group, FilterPtr by_index) {
  return std::make_shared<RetryFilter>(filters, group, std::move(by_index));
}

ConsumerFilters::ConsumerFilters(const BrokerConfig& config,
                                 const Clock& clock,
                                 const Filters& filters)
    : config_(config),
      clock_(clock),
      filters_(filters),
      bloom_(config.bloom_error_pct, config.expected_filter_groups),
      file_(config.store_root / "config" / "consumerFilter.json") {}

FilterPtr ConsumerFilters::matcher(const GroupFilterPtr& filter) const {
  if (filter->compiled == nullptr) {
    return nullptr;
  }
  return std::make_shared<ExpressionFilter>(filter, bloom_.bytes());
}

Result<FilterPtr> ConsumerFilters::subscribe(std::string_view group,
                                             const proto::SubscriptionData& data) {
  if (is_tag(data.expression_type)) {
    return filters_.compile(data.expression_type, data.sub_string);
  }
  const std::scoped_lock lock(mutex_);
  const auto topic = topics_.try_emplace(data.topic).first;
  const auto known = topic->second.find(group);
  auto next = std::make_shared<GroupFilter>();
  if (known != topic->second.end()) {
    // Trap: only a larger version counts; an equal one revives what is dead (spec: broker §9.6).
    const GroupFilter& old = *known->second;
    const bool older = data.sub_version < old.client_version;
    if (older || (data.sub_version == old.client_version && !old.is_dead())) {
      return matcher(known->second);
    }
    if (data.sub_version == old.client_version || data.sub_string == old.expression) {
      *next = old;
      next->client_version = data.sub_version;
      next->dead_ms = 0;
    }
  }
  if (next->compiled == nullptr) {
    auto compiled = filters_.compile(data.expression_type, data.sub_string);
    if (compiled.has_error()) {
      topic->second.erase(std::string(group));
      publish_locked();
      return std::move(compiled).error();
    }
    next->group = group;
    next->topic = data.topic;
    next->expression = data.sub_string;
    next->type = data.expression_type;
    next->born_ms = clock_.wall_ms();
    next->client_version = data.sub_version;
    next->bits = bloom_.positions(group, data.topic);
    next->compiled = std::move(compiled).value();
    log_info("broker",
             "expression of a group group=\"{}\" topic={} type={} text=\"{}\"",
             group,
             data.topic,
             data.expression_type,
             data.sub_string);
  }
  topic->second.insert_or_assign(std::string(group), next);
  publish_locked();
  return matcher(next);
}

void ConsumerFilters::publish_locked() {
  std::erase_if(topics_, [](const auto& entry) { return entry.second.empty(); });
  published_.publish(std::make_shared<const Topics>(topics_));
  file_.changed();
}

/// Marks the group's entries dead, but for the wanted ones.
void ConsumerFilters::kill_locked(std::string_view group,
                                  const std::vector<proto::SubscriptionData>* wanted) {
  bool changed = false;
  for (auto& [topic, groups] : topics_) {
    const auto it = groups.find(group);
    if (it == groups.end() || it->second->is_dead()) {
      continue;
    }
    const bool keep = wanted != nullptr &&
                      std::any_of(wanted->begin(), wanted->end(), [&name = topic](const auto& s) {
                        return s.topic == name && !is_tag(s.expression_type);
                      });
    if (!keep) {
      auto dead = std::make_shared<GroupFilter>(*it->second);
      dead->dead_ms = std::max(clock_.wall_ms(), dead->born_ms);
      it->second = std::move(dead);
      changed = true;
    }
  }
  if (changed) {
    publish_locked();
  }
}

void ConsumerFilters::subscribed(const proto::ConsumerData& data) {
  const std::scoped_lock lock(mutex_);
  kill_locked(data.group, &data.subscriptions);
}

void ConsumerFilters::group_gone(std::string_view group) {
  const std::scoped_lock lock(mutex_);
  kill_locked(group, nullptr);
}

GroupFilterPtr ConsumerFilters::find(std::string_view group, std::string_view topic) const {
  const std::scoped_lock lock(mutex_);
  const auto groups = topics_.find(topic);
  if (groups == topics_.end()) {
    return nullptr;
  }
  const auto it = groups->second.find(group);
  return it == groups->second.end() ? nullptr : it->second;
}

void ConsumerFilters::fill_bits(const tenon_arrival& arrival,
                                std::uint8_t* bits,
                                std::size_t bytes) noexcept {
  dispatch_view_.refresh();
  const Topics& topics = dispatch_view_.current();
  const auto groups = topics.find(host::text(arrival.topic));
  if (groups == topics.end() || bytes != bloom_.bytes()) {
    std::fill_n(bits, bytes, std::uint8_t{0xff});
    return;
  }
  std::fill_n(bits, bytes, std::uint8_t{0});
  // Trap: dead ones too: they may come back with their birth time unchanged (spec: broker §9.7).
  for (const auto& [group, filter] : groups->second) {
    std::uint8_t verdict = Filter::kNo;
    filter->compiled->match_properties(&arrival.properties, 1, &verdict);
    if (verdict == Filter::kYes) {
      for (const std::uint32_t bit : filter->bits) {
        bits[bit / 8] = static_cast<std::uint8_t>(bits[bit / 8] | 1u << bit % 8);
      }
    }
  }
}

Result<> ConsumerFilters::load() {
  return file_.load([this](std::string_view text) { return read(text); });
}

Result<> ConsumerFilters::read(std::string_view text) {
  TENON_TRY(const auto document, proto::JsonDocument::parse(text));
  if (!document.root().is_object()) {
    return Error{Errc::kCorrupt, "no JSON object"};
  }
  const proto::JsonNode table = document.root()["filterDataByTopic"];
  Topics loaded;
  const std::int64_t alive_until = clock_.wall_ms() - kAliveBeforeLoadMs;
  for (std::size_t t = 0; t < table.size(); ++t) {
    const auto [topic, of_topic] = table.member(t);
    const proto::JsonNode groups = of_topic["groupFilterData"];
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto [group, node] = groups.member(g);
      auto filter = std::make_shared<GroupFilter>();
      filter->group = group;
      filter->topic = topic;
      filter->expression = node["expression"].string();
      filter->type = node["expressionType"].string();
      filter->born_ms = node["bornTime"].integer().value_or(0);
      filter->dead_ms = node["deadTime"].integer().value_or(0);
      filter->client_version = node["clientVersion"].integer().value_or(0);
      filter->bits = bloom_.positions(group, topic);
      const proto::JsonNode bloom = node["bloomFilterData"];
      if (bloom["bitNum"].integer().value_or(0) != bloom_.bit_count() ||
          bloom["bitPos"].size() != bloom_.hash_count()) {
        // Its bits in stored maps mean something else: Java forgets all entries then.
        log_warn("broker", "expressions of groups forgotten: size of the bit map changed");
        return ok();
      }
      auto compiled = filters_.compile(filter->type, filter->expression);
      if (compiled.has_error() || is_tag(filter->type)) {
        log_warn("broker",
                 "expression of a group forgotten group=\"{}\" topic={} reason=\"{}\"",
                 group,
                 topic,
                 compiled.has_error() ? compiled.error().detail : "only tags");
        continue;
      }
      filter->compiled = std::move(compiled).value();
      if (!filter->is_dead()) {
        filter->dead_ms = std::max(filter->born_ms, alive_until);
      }
      loaded[std::string(topic)].insert_or_assign(std::string(group), std::move(filter));
    }
  }
  const std::scoped_lock lock(mutex_);
  topics_ = std::move(loaded);
  published_.publish(std::make_shared<const Topics>(topics_));
  return ok();
}

std::string ConsumerFilters::text() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  proto::JsonWriter w(out, {.layout = proto::JsonLayout::kJava});
  w.begin_object().key("filterDataByTopic").begin_object();
  for (const auto& [topic, groups] : topics_) {
    w.key(topic).begin_object().key("groupFilterData").begin_object();
    for (const auto& [group, f] : groups) {
      w.key(group).begin_object().key("bloomFilterData").begin_object();
      w.member("bitNum", bloom_.bit_count()).key("bitPos").begin_array(true);
      for (const std::uint32_t bit : f->bits) {
        w.value(bit);
      }
      w.end_array().end_object();
      w.member("bornTime", f->born_ms).member("clientVersion", f->client_version);
      w.member("consumerGroup", group).member("dead", f->is_dead()).member("deadTime", f->dead_ms);
      w.member("expression", f->expression).member("expressionType", f->type);
      w.member("topic", topic).end_object();
    }
    w.end_object().member("topic", topic).end_object();
  }
  w.end_object().end_object();
  return out;
}

Result<> ConsumerFilters::persist() {
  {
    const std::scoped_lock lock(mutex_);
    const std::int64_t before = clock_.wall_ms() - config_.filter_clean_ms;
    std::size_t dropped = 0;
    for (auto& [topic, groups] : topics_) {
      dropped += std::erase_if(groups, [before](const auto& entry) {
        return entry.second->is_dead() && entry.second->dead_ms <= before;
      });
    }
    if (dropped > 0) {
      publish_locked();
    }
  }
  return file_.save_if_changed([this] { return text(); });
}

}  // namespace tenon::broker
