#include "tenon/proto/properties.h"

#include <cstring>
#include <unordered_map>

namespace tenon::proto {
namespace {

/// First `c` in `text`, or its size.
std::size_t find_char(std::string_view text, char c) noexcept {
  if (text.empty()) {
    return 0;
  }
  const void* hit = std::memchr(text.data(), c, text.size());
  return hit == nullptr ? text.size()
                        : static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
}

/// Lists longer than this get an index, so that a hostile text costs no quadratic time.
constexpr std::size_t kLinearSearchMax = 32;

}  // namespace

bool PropertyIterator::next() noexcept {
  while (!rest_.empty()) {
    const std::size_t stop = find_char(rest_, kPropertySeparator);
    const std::string_view item = rest_.substr(0, stop);
    rest_.remove_prefix(stop == rest_.size() ? stop : stop + 1);
    // A name and a value of at least one character each imply the three characters of the rule.
    const std::size_t split = find_char(item, kNameValueSeparator);
    if (split == 0 || split + 1 >= item.size()) {
      continue;
    }
    name_ = item.substr(0, split);
    value_ = item.substr(split + 1);
    return true;
  }
  return false;
}

std::optional<std::string_view> find_property(std::string_view text,
                                              std::string_view name) noexcept {
  std::optional<std::string_view> found;
  for (PropertyIterator it(text); it.next();) {
    if (it.name() == name) {
      found = it.value();
    }
  }
  return found;
}

void append_property(std::string& text, std::string_view name, std::string_view value) {
  if (name.empty() || value.empty()) {
    return;
  }
  if (!text.empty() && text.back() != kPropertySeparator) {
    text.push_back(kPropertySeparator);
  }
  text.append(name);
  text.push_back(kNameValueSeparator);
  text.append(value);
}

std::string without_property(std::string_view text, std::string_view name) {
  std::string out;
  out.reserve(text.size());
  for (PropertyIterator it(text); it.next();) {
    if (it.name() != name) {
      append_property(out, it.name(), it.value());
    }
  }
  return out;
}

PropertyList decode_properties(std::string_view text) {
  PropertyList list;
  std::unordered_map<std::string_view, std::size_t> index;
  for (PropertyIterator it(text); it.next();) {
    std::size_t at = list.size();
    if (list.size() <= kLinearSearchMax) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].first == it.name()) {
          at = i;
          break;
        }
      }
    } else {
      if (index.empty()) {
        for (PropertyIterator seen(text); seen.next();) {
          index.try_emplace(seen.name(), index.size());
        }
      }
      at = index.find(it.name())->second;
    }
    if (at < list.size()) {
      list[at].second = it.value();
    } else {
      list.emplace_back(it.name(), it.value());
    }
  }
  return list;
}

std::string encode_properties(const PropertyList& properties) {
  std::string out;
  for (const auto& [name, value] : properties) {
    append_property(out, name, value);
  }
  return out;
}

std::int64_t tags_code_of(std::string_view properties) noexcept {
  const auto tags = find_property(properties, prop::kTags);
  return tags ? std::int64_t{java_hash(*tags)} : 0;
}

}  // namespace tenon::proto
