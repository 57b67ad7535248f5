#include "builder.h"

#include "name_bit.h"
#include "order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <variant>

namespace tenon::filter_sql92 {
namespace {

constexpr std::string_view kRuntime = "java.lang.RuntimeException: ";
constexpr std::string_view kParse = "org.apache.rocketmq.filter.parser.ParseException: ";
constexpr std::string_view kNumber = "java.lang.NumberFormatException: ";

[[noreturn]] void refuse(std::string_view kind, std::string what) {
  throw SyntaxError{std::string(kind) + std::move(what), 0};
}

std::string_view sign_of(Compare how) noexcept {
  switch (how) {
    case Compare::kEqual:
      return "==";
    case Compare::kLess:
      return "<";
    case Compare::kLessEqual:
      return "<=";
    case Compare::kGreater:
      return ">";
    case Compare::kGreaterEqual:
      return ">=";
  }
  return "";
}

std::string_view word_of(Search how) noexcept {
  switch (how) {
    case Search::kContains:
      return "CONTAINS";
    case Search::kStartsWith:
      return "STARTSWITH";
    case Search::kEndsWith:
      return "ENDSWITH";
  }
  return "";
}

/// "'it''s'" without its quotes.
std::string unquoted(std::string_view quoted) {
  std::string out;
  out.reserve(quoted.size());
  for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
    out.push_back(quoted[i]);
    if (quoted[i] == '\'') {
      ++i;
    }
  }
  return out;
}

/// Java's complaint about a comparison that throws.
std::string conversion_error(const Value& l, const Value& r) {
  if (l.type == Type::kBool) {
    return "java.lang.ClassCastException: class java.lang.Boolean cannot be cast to class "
           "java.lang.String (java.lang.Boolean and java.lang.String are in module java.base of "
           "loader 'bootstrap')";
  }
  const Value& text = l.type == Type::kText ? l : r;
  const Value& number = l.type == Type::kText ? r : l;
  std::string out = std::string(kRuntime) + std::string(kNumber);
  if (number.type == Type::kDouble && text.str().find_first_not_of(' ') == std::string_view::npos) {
    return out + "empty String";
  }
  return out + fmt::format("For input string: \"{}\"", text.str());
}

}  // namespace

NodeId Builder::add(const Node& node) {
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Builder::count_constants(std::size_t n) {
  constants_ += n;
  if (constants_ > limits_.constant_max) {
    refuse("", fmt::format("more than {} constants", limits_.constant_max));
  }
}

std::string_view Builder::keep(std::string_view quoted) {
  return program_.texts_.emplace_back(unquoted(quoted));
}

NodeId Builder::constant(const Value& value) {
  count_constants(1);
  program_.constants_.push_back(value);
  Node node;
  node.a = static_cast<std::uint32_t>(program_.constants_.size() - 1);
  return add(node);
}

NodeId Builder::property(std::string_view name) {
  auto& names = program_.names_;
  const auto it = std::find(names.begin(), names.end(), name);
  Node node;
  node.op = Op::kProperty;
  node.a = static_cast<std::uint32_t>(it - names.begin());
  if (it == names.end()) {
    if (names.size() == Program::kPropertyMax) {
      refuse("", fmt::format("more than {} different properties", Program::kPropertyMax));
    }
    names.emplace_back(name);
    program_.name_bits_ |= name_bit(name);
  }
  return add(node);
}

NodeId Builder::text(std::string_view quoted) {
  return constant(Value::text(keep(quoted)));
}

NodeId Builder::decimal(std::string_view image) {
  if ((image.back() | 0x20) == 'l') {
    image.remove_suffix(1);
  }
  std::int64_t n = 0;
  if (!parse_integer(image, 64, n)) {
    refuse(kNumber, fmt::format("For input string: \"{}\"", image));
  }
  const bool small = n <= std::numeric_limits<std::int32_t>::max();
  return constant(Value::integer(small ? Type::kInt : Type::kLong, n));
}

NodeId Builder::floating(std::string_view image) {
  double d = 0;
  if (!parse_double(image, d)) {
    refuse(kNumber, fmt::format("For input string: \"{}\"", image));
  }
  if (d > std::numeric_limits<double>::max()) {
    refuse(kRuntime, fmt::format("{} is greater than 1.7976931348623157E308", image));
  }
  // Trap: zero is refused too (spec: broker §9.2).
  if (d < std::numeric_limits<double>::denorm_min()) {
    refuse(kRuntime, fmt::format("{} is less than 4.9E-324", image));
  }
  return constant(Value::floating(d));
}

NodeId Builder::truth(bool value) {
  return constant(Value::boolean(value));
}

NodeId Builder::null() {
  return constant(Value::null());
}

bool Builder::is_boolean(NodeId x) const {
  const Node& node = nodes_[x];
  switch (node.op) {
    case Op::kConstant:
      return value_of(x).type == Type::kBool || value_of(x).is_null();
    case Op::kProperty:
    case Op::kNegate:
      return false;
    case Op::kNot:
    case Op::kCast:
    case Op::kAnd:
    case Op::kOr:
    case Op::kCompare:
    case Op::kIn:
    case Op::kSearch:
      return true;
  }
  return true;
}

NodeId Builder::as_boolean(NodeId x) {
  if (is_boolean(x)) {
    return x;
  }
  if (nodes_[x].op != Op::kProperty) {
    refuse(kParse, "Expression will not result in a boolean value: " + shown(x));
  }
  Node node;
  node.op = Op::kCast;
  node.l = x;
  return add(node);
}

NodeId Builder::negate(NodeId x) {
  Node node;
  node.op = Op::kNegate;
  node.l = x;
  return add(node);
}

NodeId Builder::logical_not(NodeId x) {
  Node node;
  node.op = Op::kNot;
  node.l = as_boolean(x);
  return add(node);
}

NodeId Builder::logical_and(NodeId l, NodeId r) {
  Node node;
  node.op = Op::kAnd;
  node.l = as_boolean(l);
  node.r = as_boolean(r);
  return add(node);
}

NodeId Builder::logical_or(NodeId l, NodeId r) {
  Node node;
  node.op = Op::kOr;
  node.l = as_boolean(l);
  node.r = as_boolean(r);
  return add(node);
}

NodeId Builder::equal(NodeId l, NodeId r, bool negated) {
  for (const NodeId x : {l, r}) {
    if (is_constant(x) && value_of(x).is_null()) {
      refuse(kRuntime, fmt::format("'{}' cannot be compared.", shown(x)));
    }
  }
  if (is_constant(l) && is_constant(r) && is_boolean(l) && !is_boolean(r)) {
    refuse(kRuntime, fmt::format("'{}' cannot be compared with '{}'", shown(l), shown(r)));
  }
  Node node;
  node.op = Op::kCompare;
  node.l = l;
  node.r = r;
  const NodeId same = add(node);
  return negated ? logical_not(same) : same;
}

NodeId Builder::is_null(NodeId x, bool negated) {
  Node node;
  node.op = Op::kCompare;
  node.l = x;
  node.r = null();
  const NodeId same = add(node);
  return negated ? logical_not(same) : same;
}

void Builder::check_order(NodeId x) const {
  if (is_constant(x) ? !value_of(x).is_number() : is_boolean(x)) {
    refuse(kRuntime, fmt::format("Value '{}' cannot be compared.", shown(x)));
  }
}

NodeId Builder::order(NodeId l, NodeId r, Compare how) {
  check_order(l);
  check_order(r);
  Node node;
  node.op = Op::kCompare;
  node.compare = how;
  node.l = l;
  node.r = r;
  return add(node);
}

/// Trap: Java compares the bounds of BETWEEN, not of NOT BETWEEN, and before it looks at their types.
void Builder::check_bounds(const Value& low, const Value& high) const {
  if (low.is_null() || high.is_null()) {
    refuse(kRuntime, "Illegal values of between, values can not be null!");
  }
  const bool texts = low.type == Type::kText && high.type == Type::kText;
  const Order order = texts ? order_of(std::int64_t{high.str().compare(low.str())}, std::int64_t{0})
                            : order_of(high, low, Compare::kLess);
  if (order == Order::kThrows) {
    refuse("", conversion_error(high, low));
  }
  if (order == Order::kLess) {
    refuse(kRuntime,
           fmt::format("Illegal values of between, left value({}) must less than or equal to "
                       "right value({})",
                       shown_constant(low),
                       shown_constant(high)));
  }
}

NodeId Builder::between(NodeId x, NodeId low, NodeId high, bool negated) {
  if (negated) {
    const NodeId below = order(x, low, Compare::kLess);
    const NodeId above = order(x, high, Compare::kGreater);
    return logical_or(below, above);
  }
  if (is_constant(low) && is_constant(high)) {
    check_bounds(value_of(low), value_of(high));
  }
  const NodeId from = order(x, low, Compare::kGreaterEqual);
  const NodeId to = order(x, high, Compare::kLessEqual);
  return logical_and(from, to);
}

NodeId Builder::in(NodeId x, std::vector<std::string_view> quoted, bool negated) {
  if (nodes_[x].op != Op::kProperty) {
    refuse(kRuntime, "Expected a property for In expression, got: " + shown(x));
  }
  count_constants(quoted.size());
  Node node;
  node.op = Op::kIn;
  node.negated = negated;
  node.l = x;
  node.a = static_cast<std::uint32_t>(lists_.size());
  node.count = static_cast<std::uint32_t>(quoted.size());
  for (const std::string_view q : quoted) {
    lists_.push_back(keep(q));
  }
  return add(node);
}

NodeId Builder::search(NodeId x, std::string_view quoted, Search how, bool negated) {
  count_constants(1);
  program_.constants_.push_back(Value::text(keep(quoted)));
  Node node;
  node.op = Op::kSearch;
  node.search = how;
  node.negated = negated;
  node.l = x;
  node.a = static_cast<std::uint32_t>(program_.constants_.size() - 1);
  return add(node);
}

std::string Builder::shown_constant(const Value& v) const {
  switch (v.type) {
    case Type::kNull:
      return "null";
    case Type::kBool:
      return v.truth ? "true" : "false";
    case Type::kInt:
    case Type::kLong:
      return std::to_string(v.number);
    case Type::kDouble:
      return java_text(v.real);
    case Type::kText:
      return std::string(v.str());
  }
  return {};
}

/// Java's toString() of an expression. Not recursive: a chain of ANDs is as deep as it is long.
std::string Builder::shown(NodeId root) const {
  std::string out;
  std::vector<std::variant<NodeId, std::string>> todo{root};
  const auto binary = [&](const Node& node, std::string_view sign) {
    todo.emplace_back(")");
    todo.emplace_back(node.r);
    todo.emplace_back(fmt::format(" {} ", sign));
    todo.emplace_back(node.l);
    out += "(";
  };
  while (!todo.empty()) {
    const auto next = std::move(todo.back());
    todo.pop_back();
    if (const auto* literal = std::get_if<std::string>(&next)) {
      out += *literal;
      continue;
    }
    const NodeId id = std::get<NodeId>(next);
    const Node& node = nodes_[id];
    switch (node.op) {
      case Op::kConstant: {
        const Value& v = value_of(id);
        if (v.type == Type::kBool || v.is_null()) {
          out += v.is_null() ? "NULL" : v.truth ? "TRUE" : "FALSE";
        } else if (v.type == Type::kText) {
          out += "'";
          for (const char c : v.str()) {
            out.append(c == '\'' ? 2 : 1, c);
          }
          out += "'";
        } else {
          out += shown_constant(v);
        }
        break;
      }
      case Op::kProperty:
        out += program_.names_[node.a];
        break;
      case Op::kNegate:
      case Op::kNot:
        out += node.op == Op::kNot ? "(NOT " : "(- ";
        todo.emplace_back(")");
        todo.emplace_back(node.l);
        break;
      case Op::kCast:
        todo.emplace_back(node.l);
        break;
      case Op::kAnd:
        binary(node, "&&");
        break;
      case Op::kOr:
        binary(node, "||");
        break;
      case Op::kCompare:
        binary(node, sign_of(node.compare));
        break;
      case Op::kIn: {
        out += program_.names_[nodes_[node.l].a];
        out += node.negated ? " NOT IN ( " : " IN ( ";
        for (std::uint32_t i = 0; i < node.count; ++i) {
          out += i == 0 ? "" : ", ";
          out += lists_[node.a + i];
        }
        out += " )";
        break;
      }
      case Op::kSearch:
        out += node.negated ? "(NOT " : "(";
        out += word_of(node.search);
        out += " ";
        todo.emplace_back(")");
        todo.emplace_back(node.l);
        break;
    }
  }
  return out;
}

/// Appends the operation of a node whose operands are on the stack.
void Builder::emit_node(const Node& node) {
  filter_sql92::Op op;
  op.compare = node.compare;
  op.search = node.search;
  op.negated = node.negated;
  op.a = node.a;
  switch (node.op) {
    case Op::kConstant:
      op.code = Code::kConstant;
      break;
    case Op::kProperty:
      op.code = Code::kProperty;
      break;
    case Op::kNegate:
      op.code = Code::kNegate;
      break;
    case Op::kNot:
      op.code = Code::kNot;
      break;
    case Op::kCast:
      op.code = Code::kCast;
      break;
    case Op::kAnd:
      op.code = Code::kAnd;
      break;
    case Op::kOr:
      op.code = Code::kOr;
      break;
    case Op::kCompare:
      op.code = Code::kCompare;
      break;
    case Op::kSearch:
      op.code = Code::kSearch;
      break;
    case Op::kIn: {
      auto& set = program_.set_;
      std::vector<std::string_view> sorted(lists_.begin() + node.a,
                                           lists_.begin() + node.a + node.count);
      std::sort(sorted.begin(), sorted.end());
      sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
      op.code = Code::kIn;
      op.a = nodes_[node.l].a;
      op.b = static_cast<std::uint32_t>(set.size());
      op.count = static_cast<std::uint32_t>(sorted.size());
      set.insert(set.end(), sorted.begin(), sorted.end());
      break;
    }
  }
  program_.code_.push_back(op);
}

void Builder::emit(NodeId root) {
  struct Step {
    enum class Do : std::uint8_t { kVisit, kEmit, kSkip, kLand } what = Do::kVisit;
    NodeId node = 0;
  };
  using Do = Step::Do;
  auto& code = program_.code_;
  std::vector<Step> todo{{Do::kVisit, root}};
  std::vector<std::size_t> open;  // skips that wait for where they lead
  while (!todo.empty()) {
    const Step step = todo.back();
    todo.pop_back();
    const Node& node = nodes_[step.node];
    const bool logic = node.op == Op::kAnd || node.op == Op::kOr;
    switch (step.what) {
      case Do::kEmit:
        emit_node(node);
        continue;
      case Do::kSkip: {
        filter_sql92::Op skip;
        skip.code = node.op == Op::kAnd  ? Code::kSkipIfFalse
                    : node.op == Op::kOr ? Code::kSkipIfTrue
                                         : Code::kSkipIfNull;
        open.push_back(code.size());
        code.push_back(skip);
        continue;
      }
      case Do::kLand:
        code[open.back()].a = static_cast<std::uint32_t>(code.size());
        open.pop_back();
        continue;
      case Do::kVisit:
        break;
    }
    if (node.op == Op::kCompare && nodes_[node.l].op == Op::kProperty && is_constant(node.r)) {
      filter_sql92::Op direct;
      direct.code = Code::kCompareDirect;
      direct.compare = node.compare;
      direct.a = nodes_[node.l].a;
      direct.b = nodes_[node.r].a;
      code.push_back(direct);
      continue;
    }
    if (node.op == Op::kSearch && program_.constants_[node.a].str().empty()) {
      // Trap: decided before its left side is looked at.
      program_.constants_.push_back(Value::boolean(false));
      filter_sql92::Op no;
      no.a = static_cast<std::uint32_t>(program_.constants_.size() - 1);
      code.push_back(no);
      continue;
    }
    // Trap: < and its kin do not look at their right side if the left one is null; only something
    // like -(a > b) can tell, because it can throw.
    const bool skips = logic || (node.op == Op::kCompare && node.compare != Compare::kEqual &&
                                 nodes_[node.r].op == Op::kNegate);
    if (skips) {
      todo.push_back({Do::kLand, step.node});
    }
    todo.push_back({Do::kEmit, step.node});
    if (logic || node.op == Op::kCompare) {
      todo.push_back({Do::kVisit, node.r});
    }
    if (skips) {
      todo.push_back({Do::kSkip, step.node});
    }
    if (node.op != Op::kConstant && node.op != Op::kProperty && node.op != Op::kIn) {
      todo.push_back({Do::kVisit, node.l});
    }
  }
}

/// Deepest the stack gets. A skip changes nothing: it leads to where one value is left as well.
std::size_t Builder::stack_need() const {
  std::size_t deep = 0;
  std::size_t now = 0;
  for (const filter_sql92::Op& op : program_.code_) {
    switch (op.code) {
      case Code::kProperty:
      case Code::kConstant:
      case Code::kCompareDirect:
      case Code::kIn:
        deep = std::max(deep, ++now);
        break;
      case Code::kCompare:
      case Code::kAnd:
      case Code::kOr:
        --now;
        break;
      case Code::kNegate:
      case Code::kNot:
      case Code::kCast:
      case Code::kSearch:
      case Code::kSkipIfFalse:
      case Code::kSkipIfTrue:
      case Code::kSkipIfNull:
        break;
    }
  }
  return deep;
}

Program Builder::finish(NodeId root) {
  root = as_boolean(root);
  emit(root);
  if (stack_need() > Program::kStackMax) {
    refuse("", "the expression is too deep");
  }
  program_.normalised_ = shown(root);
  return std::move(program_);
}

}  // namespace tenon::filter_sql92
