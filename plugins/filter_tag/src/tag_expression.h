// A subscription by tags, compiled: the set of the tags' hash codes (spec: broker §9.1).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::filter_tag {

/// Immutable. Thread: any after construction.
class TagExpression {
 public:
  /// `text` as a client sends it: empty or "*" is everything, else tags separated by "||". Any text
  /// is legal but one that consists of separators only.
  static bool is_legal(std::string_view text) noexcept;
  explicit TagExpression(std::string_view text);

  bool matches_all() const noexcept { return all_; }

  /// Trap: the test is by hash on purpose; clients compare the strings again, so tags that collide
  /// ("Aa" and "BB") both pass.
  bool matches(std::int32_t code) const noexcept {
    if (all_) {
      return true;
    }
    if (table_.empty()) {  // few codes: one comparison of the whole array, which the compiler
                           // turns into vector instructions
      bool found = false;
      for (const std::int32_t known : few_) {
        found |= known == code;
      }
      return found;
    }
    for (std::uint32_t at = spread(code);; ++at) {
      const Cell& cell = table_[at & mask_];
      if (!cell.used || cell.code == code) {
        return cell.used;
      }
    }
  }

  /// Tags without blanks, in the order of the text.
  const std::vector<std::string>& tags() const noexcept { return tags_; }
  /// "A || B", or "*".
  std::string normalised() const;

 private:
  static constexpr std::size_t kFew = 8;
  struct Cell {
    std::int32_t code = 0;
    bool used = false;
  };
  static std::uint32_t spread(std::int32_t code) noexcept {
    return static_cast<std::uint32_t>(code) * 0x9e3779b1u >> 7;
  }

  bool all_ = false;
  std::array<std::int32_t, kFew> few_{};  ///< unused places repeat the first code
  std::uint32_t mask_ = 0;
  std::vector<Cell> table_;  ///< open addressing, at most half full; empty with few codes
  std::vector<std::string> tags_;
};

}  // namespace tenon::filter_tag
