#include "json_normalize.h"

#include "tenon/proto/command.h"
#include "tenon/proto/json.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tenon::proto {
namespace {

namespace json = boost::json;

const json::value& as_value(const void* p) noexcept {
  return *static_cast<const json::value*>(p);
}

std::string_view view(const json::string& text) noexcept {
  return {text.data(), text.size()};
}

json::value parse_standard(std::string_view text,
                           json::error_code& error,
                           const json::storage_ptr& memory) {
  json::parse_options options;
  options.max_depth = detail::kJsonDepthMax;
  options.allow_invalid_utf8 = true;
  return json::parse(json::string_view(text.data(), text.size()), error, memory, options);
}

std::optional<std::int64_t> integer_from(double d) noexcept {
  if (!(d > -9.3e18 && d < 9.3e18) || d >= 9223372036854775808.0 || d < -9223372036854775808.0) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(d);
}

}  // namespace

struct JsonDocument::Tree {
  json::monotonic_resource memory{};
  json::value root{};
};

JsonDocument::JsonDocument(std::unique_ptr<Tree> tree) noexcept
    : tree_(std::move(tree)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  auto tree = std::make_unique<Tree>();
  // Assignment would copy into the default memory, so the value is moved in by construction.
  const auto adopt = [&tree](json::value&& parsed) {
    std::destroy_at(&tree->root);
    std::construct_at(&tree->root, std::move(parsed));
  };
  json::error_code error;
  json::value strict = parse_standard(text, error, &tree->memory);
  if (!error) {
    adopt(std::move(strict));
    return JsonDocument(std::move(tree));
  }
  TENON_TRY(const std::string standard, detail::normalize_json(text));
  error.clear();
  json::value lenient = parse_standard(standard, error, &tree->memory);
  if (error) {
    return Error{Errc::kInvalid, "JSON: " + error.message()};
  }
  adopt(std::move(lenient));
  return JsonDocument(std::move(tree));
}

JsonNode JsonDocument::root() const noexcept {
  return JsonNode(&tree_->root);
}

bool JsonNode::is_null() const noexcept {
  return value_ != nullptr && as_value(value_).is_null();
}
bool JsonNode::is_object() const noexcept {
  return value_ != nullptr && as_value(value_).is_object();
}
bool JsonNode::is_array() const noexcept {
  return value_ != nullptr && as_value(value_).is_array();
}
bool JsonNode::is_string() const noexcept {
  return value_ != nullptr && as_value(value_).is_string();
}
bool JsonNode::is_bool() const noexcept {
  return value_ != nullptr && as_value(value_).is_bool();
}
bool JsonNode::is_number() const noexcept {
  return value_ != nullptr && as_value(value_).is_number();
}

JsonNode JsonNode::operator[](std::string_view key) const noexcept {
  if (!is_object()) {
    return {};
  }
  return JsonNode(
      as_value(value_).get_object().if_contains(json::string_view(key.data(), key.size())));
}

std::size_t JsonNode::size() const noexcept {
  if (is_object()) {
    return as_value(value_).get_object().size();
  }
  return is_array() ? as_value(value_).get_array().size() : 0;
}

JsonNode JsonNode::at(std::size_t index) const noexcept {
  return is_array() ? JsonNode(as_value(value_).get_array().if_contains(index)) : JsonNode();
}

std::pair<std::string_view, JsonNode> JsonNode::member(std::size_t index) const noexcept {
  if (!is_object() || index >= size()) {
    return {};
  }
  const auto& pair = *(as_value(value_).get_object().begin() + index);
  const auto key = pair.key();
  return {std::string_view(key.data(), key.size()), JsonNode(&pair.value())};
}

std::string_view JsonNode::string() const noexcept {
  return is_string() ? view(as_value(value_).get_string()) : std::string_view{};
}

std::optional<std::string> JsonNode::text() const {
  if (!present() || is_null()) {
    return std::nullopt;
  }
  return is_string() ? std::string(string()) : dump();
}

std::optional<std::int64_t> JsonNode::integer() const noexcept {
  if (!present()) {
    return std::nullopt;
  }
  const json::value& v = as_value(value_);
  switch (v.kind()) {
    case json::kind::int64:
      return v.get_int64();
    case json::kind::uint64:
      return v.get_uint64() <= 0x7fff'ffff'ffff'ffffull
                 ? std::optional<std::int64_t>(static_cast<std::int64_t>(v.get_uint64()))
                 : std::nullopt;
    case json::kind::double_:
      return integer_from(v.get_double());
    case json::kind::bool_:
      return v.get_bool() ? 1 : 0;
    case json::kind::string:
      return parse_long(string());
    case json::kind::null:
    case json::kind::array:
    case json::kind::object:
      break;
  }
  return std::nullopt;
}

std::optional<double> JsonNode::number() const noexcept {
  if (is_string()) {
    const std::string_view s = string();
    double d = 0;
    const auto [stop, error] = std::from_chars(s.data(), s.data() + s.size(), d);
    return error == std::errc{} && stop == s.data() + s.size() && std::isfinite(d)
               ? std::optional<double>(d)
               : std::nullopt;
  }
  if (!is_number()) {
    return std::nullopt;
  }
  const json::value& v = as_value(value_);
  if (v.is_double()) {
    return v.get_double();
  }
  return v.is_int64() ? static_cast<double>(v.get_int64()) : static_cast<double>(v.get_uint64());
}

std::optional<bool> JsonNode::boolean() const noexcept {
  if (is_bool()) {
    return as_value(value_).get_bool();
  }
  if (is_string()) {
    const std::string_view s = string();
    if (s == "true" || s == "TRUE" || s == "1") {
      return true;
    }
    return s == "false" || s == "FALSE" || s == "0" ? std::optional<bool>(false) : std::nullopt;
  }
  const auto n = integer();
  return n ? std::optional<bool>(*n == 1) : std::nullopt;
}

std::string JsonNode::dump() const {
  std::string out;
  JsonWriter(out).value(*this);
  return out;
}

JsonWriter& JsonWriter::value(const JsonNode& node) {
  if (!node.present()) {
    return null();
  }
  const json::value& v = as_value(node.value_);
  switch (v.kind()) {
    case json::kind::null:
      return null();
    case json::kind::bool_:
      return value(v.get_bool());
    case json::kind::int64:
      return integer(v.get_int64());
    case json::kind::uint64:
      return unsigned_integer(v.get_uint64());
    case json::kind::double_:
      return value(v.get_double());
    case json::kind::string:
      return value(node.string());
    case json::kind::array:
      begin_array();
      for (std::size_t i = 0; i < node.size(); ++i) {
        value(node.at(i));
      }
      return end_array();
    case json::kind::object:
      begin_object();
      for (std::size_t i = 0; i < node.size(); ++i) {
        const auto [name, child] = node.member(i);
        key(name).value(child);
      }
      return end_object();
  }
  return *this;
}

}  // namespace tenon::proto
