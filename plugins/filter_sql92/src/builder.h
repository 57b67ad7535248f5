// Expressions under construction: nodes with the checks of the Java filter (spec: broker §9.4),
// then the program.
#pragma once

#include "program.h"
#include "token.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::filter_sql92 {

/// What a text may ask for; beyond it is refused.
struct Limits {
  std::size_t text_bytes_max = 64 * 1024;
  std::uint32_t depth_max = 200;  ///< of nested parentheses, NOT, + and -
  std::uint32_t constant_max = 4096;
};

/// Index of a node.
using NodeId = std::uint32_t;

/// Every function throws SyntaxError with Java's text when the combination is not allowed.
class Builder {
 public:
  explicit Builder(const Limits& limits)
      : limits_(limits) {}

  NodeId property(std::string_view name);
  NodeId text(std::string_view quoted);    ///< with its quotes
  NodeId decimal(std::string_view image);  ///< with its suffix
  NodeId floating(std::string_view image);
  NodeId truth(bool value);
  NodeId null();

  NodeId negate(NodeId x);
  NodeId logical_not(NodeId x);
  NodeId logical_and(NodeId l, NodeId r);
  NodeId logical_or(NodeId l, NodeId r);
  NodeId equal(NodeId l, NodeId r, bool negated);
  NodeId is_null(NodeId x, bool negated);
  NodeId order(NodeId l, NodeId r, Compare how);
  NodeId between(NodeId x, NodeId low, NodeId high, bool negated);
  NodeId in(NodeId x, std::vector<std::string_view> quoted, bool negated);
  NodeId search(NodeId x, std::string_view quoted, Search how, bool negated);

  /// The finished program of the expression. The builder is used up.
  Program finish(NodeId root);

 private:
  enum class Op : std::uint8_t {
    kConstant,
    kProperty,
    kNegate,
    kNot,
    kCast,
    kAnd,
    kOr,
    kCompare,
    kIn,
    kSearch,
  };
  struct Node {
    Op op = Op::kConstant;
    Compare compare = Compare::kEqual;
    Search search = Search::kContains;
    bool negated = false;
    NodeId l = 0;
    NodeId r = 0;
    std::uint32_t a = 0;      ///< constant, property, or first of an IN list
    std::uint32_t count = 0;  ///< of an IN list
  };

  NodeId add(const Node& node);
  NodeId constant(const Value& value);
  NodeId as_boolean(NodeId x);
  bool is_boolean(NodeId x) const;
  bool is_constant(NodeId x) const { return nodes_[x].op == Op::kConstant; }
  const Value& value_of(NodeId x) const { return program_.constants_[nodes_[x].a]; }
  void check_order(NodeId x) const;
  void check_bounds(const Value& low, const Value& high) const;
  std::string shown(NodeId x) const;
  std::string shown_constant(const Value& v) const;
  std::string_view keep(std::string_view quoted);
  void count_constants(std::size_t n);
  void emit(NodeId root);
  void emit_node(const Node& node);
  std::size_t stack_need() const;

  const Limits limits_;
  std::vector<Node> nodes_{};
  Program program_{};
  std::size_t constants_ = 0;
  std::vector<std::string_view> lists_{};  ///< IN lists in the order of the text
};

}  // namespace tenon::filter_sql92
