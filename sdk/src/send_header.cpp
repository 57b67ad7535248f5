#include "send_header.h"

#include "tenon/base/endian.h"
#include "tenon/proto/command.h"

#include <charconv>

namespace tenon::sdk {
namespace {

// -- binary header: entries of key length i16, key, value length i32, value --

void put_entry(std::string& out, std::string_view key, std::string_view value) {
  char lengths[4];
  store_be(lengths, static_cast<std::uint16_t>(key.size()));
  out.append(lengths, 2);
  out.append(key);
  store_be(lengths, static_cast<std::uint32_t>(value.size()));
  out.append(lengths, 4);
  out.append(value);
}

std::string_view digits(char (&room)[24], std::int64_t value) noexcept {
  const auto end = std::to_chars(room, room + sizeof room, value).ptr;
  return {room, static_cast<std::size_t>(end - room)};
}

void put_entry(std::string& out, char key, std::int64_t value) {
  char room[24];
  put_entry(out, std::string_view(&key, 1), digits(room, value));
}

void encode_binary(std::string& out,
                   std::int32_t opaque,
                   const SendHeaderFixed& fixed,
                   const SendHeader& h,
                   std::span<const std::byte> body) {
  constexpr std::size_t kPlain = 21;  // code … remark length, ext length
  const std::size_t start = out.size();
  out.resize(start + 8 + kPlain);
  out.append(fixed.fields);
  put_entry(out, 'e', h.queue_id);
  put_entry(out, 'f', h.sys_flag);
  put_entry(out, 'g', h.born_ms);
  put_entry(out, 'h', h.flag);
  put_entry(out, "i", h.properties);
  put_entry(out, 'j', h.reconsume_times);
  if (h.max_reconsume_times >= 0) {
    put_entry(out, 'l', h.max_reconsume_times);
  }
  put_entry(out, "m", h.batch ? "true" : "false");
  const std::size_t header_bytes = out.size() - start - 8;
  out.append(as_text(body));
  char* p = out.data() + start;
  store_be(p, static_cast<std::uint32_t>(out.size() - start - 4));
  store_be(p + 4, static_cast<std::uint32_t>(1u << 24 | header_bytes));
  store_be(p + 8, static_cast<std::uint16_t>(h.code()));
  p[10] = static_cast<char>(proto::Language::kCpp);
  store_be(p + 11, static_cast<std::uint16_t>(proto::kVersion));
  store_be(p + 13, opaque);
  store_be(p + 17, h.oneway ? proto::kFlagOneway : std::int32_t{0});
  store_be(p + 21, std::int32_t{0});
  store_be(p + 25, static_cast<std::uint32_t>(header_bytes - kPlain));
}

// -- JSON header --

void put_json(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') {
      continue;
    }
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      const char escaped[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
      out.append(escaped, sizeof escaped);
    }
  }
  out.append(text.substr(plain));
  out += '"';
}

void put_json_field(std::string& out, std::string_view key, std::string_view value) {
  out += '"';
  out += key;
  out += "\":";
  put_json(out, value);
  out += ',';
}

void put_json_number(std::string& out, std::string_view key, std::int64_t value) {
  char room[24];
  out += '"';
  out += key;
  out += "\":\"";
  out += digits(room, value);
  out += "\",";
}

void encode_json(std::string& out,
                 std::int32_t opaque,
                 const SendHeaderFixed& fixed,
                 const SendHeader& h,
                 std::span<const std::byte> body) {
  char room[24];
  const std::size_t start = out.size();
  out.resize(start + 8);
  out += "{\"code\":";
  out += digits(room, h.code());
  out += ",\"extFields\":{";
  out.append(fixed.fields);
  put_json_number(out, "e", h.queue_id);
  put_json_number(out, "f", h.sys_flag);
  put_json_number(out, "g", h.born_ms);
  put_json_number(out, "h", h.flag);
  put_json_field(out, "i", h.properties);
  put_json_number(out, "j", h.reconsume_times);
  if (h.max_reconsume_times >= 0) {
    put_json_number(out, "l", h.max_reconsume_times);
  }
  out += h.batch ? "\"m\":\"true\"},\"flag\":" : "\"m\":\"false\"},\"flag\":";
  out += h.oneway ? '2' : '0';
  out += ",\"language\":\"CPP\",\"opaque\":";
  out += digits(room, opaque);
  out += ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":";
  out += digits(room, proto::kVersion);
  out += '}';
  const std::size_t header_bytes = out.size() - start - 8;
  out.append(as_text(body));
  char* p = out.data() + start;
  store_be(p, static_cast<std::uint32_t>(out.size() - start - 4));
  store_be(p + 4, static_cast<std::uint32_t>(header_bytes));
}

}  // namespace

std::int32_t SendHeader::code() const noexcept {
  if (reply) {
    return proto::RequestCode::kSendReplyMessageV2;
  }
  return batch ? proto::RequestCode::kSendBatchMessage : proto::RequestCode::kSendMessageV2;
}

SendHeaderFixed::SendHeaderFixed(HeaderEncoding how,
                                 std::string_view group,
                                 std::string_view topic,
                                 std::string_view create_key,
                                 int default_queues,
                                 std::string_view broker)
    : encoding(how) {
  char room[24];
  const std::string_view queues = digits(room, default_queues);
  const std::pair<std::string_view, std::string_view> entries[] = {
      {"a", group}, {"b", topic}, {"c", create_key}, {"d", queues}, {"k", "false"}, {"n", broker}};
  for (const auto& [key, value] : entries) {
    if (encoding == HeaderEncoding::kBinary) {
      put_entry(fields, key, value);
    } else {
      put_json_field(fields, key, value);
    }
  }
}

void encode_send(std::string& out,
                 std::int32_t opaque,
                 const SendHeaderFixed& fixed,
                 const SendHeader& header,
                 std::span<const std::byte> body) {
  if (fixed.encoding == HeaderEncoding::kBinary) {
    encode_binary(out, opaque, fixed, header, body);
  } else {
    encode_json(out, opaque, fixed, header, body);
  }
}

}  // namespace tenon::sdk
