// Values of SQL92 evaluation and Java's rules for turning property texts into them (spec: broker
// §9.5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::filter_sql92 {

enum class Type : std::uint8_t { kNull, kBool, kInt, kLong, kDouble, kText };

/// Trivial; a text points into a property text or a compiled program.
struct Value {
  Type type = Type::kNull;
  bool truth = false;
  std::uint32_t text_bytes = 0;
  union {
    std::int64_t number;
    double real;
    const char* text_at;
  };

  Value() noexcept
      : number(0) {}
  static Value null() noexcept { return {}; }
  static Value boolean(bool b) noexcept {
    Value v;
    v.type = Type::kBool;
    v.truth = b;
    return v;
  }
  static Value integer(Type type, std::int64_t n) noexcept {
    Value v;
    v.type = type;
    v.number = n;
    return v;
  }
  static Value floating(double d) noexcept {
    Value v;
    v.type = Type::kDouble;
    v.real = d;
    return v;
  }
  static Value text(std::string_view s) noexcept {
    Value v;
    v.type = Type::kText;
    v.text_bytes = static_cast<std::uint32_t>(s.size());
    v.text_at = s.data();
    return v;
  }

  bool is_null() const noexcept { return type == Type::kNull; }
  bool is_number() const noexcept {
    return type == Type::kInt || type == Type::kLong || type == Type::kDouble;
  }
  bool is_true() const noexcept { return type == Type::kBool && truth; }
  bool is_false() const noexcept { return type == Type::kBool && !truth; }
  std::string_view str() const noexcept { return {text_at, text_bytes}; }
};

/// Integer.valueOf (bits 32) and Long.valueOf (64). False: NumberFormatException.
bool parse_integer(std::string_view text, unsigned bits, std::int64_t& out) noexcept;
/// Double.valueOf.
bool parse_double(std::string_view text, double& out) noexcept;
/// Boolean.valueOf.
bool parse_boolean(std::string_view text) noexcept;
/// Double.compare: NaN is the largest and equals itself, -0.0 is below 0.0.
int compare_doubles(double a, double b) noexcept;
/// Double.toString.
std::string java_text(double d);

}  // namespace tenon::filter_sql92
