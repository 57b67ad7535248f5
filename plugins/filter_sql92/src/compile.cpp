#include "compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <tao/pegtl.hpp>
#include <utility>
#include <vector>

namespace tenon::filter_sql92 {
namespace {

namespace p = tao::pegtl;

/// What the grammar's actions work on.
struct State {
  State(Lexer& lexer_in, Builder& build_in, Dialect dialect_in, const Limits& limits_in)
      : lexer(lexer_in),
        build(build_in),
        dialect(dialect_in),
        limits(limits_in) {}

  Lexer& lexer;
  Builder& build;
  const Dialect dialect;
  const Limits& limits;
  bool scanning = false;  ///< inside a syntactic look-ahead: nothing is built, errors are failures
  std::uint32_t depth = 0;
  Token token{};  ///< the last one matched
  std::vector<NodeId> operands{};
  std::vector<std::string_view> list{};

  std::uint32_t is_null_end = UINT32_MAX;  ///< where the last IS NULL ended

  std::string_view token_text() const noexcept { return lexer.text(token); }
  NodeId pop() {
    const NodeId top = operands.back();
    operands.pop_back();
    return top;
  }
};

using KindList = std::initializer_list<Kind>;

/// JavaCC's message for a token that cannot stand where it does.
[[noreturn]] void unexpected(const Lexer& lexer,
                             const Token& token,
                             const std::vector<Kind>& wanted) {
  const Place place = lexer.place(token);
  std::string what = "org.apache.rocketmq.filter.parser.ParseException: Encountered \"";
  if (token.kind == Kind::kEnd) {
    what += image_of(Kind::kEnd);
  } else {
    what += fmt::format(" {} \"{} \"", image_of(token.kind), escaped(lexer.text(token)));
  }
  what += fmt::format("\" at line {}, column {}.\nWas expecting{}:\n    ",
                      place.line,
                      place.column,
                      wanted.size() == 1 ? "" : " one of");
  for (const Kind kind : wanted) {
    what += image_of(kind);
    what += " ...\n    ";
  }
  throw SyntaxError{std::move(what), token.begin};
}

/// Where the parser is when it meets something unexpected.
enum class Where {
  kOperand,
  kAfterOperand,
  kAfterIsNull,
  kAfterNot,
  kAnd,
  kOpen,
  kString,
  kNot,
  kNull,
  kListMore
};

std::vector<Kind> wanted_at(Where where, Dialect dialect, Kind met) {
  using enum Kind;
  const bool five = dialect == Dialect::k5;
  std::vector<Kind> out;
  const auto add = [&out](KindList kinds) { out.insert(out.end(), kinds); };
  switch (where) {
    case Where::kOperand:
      add({kNot, kTrue, kFalse, kNull, kDecimal, kFloat, kString, kName, kOpen, kMinus});
      if (five && met != kPlus) {
        add({kPlus});
      }
      break;
    case Where::kAfterOperand:
      add({kNot, kAnd, kOr, kBetween, kIn, kIs});
      if (five) {
        add({kContains, kStartsWith, kEndsWith});
      }
      add({kEqual, kNotEqual, kGreater, kGreaterEqual, kLess, kLessEqual, kClose});
      break;
    case Where::kAfterIsNull:
      add({kAnd, kOr, kIs, kEqual, kNotEqual, kClose});
      break;
    case Where::kAfterNot:
      add({kBetween, kIn});
      if (five) {
        add({kContains, kStartsWith, kEndsWith});
      }
      add({kGreater, kGreaterEqual, kLess, kLessEqual});
      break;
    case Where::kAnd:
      add({Kind::kAnd});
      break;
    case Where::kOpen:
      add({Kind::kOpen});
      break;
    case Where::kString:
      add({Kind::kString});
      break;
    case Where::kNot:
      add({Kind::kNot});
      if (five) {
        add({Kind::kNull});
      }
      break;
    case Where::kNull:
      add({Kind::kNull});
      break;
    case Where::kListMore:
      add({kComma, kClose});
      break;
  }
  return out;
}

template <class Input>
std::uint32_t offset_of(const Input& in) {
  return static_cast<std::uint32_t>(in.current() - in.begin());
}

/// Base of rules that are code.
struct Primitive {
  using subs_t = p::empty_list;
};

/// One token, white space before it included.
template <Kind kKind>
struct T : Primitive {
  using rule_t = T;
  template <p::apply_mode,
            p::rewind_mode,
            template <typename...>
            class,
            template <typename...>
            class,
            typename Input>
  static bool match(Input& in, State& s) {
    const Token& token = s.lexer.at(offset_of(in));
    if (token.kind != kKind) {
      return false;
    }
    s.token = token;
    in.bump(token.end - offset_of(in));
    return true;
  }
};

/// Stands last in a choice: nothing fits.
template <Where kWhere>
struct Refuse : Primitive {
  using rule_t = Refuse;
  template <p::apply_mode,
            p::rewind_mode,
            template <typename...>
            class,
            template <typename...>
            class,
            typename Input>
  static bool match(Input& in, State& s) {
    if (!s.scanning) {
      const Token& token = s.lexer.at(offset_of(in));
      unexpected(s.lexer, token, wanted_at(kWhere, s.dialect, token.kind));
    }
    return false;
  }
};
template <Where kWhere, class... Rules>
using Need = p::sor<p::seq<Rules...>, Refuse<kWhere>>;

/// Rules one level deeper.
template <class... Rules>
struct Deeper {
  using rule_t = Deeper;
  using subs_t = p::type_list<Rules...>;
  template <p::apply_mode kApply,
            p::rewind_mode kRewind,
            template <typename...>
            class Action,
            template <typename...>
            class Control,
            typename Input>
  static bool match(Input& in, State& s) {
    if (++s.depth > s.limits.depth_max) {
      throw SyntaxError{fmt::format("the expression is nested deeper than {}", s.limits.depth_max),
                        offset_of(in)};
    }
    const bool matched =
        Control<p::seq<Rules...>>::template match<kApply, kRewind, Action, Control>(in, s);
    --s.depth;
    return matched;
  }
};

/// A "+": Java looks ahead over its whole operand and calls the "+" itself unexpected if that is not
/// well-formed.
template <class Operand>
struct PlusAhead {
  using rule_t = PlusAhead;
  using subs_t = p::type_list<Operand>;
  template <p::apply_mode,
            p::rewind_mode,
            template <typename...>
            class Action,
            template <typename...>
            class Control,
            typename Input>
  static bool match(Input& in, State& s) {
    const Token plus = s.lexer.at(offset_of(in));
    if (plus.kind != Kind::kPlus || s.scanning) {
      return plus.kind == Kind::kPlus;
    }
    const std::uint32_t depth = s.depth;
    s.scanning = true;
    const bool fits = Control<p::at<T<Kind::kPlus>, Operand>>::
        template match<p::apply_mode::nothing, p::rewind_mode::required, Action, Control>(in, s);
    s.scanning = false;
    s.depth = depth;
    if (!fits) {
      unexpected(s.lexer, plus, wanted_at(Where::kOperand, s.dialect, Kind::kPlus));
    }
    return true;
  }
};

/// Succeeds if the keywords of 5.x exist.
struct OnlyFive : Primitive {
  using rule_t = OnlyFive;
  template <p::apply_mode,
            p::rewind_mode,
            template <typename...>
            class,
            template <typename...>
            class,
            typename Input>
  static bool match(Input&, const State& s) {
    return s.dialect == Dialect::k5;
  }
};

// The grammar (spec: broker §9.3), loosest operators last.
// clang-format off
struct Unary;
struct Or;

struct StringLiteral : T<Kind::kString> {};
struct DecimalLiteral : T<Kind::kDecimal> {};
struct FloatLiteral : T<Kind::kFloat> {};
struct TrueLiteral : T<Kind::kTrue> {};
struct FalseLiteral : T<Kind::kFalse> {};
struct NullLiteral : T<Kind::kNull> {};
struct Property : T<Kind::kName> {};

struct CloseAfter : Primitive { using rule_t = CloseAfter;
  template <p::apply_mode, p::rewind_mode, template <typename...> class, template <typename...> class, typename Input>
  static bool match(Input& in, State& s);
};
struct Group : p::seq<T<Kind::kOpen>, Deeper<Or>, CloseAfter> {};
struct Primary : p::sor<TrueLiteral, FalseLiteral, NullLiteral, DecimalLiteral, FloatLiteral, StringLiteral, Property, Group, Refuse<Where::kOperand>> {};

struct PlusOperand : p::seq<PlusAhead<Deeper<Unary>>, T<Kind::kPlus>, Deeper<Unary>> {};
struct Negation : p::seq<T<Kind::kMinus>, Deeper<Unary>> {};
struct LogicalNot : p::seq<T<Kind::kNot>, Deeper<Unary>> {};
struct Unary : p::sor<PlusOperand, Negation, LogicalNot, Primary> {};

struct Greater : p::seq<T<Kind::kGreater>, Unary> {};
struct GreaterEqual : p::seq<T<Kind::kGreaterEqual>, Unary> {};
struct Less : p::seq<T<Kind::kLess>, Unary> {};
struct LessEqual : p::seq<T<Kind::kLessEqual>, Unary> {};
struct Bounds : p::seq<T<Kind::kBetween>, Unary, Need<Where::kAnd, T<Kind::kAnd>>, Unary> {};
struct ListItem : T<Kind::kString> {};
struct List : p::seq<T<Kind::kIn>, Need<Where::kOpen, T<Kind::kOpen>>, Need<Where::kString, ListItem>,
                     p::star<T<Kind::kComma>, Need<Where::kString, ListItem>>, Need<Where::kListMore, T<Kind::kClose>>> {};
struct Wanted : T<Kind::kString> {};
template <Kind kWord> struct SearchFor : p::seq<T<kWord>, Need<Where::kString, Wanted>> {};
struct Between : p::seq<Bounds> {};
struct NotBetween : p::seq<T<Kind::kNot>, Bounds> {};
struct In : p::seq<List> {};
struct NotIn : p::seq<T<Kind::kNot>, List> {};
template <Kind kWord> struct Has : p::seq<SearchFor<kWord>> {};
template <Kind kWord> struct HasNot : p::seq<T<Kind::kNot>, SearchFor<kWord>> {};
struct Searches : p::seq<OnlyFive, p::sor<Has<Kind::kContains>, HasNot<Kind::kContains>, Has<Kind::kStartsWith>,
    HasNot<Kind::kStartsWith>, Has<Kind::kEndsWith>, HasNot<Kind::kEndsWith>>> {};
struct StrayNot : p::seq<p::at<T<Kind::kNot>>, Refuse<Where::kAfterNot>> {};
struct Comparison : p::seq<Unary, p::star<p::sor<Greater, GreaterEqual, Less, LessEqual, Between, NotBetween, In, NotIn, Searches, StrayNot>>> {};

struct Equal : p::seq<T<Kind::kEqual>, Comparison> {};
struct NotEqual : p::seq<T<Kind::kNotEqual>, Comparison> {};
struct IsNull : T<Kind::kNull> {};
struct IsNotNull : p::seq<Need<Where::kNot, T<Kind::kNot>>, Need<Where::kNull, T<Kind::kNull>>> {};
struct Is : p::seq<T<Kind::kIs>, p::sor<IsNull, IsNotNull>> {};
struct Equality : p::seq<Comparison, p::star<p::sor<Equal, NotEqual, Is>>> {};

struct AndTerm : p::seq<T<Kind::kAnd>, Equality> {};
struct And : p::seq<Equality, p::star<AndTerm>> {};
struct OrTerm : p::seq<T<Kind::kOr>, And> {};
struct Or : p::seq<And, p::star<OrTerm>> {};
// clang-format on

/// Trap: after IS NULL no comparison may follow, and the message says so.
template <p::apply_mode,
          p::rewind_mode,
          template <typename...>
          class,
          template <typename...>
          class,
          typename Input>
bool CloseAfter::match(Input& in, State& s) {
  const Token& token = s.lexer.at(offset_of(in));
  if (token.kind == Kind::kClose) {
    s.token = token;
    in.bump(token.end - offset_of(in));
    return true;
  }
  if (!s.scanning) {
    const bool after_is = s.token.end == s.is_null_end;
    const Where where = after_is ? Where::kAfterIsNull : Where::kAfterOperand;
    unexpected(s.lexer, token, wanted_at(where, s.dialect, token.kind));
  }
  return false;
}

/// Builds while the grammar matches.
template <class Rule>
struct Act : p::nothing<Rule> {};

template <>
struct Act<TrueLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.truth(true)); }
};
template <>
struct Act<FalseLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.truth(false)); }
};
template <>
struct Act<NullLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.null()); }
};
template <>
struct Act<DecimalLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.decimal(s.token_text())); }
};
template <>
struct Act<FloatLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.floating(s.token_text())); }
};
template <>
struct Act<StringLiteral> {
  static void apply0(State& s) { s.operands.push_back(s.build.text(s.token_text())); }
};
template <>
struct Act<Property> {
  static void apply0(State& s) { s.operands.push_back(s.build.property(s.token_text())); }
};
template <>
struct Act<Negation> {
  static void apply0(State& s) { s.operands.push_back(s.build.negate(s.pop())); }
};
template <>
struct Act<LogicalNot> {
  static void apply0(State& s) { s.operands.push_back(s.build.logical_not(s.pop())); }
};

template <Compare kHow>
struct Ordered {
  static void apply0(State& s) {
    const NodeId r = s.pop();
    const NodeId l = s.pop();
    s.operands.push_back(s.build.order(l, r, kHow));
  }
};
template <>
struct Act<Greater> : Ordered<Compare::kGreater> {};
template <>
struct Act<GreaterEqual> : Ordered<Compare::kGreaterEqual> {};
template <>
struct Act<Less> : Ordered<Compare::kLess> {};
template <>
struct Act<LessEqual> : Ordered<Compare::kLessEqual> {};

template <bool kNegated>
struct InBounds {
  static void apply0(State& s) {
    const NodeId high = s.pop();
    const NodeId low = s.pop();
    const NodeId x = s.pop();
    s.operands.push_back(s.build.between(x, low, high, kNegated));
  }
};
template <>
struct Act<Between> : InBounds<false> {};
template <>
struct Act<NotBetween> : InBounds<true> {};

template <>
struct Act<ListItem> {
  static void apply0(State& s) { s.list.push_back(s.token_text()); }
};
template <bool kNegated>
struct InList {
  static void apply0(State& s) {
    const NodeId x = s.pop();
    s.operands.push_back(s.build.in(x, std::exchange(s.list, {}), kNegated));
  }
};
template <>
struct Act<In> : InList<false> {};
template <>
struct Act<NotIn> : InList<true> {};

template <Kind kWord, bool kNegated>
struct Searched {
  static void apply0(State& s) {
    constexpr Search kHow = kWord == Kind::kContains     ? Search::kContains
                            : kWord == Kind::kStartsWith ? Search::kStartsWith
                                                         : Search::kEndsWith;
    const NodeId x = s.pop();
    s.operands.push_back(s.build.search(x, s.token_text(), kHow, kNegated));
  }
};
template <Kind kWord>
struct Act<Has<kWord>> : Searched<kWord, false> {};
template <Kind kWord>
struct Act<HasNot<kWord>> : Searched<kWord, true> {};

template <bool kNegated>
struct Compared {
  static void apply0(State& s) {
    const NodeId r = s.pop();
    const NodeId l = s.pop();
    s.operands.push_back(s.build.equal(l, r, kNegated));
  }
};
template <>
struct Act<Equal> : Compared<false> {};
template <>
struct Act<NotEqual> : Compared<true> {};

template <bool kNegated>
struct ComparedToNull {
  static void apply0(State& s) {
    s.operands.push_back(s.build.is_null(s.pop(), kNegated));
    s.is_null_end = s.token.end;
  }
};
template <>
struct Act<IsNull> : ComparedToNull<false> {};
template <>
struct Act<IsNotNull> : ComparedToNull<true> {};

template <>
struct Act<AndTerm> {
  static void apply0(State& s) {
    const NodeId r = s.pop();
    const NodeId l = s.pop();
    s.operands.push_back(s.build.logical_and(l, r));
  }
};
template <>
struct Act<OrTerm> {
  static void apply0(State& s) {
    const NodeId r = s.pop();
    const NodeId l = s.pop();
    s.operands.push_back(s.build.logical_or(l, r));
  }
};

}  // namespace

Program compile(std::string_view text, Dialect dialect, const Limits& limits) {
  if (text.size() > limits.text_bytes_max) {
    throw SyntaxError{
        fmt::format(
            "the expression has {} bytes, more than {}", text.size(), limits.text_bytes_max),
        static_cast<std::uint32_t>(limits.text_bytes_max)};
  }
  Lexer lexer(text, dialect == Dialect::k5);
  Builder build(limits);
  State state(lexer, build, dialect, limits);
  try {
    using Input = p::memory_input<p::tracking_mode::lazy, p::eol::lf, const char*>;
    Input in(text.data(), text.data() + text.size(), "");
    // Trap: what follows a complete expression is ignored, if only its first token is one (spec:
    // broker §9.3).
    p::parse<Or, Act>(in, state);
    return build.finish(state.pop());
  } catch (SyntaxError& error) {
    error.where = error.where == 0 ? state.token.begin : error.where;
    throw;
  }
}

}  // namespace tenon::filter_sql92
