// How two values compare: Java's conversions by the types on both sides (spec: broker §9.5,
// "Comparison conversion"). Inline: this is what an evaluation consists of.
#pragma once

#include "program.h"
#include "value.h"

#include <cstdint>
#include <string_view>

namespace tenon::filter_sql92 {

/// What a comparison leaves: -1, 0, 1, or that evaluation ends here.
enum class Order : std::int8_t { kLess = -1, kSame = 0, kMore = 1, kThrows = 2 };

inline Order order_of(std::int64_t a, std::int64_t b) noexcept {
  return a == b ? Order::kSame : a < b ? Order::kLess : Order::kMore;
}
inline Order order_of(double a, double b) noexcept {
  return static_cast<Order>(compare_doubles(a, b));
}
inline double real_of(const Value& v) noexcept {
  return v.type == Type::kDouble ? v.real : static_cast<double>(v.number);
}

/// A text against a number: the text is read as the number's type.
inline Order order_text(std::string_view text, const Value& number) noexcept {
  if (number.type == Type::kDouble) {
    double d = 0;
    return parse_double(text, d) ? order_of(d, number.real) : Order::kThrows;
  }
  std::int64_t n = 0;
  return parse_integer(text, number.type == Type::kInt ? 32 : 64, n) ? order_of(n, number.number)
                                                                     : Order::kThrows;
}

inline Order reversed(Order o) noexcept {
  return o == Order::kLess ? Order::kMore : o == Order::kMore ? Order::kLess : o;
}

/// Two values that are not null (spec: broker §9.5, "Comparison conversion").
inline Order order_of(const Value& l, const Value& r, Compare how) noexcept {
  if (l.type == Type::kText) {
    switch (r.type) {
      case Type::kText: {
        if (how == Compare::kEqual) {
          return l.str() == r.str() ? Order::kSame : Order::kLess;
        }
        double a = 0;
        double b = 0;
        return parse_double(l.str(), a) && parse_double(r.str(), b) ? order_of(a, b)
                                                                    : Order::kThrows;
      }
      case Type::kBool:
        return order_of(std::int64_t{parse_boolean(l.str())}, std::int64_t{r.truth});
      case Type::kInt:
      case Type::kLong:
      case Type::kDouble:
        return order_text(l.str(), r);
      case Type::kNull:
        break;
    }
    return Order::kLess;
  }
  if (l.type == Type::kBool) {
    // Trap: a boolean against a text throws; the other way round it does not (spec: broker §9.5).
    return r.type == Type::kBool   ? order_of(std::int64_t{l.truth}, std::int64_t{r.truth})
           : r.type == Type::kText ? Order::kThrows
                                   : Order::kLess;
  }
  if (r.type == Type::kText) {
    return reversed(order_text(r.str(), l));
  }
  if (!r.is_number()) {
    return Order::kLess;
  }
  if (l.type == Type::kDouble || r.type == Type::kDouble) {
    return order_of(real_of(l), real_of(r));
  }
  return order_of(l.number, r.number);
}

}  // namespace tenon::filter_sql92
