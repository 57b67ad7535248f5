// JSON for everybody: a streaming writer and a tolerant reader. The library behind the reader does
// not show. Message bodies of the protocol have their own structs in bodies.h.
#pragma once

#include "tenon/base/result.h"

#include <boost/container/small_vector.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::proto {

class JsonNode;

enum class JsonLayout : std::uint8_t {
  kCompact,  ///< no white space
  kPretty,   ///< for people: two blanks per level, a blank after the colon
  kJava,     ///< as fastjson's prettyFormat: a tab per level, maps with other keys than strings on
             ///< one line
};

struct JsonStyle {
  JsonLayout layout = JsonLayout::kCompact;
  bool quote_integer_keys = true;  ///< false: fastjson's `{0:"a"}` (spec: remoting §2 rule 3)
  bool ascii = false;              ///< everything outside ASCII as \uXXXX, '/' as \/
};

/// Writes JSON at the end of a buffer. The caller keeps the grammar: key() before each value inside
/// an object, every begin has its end. Thread: any, one at a time.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out, JsonStyle style = {})
      : out_(out),
        style_(style) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& begin_object();
  JsonWriter& end_object();
  /// @param one_line  no line breaks between the elements in pretty layouts
  JsonWriter& begin_array(bool one_line = false);
  JsonWriter& end_array();

  JsonWriter& key(std::string_view name);
  JsonWriter& key(const char* name) { return key(std::string_view(name)); }
  JsonWriter& key(std::int64_t number);
  /// An object as key, `{{"a":1}:v}`: begin_object_key(), members, end_object_key(), then the
  /// value. Not JSON; only for maps that fastjson writes so (spec: remoting §2 rule 4).
  JsonWriter& begin_object_key();
  JsonWriter& end_object_key();

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  template <std::signed_integral T>
  JsonWriter& value(T number) {
    return integer(number);
  }
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) { return unsigned_integer(number); }
  JsonWriter& value(bool flag);
  /// With a decimal point as Java writes a double ("1.0", "1.0E7"); null if it is no finite number.
  JsonWriter& value(double number);
  JsonWriter& value(const JsonNode& node);  ///< a whole tree; absent becomes null
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  ///< text that is JSON already

  template <class T>
  JsonWriter& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

 private:
  struct Level {
    bool array = false;
    bool one_line = false;
    bool empty = true;
  };

  JsonWriter& integer(std::int64_t number);
  JsonWriter& unsigned_integer(std::uint64_t number);
  void before_element();
  void open(char bracket, Level level);
  void close(char bracket);
  void line(std::size_t depth);
  void quoted(std::string_view text);

  std::string& out_;
  JsonStyle style_;
  bool after_key_ = false;
  boost::container::small_vector<Level, 16> levels_{};
};

/// A place in a document, or no place: looking something up in a node that does not have it yields
/// an absent node, so that chains need no checks. Valid as long as its document. Thread: any, the
/// document is immutable.
class JsonNode {
 public:
  JsonNode() = default;

  bool present() const noexcept { return value_ != nullptr; }  ///< also true for null
  explicit operator bool() const noexcept { return present(); }
  bool is_null() const noexcept;
  bool is_object() const noexcept;
  bool is_array() const noexcept;
  bool is_string() const noexcept;
  bool is_bool() const noexcept;
  bool is_number() const noexcept;

  JsonNode operator[](std::string_view key) const noexcept;  ///< member of an object
  std::size_t size() const noexcept;                         ///< elements or members; 0 otherwise
  JsonNode at(std::size_t index) const noexcept;             ///< element of an array
  /// Member of an object in the document's order. An object as key (fastjson) is the JSON text of
  /// that object.
  std::pair<std::string_view, JsonNode> member(std::size_t index) const noexcept;

  /// The text of a string; empty for anything else.
  std::string_view string() const noexcept;
  /// Lenient conversions as fastjson does them: numbers and booleans from their text and back;
  /// nullopt for absent, null and what does not convert. text() of an object or array is its JSON.
  std::optional<std::string> text() const;
  std::optional<std::int64_t> integer() const noexcept;
  std::optional<double> number() const noexcept;
  std::optional<bool> boolean() const noexcept;

  std::string dump() const;  ///< compact JSON; "null" if absent

 private:
  friend class JsonDocument;
  friend class JsonWriter;
  explicit JsonNode(const void* value) noexcept
      : value_(value) {}
  const void* value_ = nullptr;
};

class JsonDocument {
 public:
  /// Parses JSON and fastjson's dialect: single quotes, unquoted names and integer keys, objects as
  /// keys, extra commas, comments. Of duplicate keys the last one wins. Nesting is limited to 64.
  /// @return kInvalid with the reason
  static Result<JsonDocument> parse(std::string_view text);

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonNode root() const noexcept;

 private:
  struct Tree;
  explicit JsonDocument(std::unique_ptr<Tree> tree) noexcept;
  std::unique_ptr<Tree> tree_;
};

}  // namespace tenon::proto
