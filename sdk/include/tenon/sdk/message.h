// Messages: a plain struct for sending, a shared immutable view for receiving.
#pragma once

#include "tenon/sdk/result.h"

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::sdk {

/// One queue of a topic on one broker. The order is the one all members of a group use.
struct Queue {
  std::string topic{};
  std::string broker{};
  int id = 0;
  friend auto operator<=>(const Queue&, const Queue&) = default;
};

/// A message to be sent. It is moved in and never changed behind the caller's back.
struct Message {
  std::string topic{};              ///< 1 to 127 of % | a-z A-Z 0-9 _ -
  std::string body{};               ///< 1 byte to ProducerOptions::max_body_bytes
  std::string tag{};                ///< consumers select by it
  std::vector<std::string> keys{};  ///< for finding the message later; no blanks inside a key
  int delay_level = 0;              ///< 0 at once; 1 to 18: 1s 5s 10s 30s 1m … 10m 20m 30m 1h 2h
  // At most one of the three. Any time is understood by Tenon and by RocketMQ 5 brokers; RocketMQ 4
  // brokers deliver such a message at once.
  std::chrono::milliseconds delay{0};                                 ///< after being stored
  std::optional<std::chrono::system_clock::time_point> deliver_at{};  ///< at this time
  std::map<std::string, std::string> properties{};  ///< no system names, no U+0001 or U+0002
  bool wait_store_ok = true;  ///< the answer waits for what the broker promises (flush, replica)
  std::int32_t flag = 0;      ///< stored as it is
};

/// Status is not success: all of these were stored by the master.
enum class SendStatus : std::uint8_t {
  kOk = 0,
  kFlushDiskTimeout,   ///< stored, not yet on disk although the broker promises it
  kFlushSlaveTimeout,  ///< stored, not yet replicated
  kSlaveNotAvailable   ///< stored, no replica to copy it to
};
TENON_SDK_API std::string_view to_string(SendStatus status) noexcept;

struct Receipt {
  SendStatus status = SendStatus::kOk;
  std::string id{};         ///< the id that consumers see; batch: all ids, joined by commas
  std::string offset_id{};  ///< the broker's id, by which it finds the message without an index
  Queue queue{};
  std::int64_t queue_offset = -1;
  std::string transaction_id{};
  std::string region{};
  std::string recall_handle{};  ///< of a message delayed to any time: for Producer::recall()
  /// Stored with everything the broker promises.
  bool durable() const noexcept { return status == SendStatus::kOk; }
};

namespace detail {
struct MessageBlock;
struct MessageSlot;
}  // namespace detail

/// A received message: views into the buffer it arrived in. A copy is a reference count; everything
/// returned as a view is valid as long as some copy of the MessageView is. Thread: any.
class TENON_SDK_API MessageView {
 public:
  MessageView() noexcept = default;
  MessageView(const MessageView& other) noexcept;
  MessageView(MessageView&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        slot_(std::exchange(other.slot_, nullptr)) {}
  MessageView& operator=(MessageView other) noexcept {
    std::swap(block_, other.block_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~MessageView();
  explicit operator bool() const noexcept { return slot_ != nullptr; }

  std::string_view topic() const noexcept;  ///< of a retry: the topic it was sent to at first
  /// Body as the sender gave it; inflated on the first call. Empty if it cannot be (damaged()).
  std::string_view body() const;
  std::span<const std::byte> body_bytes() const;
  std::string_view raw_body() const noexcept;  ///< as stored, maybe compressed
  bool damaged() const;                        ///< the compressed body cannot be inflated
  std::string_view tag() const noexcept;
  std::string_view keys() const noexcept;  ///< joined by one blank
  std::optional<std::string_view> property(std::string_view name) const noexcept;
  std::vector<std::pair<std::string_view, std::string_view>> properties() const;
  std::string_view broker() const noexcept;
  int queue_id() const noexcept;
  std::int64_t queue_offset() const noexcept;
  Queue queue() const;     ///< where it was read from: of a retry the queue of the retry topic
  std::string id() const;  ///< as the sender's Receipt::id
  std::string offset_id() const;
  std::chrono::system_clock::time_point born_time() const noexcept;
  std::chrono::system_clock::time_point store_time() const noexcept;
  std::string born_host() const;         ///< "ip:port"
  std::string store_host() const;        ///< "ip:port"
  int reconsume_times() const noexcept;  ///< 0 at the first delivery
  std::int32_t flag() const noexcept;
  std::int32_t sys_flag() const noexcept;
  std::int64_t physical_offset() const noexcept;

 private:
  friend struct detail::MessageBlock;
  MessageView(detail::MessageBlock* block, detail::MessageSlot* slot) noexcept
      : block_(block),
        slot_(slot) {}
  detail::MessageBlock* block_ = nullptr;
  detail::MessageSlot* slot_ = nullptr;
};

}  // namespace tenon::sdk
