#include "message_text.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

namespace tenon::sdk {

void put_property(std::string& text, std::string_view name, std::string_view value) {
  if (value.empty()) {
    return;
  }
  if (!text.empty()) {
    text += proto::kPropertySeparator;
  }
  text += name;
  text += proto::kNameValueSeparator;
  text += value;
}

void put_properties(std::string& text, const Message& m, std::string_view unique_id) {
  put_property(text, proto::prop::kWait, m.wait_store_ok ? "true" : "false");
  put_property(text, proto::prop::kTags, m.tag);
  if (!m.keys.empty()) {
    bool first = true;
    for (const std::string& key : m.keys) {
      if (first) {
        put_property(text, proto::prop::kKeys, key);
        first = key.empty();
      } else {
        text += ' ';
        text += key;
      }
    }
  }
  if (m.delay_level > 0) {
    put_property(text, proto::prop::kDelay, std::to_string(m.delay_level));
  }
  if (m.delay.count() > 0) {
    put_property(text, "TIMER_DELAY_MS", std::to_string(m.delay.count()));
  }
  if (m.deliver_at) {
    const auto at =
        std::chrono::duration_cast<std::chrono::milliseconds>(m.deliver_at->time_since_epoch());
    put_property(text, "TIMER_DELIVER_MS", std::to_string(at.count()));
  }
  put_property(text, proto::prop::kUniqKey, unique_id);
  for (const auto& [name, value] : m.properties) {
    put_property(text, name, value);
  }
}

std::int32_t compress_body(std::string& body, const ProducerOptions& options) {
  if (options.compression == Compression::kNone || body.size() < options.compress_from_bytes) {
    return 0;
  }
  proto::Compression how = proto::Compression::kZlib;
  std::int32_t bits = proto::sys_flag::kCompressionZlib;
  if (options.compression == Compression::kLz4) {
    how = proto::Compression::kLz4;
    bits = proto::sys_flag::kCompressionLz4;
  } else if (options.compression == Compression::kZstd) {
    how = proto::Compression::kZstd;
    bits = proto::sys_flag::kCompressionZstd;
  }
  auto compressed = proto::compress(as_bytes(body), how, options.compression_level);
  if (compressed.has_error() || compressed.value().size() >= body.size()) {
    return 0;
  }
  body = std::move(compressed).value();
  return proto::sys_flag::kCompressed | bits;
}

}  // namespace tenon::sdk
