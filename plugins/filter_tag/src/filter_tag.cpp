// tenon.filter.tag: subscriptions by tags (plug-in ABI §16, spec: broker §9.1).
#include "tag_expression.h"

#include "tenon/plugin.hpp"
#include "tenon/proto/properties.h"

#include <limits>
#include <string>

namespace {

using tenon::filter_tag::TagExpression;
using tenon::plugin::text;

/// Longest accepted expression in bytes; a client's header cannot be much longer.
constexpr std::size_t kTextMaxBytes = 1 << 20;

const TagExpression& of(const tenon_filter_expr* e) {
  return *reinterpret_cast<const TagExpression*>(e);
}

struct TagFilter {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.filter.tag",
                                               .version = "1.0.0",
                                               .name = "tag filter",
                                               .vendor = "Tenon",
                                               .doc = "subscriptions such as \"TagA || TagB\""};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::Filter>;
  static constexpr const char* kTypes[] = {"TAG", nullptr};

  explicit TagFilter(tenon::plugin::Host&) {}

  tenon_status compile(tenon_str type,
                       tenon_str expression,
                       std::uint32_t flags,
                       tenon_filter_expr** out,
                       tenon_error* err) {
    static_cast<void>(flags);
    std::uint32_t where = 0;
    const tenon_status status = validate(type, expression, &where, err);
    if (status == TENON_OK) {
      *out = reinterpret_cast<tenon_filter_expr*>(new TagExpression(text(expression)));
    }
    return status;
  }

  void release(tenon_filter_expr* e) { delete reinterpret_cast<TagExpression*>(e); }

  tenon_status validate(tenon_str type,
                        tenon_str expression,
                        std::uint32_t* where,
                        tenon_error* err) {
    *where = 0;
    if (text(type) != "TAG") {
      return tenon::plugin::fail(
          err, TENON_UNSUPPORTED, "expression type " + std::string(text(type)) + " is not TAG");
    }
    if (expression.len > kTextMaxBytes) {
      return tenon::plugin::fail(err, TENON_LIMIT, "tag expression longer than 1 MiB");
    }
    if (!TagExpression::is_legal(text(expression))) {
      return tenon::plugin::fail(err, TENON_INVALID, "subString split error");
    }
    return TENON_OK;
  }

  void explain(const tenon_filter_expr* e, const tenon_sink* out) {
    const std::string normal = of(e).normalised();
    const std::string count = std::to_string(of(e).tags().size());
    const tenon_kv facts[] = {
        {tenon::plugin::str("expression"), tenon::plugin::str(normal)},
        {tenon::plugin::str("constants"), tenon::plugin::str(count)},
        {tenon::plugin::str("properties"), tenon::plugin::str("TAGS")},
        {tenon::plugin::str("cost"), tenon::plugin::str("index")},
    };
    out->put(out->ctx, facts, std::size(facts));
  }

  void match_index(const tenon_filter_expr* e,
                   const tenon_index_entry* in,
                   std::size_t stride,
                   std::size_t n,
                   std::uint8_t* verdict) noexcept {
    const TagExpression& expression = of(e);
    const tenon::plugin::Strided<const tenon_index_entry> entries(in, stride, n);
    for (std::size_t i = 0; i < n; ++i) {
      // The index holds the sign-extended hash; its low half is compared.
      const auto code = static_cast<std::int32_t>(entries[i].tags_code);
      // No hash is that small: the address of an extension that is lost. It may match.
      const bool lost = entries[i].tags_code < std::numeric_limits<std::int32_t>::min();
      verdict[i] = lost || expression.matches(code) ? TENON_MATCH_YES : TENON_MATCH_NO;
    }
  }

  void match_properties(const tenon_filter_expr* e,
                        const tenon_bytes* props,
                        std::size_t n,
                        std::uint8_t* verdict) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      const std::string_view raw(reinterpret_cast<const char*>(props[i].ptr), props[i].len);
      const auto code = static_cast<std::int32_t>(tenon::proto::tags_code_of(raw));
      verdict[i] = of(e).matches(code) ? TENON_MATCH_YES : TENON_MATCH_NO;
    }
  }
};

}  // namespace

TENON_PLUGINS(TagFilter);
