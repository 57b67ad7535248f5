// A compiled SQL92 expression: a flat program over a small stack (spec: broker §9.5).
#pragma once

#include "value.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::filter_sql92 {

enum class Compare : std::uint8_t { kEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
enum class Search : std::uint8_t { kContains, kStartsWith, kEndsWith };

enum class Code : std::uint8_t {
  kProperty,       ///< push property a
  kConstant,       ///< push constant a
  kCompare,        ///< pop right, left; push left `compare` right
  kCompareDirect,  ///< push property a `compare` constant b
  kNegate,
  kNot,
  kCast,         ///< to a boolean: null stays, anything but a boolean is FALSE
  kAnd,          ///< pop two, push one
  kOr,           ///< pop two, push one
  kSkipIfFalse,  ///< continue at a if the top is FALSE, which stays
  kSkipIfTrue,
  kSkipIfNull,
  kIn,      ///< push property a IN texts [b, b + count); negated
  kSearch,  ///< pop; push whether it contains constant a; negated
};

struct Op {
  Code code = Code::kConstant;
  Compare compare = Compare::kEqual;
  Search search = Search::kContains;
  bool negated = false;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t count = 0;
};

enum class Outcome : std::uint8_t { kTrue, kFalse, kUnknown, kFailed };

/// Immutable after it was built. Thread: any.
class Program {
 public:
  static constexpr std::size_t kPropertyMax = 256;
  static constexpr std::size_t kStackMax = 1024;

  Program() = default;
  Program(Program&&) noexcept = default;
  Program& operator=(Program&&) noexcept = default;
  Program(const Program&) = delete;  // values point into texts_
  Program& operator=(const Program&) = delete;

  /// Evaluates over a raw properties text in place. Does not allocate.
  Outcome run(std::string_view properties) const noexcept;
  /// The same for values in the order of properties(); no data pointer = absent.
  Outcome evaluate(const std::string_view* values) const noexcept;

  const std::vector<std::string>& properties() const noexcept { return names_; }
  std::size_t constant_count() const noexcept { return constants_.size() + set_.size(); }
  const std::string& normalised() const noexcept { return normalised_; }

 private:
  friend class Builder;
  struct Name {
    const char* at = nullptr;
    std::uint32_t bytes = 0;
  };

  void collect(std::string_view text, std::string_view* values) const noexcept;

  std::vector<Op> code_{};
  std::vector<Value> constants_{};
  std::vector<std::string_view> set_{};  ///< of all IN lists, each sorted
  std::vector<std::string> names_{};
  std::uint64_t name_bits_ = 0;  ///< which names can be wanted, by length and first byte
  std::deque<std::string> texts_{};
  std::string normalised_{};
};

}  // namespace tenon::filter_sql92
