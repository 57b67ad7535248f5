#include "program.h"

#include "name_bit.h"
#include "order.h"

#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>

namespace tenon::filter_sql92 {
namespace {

/// False: evaluation throws.
bool compare(const Value& l, const Value& r, Compare how, Value& out) noexcept {
  if (l.is_null() || r.is_null()) {
    // Trap: null on the left is unknown, on the right only FALSE; two nulls are equal.
    out = how != Compare::kEqual || (l.is_null() && !r.is_null())
              ? Value::null()
              : Value::boolean(l.is_null() && r.is_null());
    return true;
  }
  const Order order = order_of(l, r, how);
  if (order == Order::kThrows) {
    return false;
  }
  bool result = false;
  switch (how) {
    case Compare::kEqual:
      result = order == Order::kSame;
      break;
    case Compare::kLess:
      result = order == Order::kLess;
      break;
    case Compare::kLessEqual:
      result = order != Order::kMore;
      break;
    case Compare::kGreater:
      result = order == Order::kMore;
      break;
    case Compare::kGreaterEqual:
      result = order != Order::kLess;
      break;
  }
  out = Value::boolean(result);
  return true;
}

Value negate(const Value& v) noexcept {
  switch (v.type) {
    case Type::kInt:
      return Value::integer(Type::kInt,
                            static_cast<std::int32_t>(0u - static_cast<std::uint32_t>(v.number)));
    case Type::kLong:
      return Value::integer(Type::kLong,
                            static_cast<std::int64_t>(0u - static_cast<std::uint64_t>(v.number)));
    case Type::kDouble:
      return Value::floating(-v.real);
    case Type::kNull:
    case Type::kBool:
    case Type::kText:
      break;
  }
  return Value::null();
}

Value both(const Value& l, const Value& r) noexcept {
  if (l.is_false() || r.is_false()) {
    return Value::boolean(false);
  }
  return l.is_null() || r.is_null() ? Value::null() : Value::boolean(true);
}

Value either(const Value& l, const Value& r) noexcept {
  if (l.is_true() || r.is_true()) {
    return Value::boolean(true);
  }
  return l.is_null() || r.is_null() ? Value::null() : Value::boolean(false);
}

/// Trap: FALSE for whatever cannot be searched, in the NOT forms too (spec: broker §9.5).
Value search(const Value& in, std::string_view wanted, Search how, bool negated) noexcept {
  if (in.type != Type::kText || wanted.empty()) {
    return Value::boolean(false);
  }
  const std::string_view text = in.str();
  bool found = false;
  switch (how) {
    case Search::kContains:
      found = text.find(wanted) != std::string_view::npos;
      break;
    case Search::kStartsWith:
      found = text.starts_with(wanted);
      break;
    case Search::kEndsWith:
      found = text.ends_with(wanted);
      break;
  }
  return Value::boolean(found != negated);
}

}  // namespace

/// The last value of each wanted property, as a decoder's map would have it.
void Program::collect(std::string_view text, std::string_view* values) const noexcept {
  const std::size_t wanted = names_.size();
  for (proto::PropertyIterator it(text); it.next();) {
    const std::string_view name = it.name();
    if ((name_bits_ & name_bit(name)) == 0) {
      continue;
    }
    for (std::size_t i = 0; i < wanted; ++i) {
      if (names_[i] == name) {
        values[i] = it.value();
        break;
      }
    }
  }
}

Outcome Program::run(std::string_view properties) const noexcept {
  std::array<std::string_view, kPropertyMax> values;
  std::fill_n(values.begin(), names_.size(), std::string_view{});
  collect(properties, values.data());
  return evaluate(values.data());
}

Outcome Program::evaluate(const std::string_view* values) const noexcept {
  // An absent property has no text at all; an empty one cannot be stored.
  const auto property = [values](std::uint32_t i) {
    return values[i].data() == nullptr ? Value::null() : Value::text(values[i]);
  };

  union Stack {  // left uninitialised on purpose
    Stack() noexcept {}
    Value values[kStackMax];
  } stack;
  Value* top = stack.values;  // one behind the last
  const auto code_end = static_cast<std::uint32_t>(code_.size());
  for (std::uint32_t at = 0; at < code_end; ++at) {
    const Op& op = code_[at];
    switch (op.code) {
      case Code::kProperty:
        *top++ = property(op.a);
        break;
      case Code::kConstant:
        *top++ = constants_[op.a];
        break;
      case Code::kCompare:
        --top;
        if (!compare(top[-1], top[0], op.compare, top[-1])) {
          return Outcome::kFailed;
        }
        break;
      case Code::kCompareDirect:
        if (!compare(property(op.a), constants_[op.b], op.compare, *top++)) {
          return Outcome::kFailed;
        }
        break;
      case Code::kNegate:
        top[-1] = negate(top[-1]);
        break;
      case Code::kNot:
        if (!top[-1].is_null()) {
          top[-1] = Value::boolean(!top[-1].truth);
        }
        break;
      case Code::kCast:
        if (!top[-1].is_null() && top[-1].type != Type::kBool) {
          top[-1] = Value::boolean(false);
        }
        break;
      case Code::kAnd:
        --top;
        top[-1] = both(top[-1], top[0]);
        break;
      case Code::kOr:
        --top;
        top[-1] = either(top[-1], top[0]);
        break;
      case Code::kSkipIfFalse:
        if (top[-1].is_false()) {
          at = op.a - 1;
        }
        break;
      case Code::kSkipIfTrue:
        if (top[-1].is_true()) {
          at = op.a - 1;
        }
        break;
      case Code::kSkipIfNull:
        if (top[-1].is_null()) {
          at = op.a - 1;
        }
        break;
      case Code::kIn: {
        const Value v = property(op.a);
        const auto first = set_.begin() + op.b;
        *top++ = v.is_null() ? v
                             : Value::boolean(std::binary_search(
                                                  first, first + op.count, v.str()) != op.negated);
        break;
      }
      case Code::kSearch:
        top[-1] = search(top[-1], constants_[op.a].str(), op.search, op.negated);
        break;
    }
  }
  const Value& result = top[-1];
  return result.is_true() ? Outcome::kTrue : result.is_null() ? Outcome::kUnknown : Outcome::kFalse;
}

}  // namespace tenon::filter_sql92
