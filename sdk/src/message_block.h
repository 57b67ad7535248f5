// Memory of received messages: one block per pull answer, reference counted, with one slot per
// record. MessageViews point into it.
#pragma once

#include "name_space.h"

#include "tenon/proto/message.h"
#include "tenon/sdk/message.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::detail {

struct MessageSlot {
  proto::MessageView m{};
  std::string_view topic{};  ///< m.topic, of a retry the original one
  std::atomic<const std::string*> inflated{nullptr};
  std::atomic<bool> damaged{false};
  /// Deliveries by an orderly consumer that suspended its queue: counted here, not at the broker.
  mutable std::atomic<std::int32_t> local_retries{0};
};

struct MessageBlock {
  std::atomic<std::size_t> references{1};
  std::shared_ptr<const void> keep{};  ///< the buffer that the slots point into
  std::string broker{};
  NameSpace names{};
  std::forward_list<std::string> topics{};  ///< those that are no part of what slots point to
  std::mutex inflate_mutex{};
  std::unique_ptr<MessageSlot[]> slots{};
  std::size_t size = 0;

  MessageBlock() = default;
  MessageBlock(const MessageBlock&) = delete;
  MessageBlock& operator=(const MessageBlock&) = delete;
  ~MessageBlock();

  /// A view that takes a new reference.
  MessageView view(std::size_t index) noexcept;
  static const MessageSlot& slot_of(const MessageView& v) noexcept { return *v.slot_; }
};

/// Decodes records that lie back to back. Stops at the first that is damaged; what was decoded is
/// returned. `keep` keeps the bytes alive.
std::vector<MessageView> decode_messages(std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> keep,
                                         std::string_view broker,
                                         const NameSpace& names = {});

}  // namespace tenon::sdk::detail
