// Frames of both header encodings. First byte of the input: 0 the rest is a frame as it comes from
// a socket; 1 or 2 the rest is a JSON or binary header. What decodes must survive being encoded
// and decoded again, and a peek at it must have told the truth.
#include "tenon/base/check.h"
#include "tenon/base/endian.h"
#include "tenon/proto/command.h"
#include "tenon/proto/peek.h"

#include <cstdint>
#include <string>

using namespace tenon;
using namespace tenon::proto;

namespace {

std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

std::string frame_of(std::string_view header, HeaderKind kind) {
  std::string out(kFramePrefixBytes, '\0');
  store_be(out.data(), static_cast<std::uint32_t>(4 + header.size()));
  store_be(out.data() + 4,
           (static_cast<std::uint32_t>(kind) << 24) | static_cast<std::uint32_t>(header.size()));
  return out.append(header);
}

void check_round_trip(const CommandView& view) {
  const Command first = Command::from(view);
  std::string again;
  first.encode(again);
  CommandView second_view;
  const auto r = decode_command(writable(again), second_view);
  TENON_CHECK(r.has_value(), "our own frame: {}", r.error().detail);
  const Command second = Command::from(second_view);
  TENON_CHECK(second.code == first.code && second.opaque == first.opaque &&
                  second.flag == first.flag && second.version == first.version &&
                  second.language == first.language && second.kind == first.kind &&
                  second.remark == first.remark && second.body == first.body,
              "header changed");
  TENON_CHECK(second.fields == first.fields, "fields changed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string frame(rest);
  if (data[0] % 3 == 1) {
    frame = frame_of(rest, HeaderKind::kJson);
  } else if (data[0] % 3 == 2) {
    frame = frame_of(rest, HeaderKind::kRocketMq);
  }
  if (frame.size() >= kFramePrefixBytes) {
    const auto prefix = decode_frame_prefix(as_bytes(frame));
    if (prefix.has_value() && prefix.value().total_bytes() <= frame.size()) {
      frame.resize(prefix.value().total_bytes());
    }
  }
  const auto peek = peek_command(as_bytes(frame));
  CommandView view;
  if (decode_command(writable(frame), view).has_value()) {
    TENON_CHECK(!peek || (peek->code == view.code && peek->opaque == view.opaque &&
                          peek->flag == view.flag && peek->kind == view.kind),
                "a peek that differs");
    static_cast<void>(view.field("topic"));
    static_cast<void>(view.field_int("queueId"));
    static_cast<void>(view.field_long("offset"));
    static_cast<void>(view.field_bool("batch"));
    check_round_trip(view);
  }
  return 0;
}
