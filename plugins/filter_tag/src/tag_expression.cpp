#include "tag_expression.h"

#include "tenon/proto/properties.h"

#include <algorithm>
#include <bit>

namespace tenon::filter_tag {
namespace {

/// Java's String.trim(): everything up to and including U+0020 goes.
std::string_view trim(std::string_view s) {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
  while (!s.empty() && blank(s.front())) {
    s.remove_prefix(1);
  }
  while (!s.empty() && blank(s.back())) {
    s.remove_suffix(1);
  }
  return s;
}

}  // namespace

bool TagExpression::is_legal(std::string_view text) noexcept {
  // Trap: splitting "||" gives nothing at all in Java, which the client refuses; splitting "|| "
  // gives a blank tag, which is dropped, and the subscription matches nothing.
  return text.empty() || text.size() % 2 != 0 || text.find_first_not_of('|') != text.npos;
}

TagExpression::TagExpression(std::string_view text) {
  if (text.empty() || text == "*") {
    all_ = true;
    return;
  }
  std::vector<std::int32_t> codes;
  while (true) {
    const std::size_t end = text.find("||");
    const std::string_view tag = trim(text.substr(0, end));
    if (!tag.empty() && std::find(tags_.begin(), tags_.end(), tag) == tags_.end()) {
      tags_.emplace_back(tag);
      codes.push_back(proto::java_hash(tag));
    }
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 2);
  }
  if (!codes.empty() && codes.size() <= kFew) {
    few_.fill(codes.front());
    std::copy(codes.begin(), codes.end(), few_.begin());
    return;
  }
  table_.resize(std::bit_ceil(std::max<std::size_t>(codes.size() * 2, 2)));
  mask_ = static_cast<std::uint32_t>(table_.size() - 1);
  for (const std::int32_t code : codes) {
    std::uint32_t at = spread(code);
    while (table_[at & mask_].used && table_[at & mask_].code != code) {
      ++at;
    }
    table_[at & mask_] = {code, true};
  }
}

std::string TagExpression::normalised() const {
  if (all_) {
    return "*";
  }
  std::string out;
  for (const std::string& tag : tags_) {
    out += (out.empty() ? "" : " || ") + tag;
  }
  return out;
}

}  // namespace tenon::filter_tag
