// What a server that has more to do than it can needs to refuse a request: a look at the header that
// is many times cheaper than decoding it, and an answer that is made once and copied.
#pragma once

#include "tenon/proto/command.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon::proto {

struct CommandPeek {
  std::int32_t code = 0;
  std::int32_t opaque = 0;
  std::int32_t flag = 0;
  HeaderKind kind = HeaderKind::kJson;

  bool is_response() const noexcept { return (flag & kFlagResponse) != 0; }
  bool is_oneway() const noexcept { return (flag & kFlagOneway) != 0; }
};

/// Reads a few fields of a whole frame (length word included) and changes nothing in it. Of a frame
/// that decode_command() takes they are the same as there; the rest of the frame is not checked.
/// @return nullopt if the header has a form that needs the decoder: white space, escaped names,
/// numbers as strings, nested values. No client is known to write those. Thread: any.
std::optional<CommandPeek> peek_command(std::span<const std::byte> frame) noexcept;

/// An answer without fields and body, of which only the opaque differs each time. Its bytes are
/// those of a FrameWriter.
class AnswerTemplate {
 public:
  AnswerTemplate() = default;
  /// @param head  its opaque does not matter
  explicit AnswerTemplate(FrameWriter::Head head);
  /// Does not allocate beyond the growth of the buffer. Thread: any.
  void append(std::string& out, std::int32_t opaque) const;

 private:
  std::string bytes_{};  ///< with one digit as opaque
  std::size_t opaque_at_ = 0;
  HeaderKind kind_ = HeaderKind::kJson;
};

}  // namespace tenon::proto
