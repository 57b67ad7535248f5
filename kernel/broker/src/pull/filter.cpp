#include "pull/filter.h"

#include "tenon/proto/properties.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tenon::broker {
namespace {

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// Hashes of the tags of "a || b"; empty = everything matches.
std::vector<std::int32_t> tag_codes(std::string_view text) {
  std::vector<std::int32_t> codes;
  if (trim(text) == "*" || text.empty()) {
    return codes;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find("||", at), text.size());
    const std::string_view tag = trim(text.substr(at, end - at));
    if (!tag.empty()) {
      codes.push_back(proto::java_hash(tag));
    }
    at = end + 2;
  }
  return codes;
}

/// Trap: by hash on purpose, clients compare the strings again (broker §9.1).
class TagFilter final : public Filter {
 public:
  explicit TagFilter(std::vector<std::int32_t> codes)
      : codes_(std::move(codes)) {}
  void match_index(const tenon_index_entry* in,
                   std::size_t n,
                   std::uint8_t* verdict) const override {
    for (std::size_t i = 0; i < n; ++i) {
      const auto code = static_cast<std::int32_t>(static_cast<std::uint64_t>(in[i].tags_code));
      // No hash is that small: the address of an extension that is lost. It may match.
      const bool lost = in[i].tags_code < std::numeric_limits<std::int32_t>::min();
      verdict[i] =
          lost || std::find(codes_.begin(), codes_.end(), code) != codes_.end() ? kYes : kNo;
    }
  }
  void match_properties(const tenon_bytes*, std::size_t n, std::uint8_t* verdict) const override {
    std::fill_n(verdict, n, std::uint8_t{kYes});
  }

 private:
  std::vector<std::int32_t> codes_;
};

class PluginFilter final : public Filter {
 public:
  PluginFilter(const host::Interface<tenon_filter>& plugin, tenon_filter_expr* expr)
      : plugin_(plugin),
        expr_(expr) {}
  ~PluginFilter() override { plugin_->release(plugin_.self, expr_); }
  PluginFilter(const PluginFilter&) = delete;
  PluginFilter& operator=(const PluginFilter&) = delete;

  void match_index(const tenon_index_entry* in,
                   std::size_t n,
                   std::uint8_t* verdict) const override {
    plugin_->match_index(plugin_.self, expr_, in, sizeof *in, n, verdict);
  }
  void match_properties(const tenon_bytes* properties,
                        std::size_t n,
                        std::uint8_t* verdict) const override {
    if (plugin_->match_properties == nullptr) {
      std::fill_n(verdict, n, std::uint8_t{kYes});
      return;
    }
    plugin_->match_properties(plugin_.self, expr_, properties, n, verdict);
  }

 private:
  host::Interface<tenon_filter> plugin_;
  tenon_filter_expr* expr_;
};

}  // namespace

bool Filter::may_match(const tenon_arrival& arrival) const {
  tenon_index_entry entry{};
  entry.phys = arrival.phys;
  entry.tags_code = arrival.tags_code;
  entry.store_ms = arrival.store_ms;
  entry.bitmap = arrival.bitmap;
  entry.flags = arrival.bitmap.len > 0 ? TENON_EXTENDED : 0;
  std::uint8_t verdict = kNo;
  match_index(&entry, 1, &verdict);
  if (verdict != kUndecided || arrival.properties.len == 0) {
    return verdict != kNo;
  }
  match_properties(&arrival.properties, 1, &verdict);
  return verdict == kYes;
}

void Filters::add(const host::Interface<tenon_filter>& plugin) {
  for (const char* const* type = plugin->types; type != nullptr && *type != nullptr; ++type) {
    types_.try_emplace(*type, plugin);
  }
}

bool Filters::knows(std::string_view type) const {
  return type.empty() || type == kTagType || types_.find(type) != types_.end();
}

Result<FilterPtr> Filters::compile(std::string_view type, std::string_view text) const {
  if (type.empty()) {
    type = kTagType;
  }
  if (type == kTagType && tag_codes(text).empty()) {
    return FilterPtr{};
  }
  const auto it = types_.find(type);
  if (it != types_.end()) {
    tenon_filter_expr* expr = nullptr;
    host::ErrorBuffer error;
    const tenon_status status = it->second->compile(
        it->second.self, host::abi_str(type), host::abi_str(text), 0, &expr, error.raw());
    if (status < 0) {
      return error.make_error(status);
    }
    return FilterPtr(std::make_shared<PluginFilter>(it->second, expr));
  }
  if (type == kTagType) {
    return FilterPtr(std::make_shared<TagFilter>(tag_codes(text)));
  }
  return Error{Errc::kUnsupported, "no filter for expressions of type " + std::string(type)};
}

Result<FilterPtr> Filters::compiled(std::string_view type, std::string_view text) const {
  if (type.empty() || type == kTagType) {
    return compile(type, text);
  }
  {
    const std::scoped_lock lock(mutex_);
    const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) {
      return k.type == type && k.text == text;
    });
    if (it != kept_.end()) {
      std::rotate(kept_.begin(), it, it + 1);
      return kept_.front().filter;
    }
  }
  auto filter = compile(type, text);
  if (filter.has_value()) {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() >= kKept) {
      kept_.pop_back();
    }
    kept_.insert(kept_.begin(), Kept{std::string(type), std::string(text), filter.value()});
  }
  return filter;
}

}  // namespace tenon::broker
