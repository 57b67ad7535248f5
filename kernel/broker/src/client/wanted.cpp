#include "client/wanted.h"

#include <algorithm>
#include <functional>

namespace tenon::broker {
namespace {

bool is_retry_topic(std::string_view topic) noexcept {
  return topic.starts_with("%RETRY%");
}

std::uint64_t mix(std::uint64_t h, std::string_view text) noexcept {
  h ^= std::hash<std::string_view>{}(text) + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h;
}

std::uint64_t digest_of(const proto::SubscriptionData& s) noexcept {
  // Without the view the two sides would meet in a temporary string.
  const std::string_view type =
      s.expression_type.empty() ? "TAG" : std::string_view(s.expression_type);
  return mix(mix(mix(1, s.topic), type), s.sub_string);
}

}  // namespace

std::uint64_t digest_of(const proto::ConsumerData& data) noexcept {
  std::uint64_t sum = 0;
  for (const proto::SubscriptionData& s : data.subscriptions) {
    sum += is_retry_topic(s.topic) ? 0 : digest_of(s);
  }
  return sum;
}

WantedPtr make_wanted(const proto::ConsumerData& data) {
  auto wanted = std::make_shared<Wanted>();
  for (const proto::SubscriptionData& s : data.subscriptions) {
    if (!is_retry_topic(s.topic)) {
      wanted->subscriptions.push_back(s);
    }
  }
  std::sort(wanted->subscriptions.begin(),
            wanted->subscriptions.end(),
            [](const auto& a, const auto& b) { return a.topic < b.topic; });
  wanted->digest = digest_of(data);
  return wanted;
}

std::string describe(const Wanted& wanted) {
  std::string out;
  for (const proto::SubscriptionData& s : wanted.subscriptions) {
    if (!out.empty()) {
      out += ", ";
    }
    out += s.topic + ":" + s.sub_string;
  }
  return out.empty() ? "nothing" : out;
}

}  // namespace tenon::broker
