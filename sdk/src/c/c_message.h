// Messages to be sent between C and C++, for all functions of the C interface that send.
#pragma once

#include "c/c_support.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::sdk::c {

/// What a tenon_message asks for. `options` points into this and into the tenon_message.
struct Outgoing {
  Outgoing() = default;
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  Message message{};
  SendOptions options{};
  Queue queue{};
  Selector select{};
};

/// @return 0 or the failure
std::int32_t convert(const tenon_message* from, Outgoing& out);

/// A message as callbacks in C see it: valid as long as this and the message are.
class Shown {
 public:
  explicit Shown(const Message& from);
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  const tenon_message* get() const noexcept { return &message_; }

 private:
  std::string keys_{};
  std::vector<tenon_property> properties_{};
  tenon_message message_{};
};

Queue queue_of(const tenon_message_queue& in);
/// Views into the queue.
tenon_message_queue shown(const Queue& queue) noexcept;

tenon_receipt receipt_of(const Receipt& from) noexcept;
/// Fills as much as the caller has room for: to->size, which stays.
void give(const Receipt& from, tenon_receipt* to) noexcept;
/// The caller has said how large its structure is; NULL is fine.
bool sized(const tenon_receipt* receipt) noexcept;
/// With a zero byte, as far as there is room. @return its length
std::size_t copy(const std::string& text, char* out, std::size_t room) noexcept;

Result<ProducerOptions> producer_options(const tenon_producer_options& in);

}  // namespace tenon::sdk::c
