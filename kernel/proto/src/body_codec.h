// Shared by the body codecs: reading members leniently with one error at the end, writing members
// in alphabetical order with the unknown ones between them.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/json.h"

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::proto::detail {

using Extra = std::map<std::string, std::string>;

/// Takes members out of objects. Absent and null keep the default; what does not convert is
/// remembered, the first such place becomes the error.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) noexcept
      : body_(body) {}

  bool failed() const noexcept { return failed_; }
  Error error() const;
  void fail(std::string_view member, std::string_view why);

  void get(JsonNode object, std::string_view name, std::string& out);
  void get(JsonNode object, std::string_view name, std::optional<std::string>& out);
  void get(JsonNode object, std::string_view name, bool& out);
  void get(JsonNode object, std::string_view name, double& out);
  void get(JsonNode object, std::string_view name, std::int32_t& out);
  void get(JsonNode object, std::string_view name, std::int64_t& out);
  /// Enum by name, ordinal or ordinal as text; unknown ones keep the default as in fastjson.
  template <class E>
  void get_enum(JsonNode object,
                std::string_view name,
                std::span<const std::string_view> names,
                E& out) {
    const int index = enum_index(object[name], names);
    if (index >= 0) {
      out = static_cast<E>(index);
    }
  }
  /// Member that must be an object or array if it is there; absent otherwise.
  JsonNode object(JsonNode parent, std::string_view name);
  JsonNode array(JsonNode parent, std::string_view name);
  /// Elements of an array that are text.
  void get_texts(JsonNode object, std::string_view name, std::vector<std::string>& out);
  /// A node as 32-bit number; false (and remembered) if it is none.
  bool int32(JsonNode node, std::string_view name, std::int32_t& out);
  bool int64(JsonNode node, std::string_view name, std::int64_t& out);
  bool int_key(std::string_view key, std::string_view name, std::int64_t& out);

  MessageQueue queue(JsonNode object);
  /// A queue as object key of fastjson.
  MessageQueue queue_key(std::string_view key);
  std::map<MessageQueue, std::int64_t> queue_offsets(JsonNode table);
  SubscriptionData subscription(JsonNode object);
  DataVersion data_version(JsonNode object);
  /// @param key  name to take if the object does not hold one
  TopicConfig topic_config(JsonNode object, std::string_view key);
  TopicTable topic_table(JsonNode object);
  /// Members that are not in `known`, as JSON text.
  static void extra(JsonNode object, std::initializer_list<std::string_view> known, Extra& out);

 private:
  static int enum_index(JsonNode node, std::span<const std::string_view> names);

  std::string_view body_;
  bool failed_ = false;
  std::string reason_{};
};

/// Parses a body whose root must be an object.
Result<JsonDocument> parse_object(std::string_view json, std::string_view what);

/// An object whose known members come in alphabetical order; unknown ones are merged in.
class MemberWriter {
 public:
  MemberWriter(JsonWriter& out, const Extra& extra)
      : out_(out),
        next_(extra.begin()),
        end_(extra.end()) {
    out_.begin_object();
  }
  JsonWriter& key(std::string_view name) {
    flush_below(name);
    return out_.key(name);
  }
  template <class T>
  void member(std::string_view name, const T& value) {
    key(name).value(value);
  }
  void end() {
    for (; next_ != end_; ++next_) {
      out_.key(next_->first).raw(next_->second);
    }
    out_.end_object();
  }

 private:
  void flush_below(std::string_view name) {
    for (; next_ != end_ && next_->first < name; ++next_) {
      out_.key(next_->first).raw(next_->second);
    }
  }

  JsonWriter& out_;
  Extra::const_iterator next_;
  Extra::const_iterator end_;
};

void write(JsonWriter& w, const DataVersion& v);
void write(JsonWriter& w, const TopicConfig& c);
void write(JsonWriter& w, const TopicTable& t);
void write(JsonWriter& w, const SubscriptionData& s);
void write(JsonWriter& w, const MessageQueue& q);
void write_key(JsonWriter& w, const MessageQueue& q);
void write_queue_offsets(JsonWriter& w, const std::map<MessageQueue, std::int64_t>& offsets);
void write_texts(JsonWriter& w, std::string_view name, std::span<const std::string> texts);

extern const std::span<const std::string_view> kConsumeTypes;
extern const std::span<const std::string_view> kMessageModels;
extern const std::span<const std::string_view> kConsumeFromWheres;

template <class E>
std::string_view enum_name(std::span<const std::string_view> names, E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : names[0];
}

/// Compact output in fastjson's dialect, or pretty as in the configuration files.
inline JsonStyle fastjson_style(bool pretty = false) {
  JsonStyle style;
  style.layout = pretty ? JsonLayout::kJava : JsonLayout::kCompact;
  style.quote_integer_keys = false;
  return style;
}

}  // namespace tenon::proto::detail
