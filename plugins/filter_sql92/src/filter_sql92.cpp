// tenon.filter.sql92: subscriptions by SQL92 expressions over message properties (plug-in ABI §16,
// spec: broker §9.2 to §9.5).
#include "compile.h"
#include "program.h"

#include "tenon/plugin.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace {

using namespace tenon::filter_sql92;
using tenon::plugin::text;

const Program& of(const tenon_filter_expr* e) {
  return *reinterpret_cast<const Program*>(e);
}

struct Sql92Filter {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.filter.sql92",
      .version = "1.0.0",
      .name = "SQL92 filter",
      .vendor = "Tenon",
      .doc = "subscriptions such as \"price BETWEEN 10 AND 20 AND region IN ('east')\""};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::Filter>;
  static constexpr const char* kTypes[] = {"SQL92", nullptr};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("dialect",
                         TENON_TYPE_STRING,
                         "4.9",
                         "whose rules: 4.9, or 5.x with CONTAINS, STARTSWITH and ENDSWITH"),
      tenon::plugin::key(
          "text_max", TENON_TYPE_BYTES, "64KiB", "longest expression, 64 bytes to 1 MiB"),
      tenon::plugin::key("depth_max",
                         TENON_TYPE_INT,
                         "200",
                         "deepest nesting of parentheses, NOT and signs; 1 to 400"),
      tenon::plugin::key(
          "constant_max", TENON_TYPE_INT, "4096", "most constants of one expression; 1 to 100000"),
  };

  explicit Sql92Filter(tenon::plugin::Host& host) {
    const tenon::plugin::Config c = host.config();
    const std::string dialect = c.get("dialect", "4.9");
    if (dialect != "4.9" && dialect != "5.x") {
      c.reject("dialect", "must be 4.9 or 5.x");
    }
    dialect_ = dialect == "5.x" ? Dialect::k5 : Dialect::k4;
    const std::uint64_t bytes =
        c.get("text_max", tenon::plugin::ByteSize{limits_.text_bytes_max}).value;
    if (bytes < 64 || bytes > 1u << 20) {
      c.reject("text_max", "must be from 64 bytes to 1MiB");
    }
    limits_.text_bytes_max = bytes;
    limits_.depth_max = c.get("depth_max", limits_.depth_max);
    if (limits_.depth_max < 1 || limits_.depth_max > 400) {
      c.reject("depth_max", "must be 1 to 400");
    }
    limits_.constant_max = c.get("constant_max", limits_.constant_max);
    if (limits_.constant_max < 1 || limits_.constant_max > 100'000) {
      c.reject("constant_max", "must be 1 to 100000");
    }
  }

  tenon_status compile(tenon_str type,
                       tenon_str expression,
                       std::uint32_t flags,
                       tenon_filter_expr** out,
                       tenon_error* err) {
    static_cast<void>(flags);
    std::uint32_t where = 0;
    return build(type, expression, &where, err, [out](Program&& program) {
      *out = reinterpret_cast<tenon_filter_expr*>(new Program(std::move(program)));
    });
  }

  void release(tenon_filter_expr* e) { delete reinterpret_cast<Program*>(e); }

  tenon_status validate(tenon_str type,
                        tenon_str expression,
                        std::uint32_t* where,
                        tenon_error* err) {
    return build(type, expression, where, err, [](Program&&) {});
  }

  void explain(const tenon_filter_expr* e, const tenon_sink* out) {
    const std::string count = std::to_string(of(e).constant_count());
    std::string names;
    for (const std::string& name : of(e).properties()) {
      names += (names.empty() ? "" : " ") + name;
    }
    const tenon_kv facts[] = {
        {tenon::plugin::str("expression"), tenon::plugin::str(of(e).normalised())},
        {tenon::plugin::str("constants"), tenon::plugin::str(count)},
        {tenon::plugin::str("properties"), tenon::plugin::str(names)},
        {tenon::plugin::str("cost"), tenon::plugin::str("properties")},
    };
    out->put(out->ctx, facts, std::size(facts));
  }

  void match_index(const tenon_filter_expr*,
                   const tenon_index_entry*,
                   std::size_t,
                   std::size_t n,
                   std::uint8_t* verdict) noexcept {
    std::fill_n(verdict, n, std::uint8_t{TENON_MATCH_UNDECIDED});
  }

  void match_properties(const tenon_filter_expr* e,
                        const tenon_bytes* props,
                        std::size_t n,
                        std::uint8_t* verdict) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      const std::string_view raw(reinterpret_cast<const char*>(props[i].ptr), props[i].len);
      // Trap: FALSE, unknown and an evaluation that throws are all no match (spec: broker §9.5).
      verdict[i] = of(e).run(raw) == Outcome::kTrue ? TENON_MATCH_YES : TENON_MATCH_NO;
    }
  }

 private:
  template <class Use>
  tenon_status build(
      tenon_str type, tenon_str expression, std::uint32_t* where, tenon_error* err, Use use) {
    *where = 0;
    if (text(type) != kTypes[0]) {
      return tenon::plugin::fail(
          err, TENON_UNSUPPORTED, "expression type " + std::string(text(type)) + " is not SQL92");
    }
    try {
      use(tenon::filter_sql92::compile(text(expression), dialect_, limits_));
      return TENON_OK;
    } catch (const SyntaxError& error) {
      *where = error.where;
      return tenon::plugin::fail(err, TENON_INVALID, error.what);
    }
  }

  Dialect dialect_ = Dialect::k4;
  Limits limits_{};
};

}  // namespace

TENON_PLUGINS(Sql92Filter);
