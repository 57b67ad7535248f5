// Writes JSON for scripts: a small builder, no tree.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::app {

/// json.begin_object().field("topic", t).field("n", 3).end_object().text(). Commas are its own
/// business. Thread: one.
class Json {
 public:
  Json& begin_object() { return open('{'); }
  Json& end_object() { return close('}'); }
  Json& begin_array() { return open('['); }
  Json& end_array() { return close(']'); }
  Json& key(std::string_view name);

  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool yes) { return raw(yes ? "true" : "false"); }
  Json& value(double number);
  template <std::integral Int>
  Json& value(Int number) {
    return raw(std::to_string(number));
  }

  template <class T>
  Json& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  const std::string& text() const { return text_; }

 private:
  Json& open(char bracket);
  Json& close(char bracket);
  Json& raw(std::string_view token);
  void separate();

  std::string text_;
  bool first_ = true;  ///< no comma before the next element
};

bool is_utf8(std::string_view text);

/// A JSON string with quotes. Bytes that are no UTF-8 become U+FFFD.
std::string quote_json(std::string_view text);

}  // namespace tenon::app
