#include "message_block.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"
#include "tenon/sdk/message.h"

namespace tenon::sdk {
namespace detail {

MessageBlock::~MessageBlock() {
  for (std::size_t i = 0; i < size; ++i) {
    delete slots[i].inflated.load(std::memory_order_acquire);
  }
}

MessageView MessageBlock::view(std::size_t index) noexcept {
  references.fetch_add(1, std::memory_order_relaxed);
  return MessageView(this, &slots[index]);
}

namespace {

std::size_t count_records(std::span<const std::byte> bytes) noexcept {
  std::size_t n = 0;
  while (bytes.size() >= 4) {
    const auto size = load_be<std::uint32_t>(bytes.data());
    if (size < 4 || size > bytes.size()) {
      break;
    }
    bytes = bytes.subspan(size);
    ++n;
  }
  return n;
}

}  // namespace

std::vector<MessageView> decode_messages(std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> keep,
                                         std::string_view broker,
                                         const NameSpace& names) {
  std::vector<MessageView> out;
  const std::size_t expected = count_records(bytes);
  if (expected == 0) {
    return out;
  }
  auto block = std::make_unique<MessageBlock>();
  block->keep = std::move(keep);
  block->broker = std::string(broker);
  block->names = names;
  block->slots = std::make_unique<MessageSlot[]>(expected);
  std::string_view wire_before;
  for (std::size_t i = 0; i < expected; ++i) {
    const auto decoded = proto::decode_message(bytes);
    if (decoded.has_error()) {
      log_warn("sdk",
               "message cannot be decoded broker={} reason=\"{}\"",
               broker,
               decoded.error().detail);
      break;
    }
    MessageSlot& slot = block->slots[i];
    slot.m = decoded.value();
    slot.topic = slot.m.topic;
    if (slot.topic.starts_with("%RETRY%")) {
      slot.topic =
          proto::find_property(slot.m.properties, proto::prop::kRetryTopic).value_or(slot.topic);
    }
    if (!names.empty()) {
      // Mostly all records are of one topic.
      const std::string_view wire = slot.topic;
      slot.topic = i > 0 && wire == wire_before
                       ? block->slots[i - 1].topic
                       : std::string_view(block->topics.emplace_front(names.unwrap(wire)));
      wire_before = wire;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(slot.m.total_bytes));
    block->size = i + 1;
  }
  out.reserve(block->size);
  for (std::size_t i = 0; i < block->size; ++i) {
    out.push_back(block->view(i));
  }
  if (out.empty()) {
    return out;
  }
  // The reference that the block was born with goes away; the views hold theirs.
  block.release()->references.fetch_sub(1, std::memory_order_acq_rel);
  return out;
}

}  // namespace detail

MessageView::MessageView(const MessageView& other) noexcept
    : block_(other.block_),
      slot_(other.slot_) {
  if (block_ != nullptr) {
    block_->references.fetch_add(1, std::memory_order_relaxed);
  }
}

MessageView::~MessageView() {
  if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete block_;
  }
}

std::string_view MessageView::topic() const noexcept {
  return slot_->topic;
}

std::string_view MessageView::raw_body() const noexcept {
  return as_text(slot_->m.body);
}

std::string_view MessageView::body() const {
  if ((slot_->m.sys_flag & proto::sys_flag::kCompressed) == 0) {
    return raw_body();
  }
  const std::string* text = slot_->inflated.load(std::memory_order_acquire);
  if (text == nullptr) {
    const std::scoped_lock lock(block_->inflate_mutex);
    text = slot_->inflated.load(std::memory_order_acquire);
    if (text == nullptr) {
      auto inflated = proto::decompress(slot_->m.body, slot_->m.sys_flag);
      if (inflated.has_error()) {
        slot_->damaged.store(true, std::memory_order_release);
        text = new std::string();
      } else {
        text = new std::string(std::move(inflated).value());
      }
      slot_->inflated.store(text, std::memory_order_release);
    }
  }
  return *text;
}

std::span<const std::byte> MessageView::body_bytes() const {
  return as_bytes(body());
}

bool MessageView::damaged() const {
  static_cast<void>(body());
  return slot_->damaged.load(std::memory_order_acquire);
}

std::optional<std::string_view> MessageView::property(std::string_view name) const noexcept {
  return proto::find_property(slot_->m.properties, name);
}

std::string_view MessageView::tag() const noexcept {
  return property(proto::prop::kTags).value_or(std::string_view());
}

std::string_view MessageView::keys() const noexcept {
  return property(proto::prop::kKeys).value_or(std::string_view());
}

std::vector<std::pair<std::string_view, std::string_view>> MessageView::properties() const {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (proto::PropertyIterator it(slot_->m.properties); it.next();) {
    out.emplace_back(it.name(), it.value());
  }
  return out;
}

std::string_view MessageView::broker() const noexcept {
  return block_->broker;
}
int MessageView::queue_id() const noexcept {
  return slot_->m.queue_id;
}
std::int64_t MessageView::queue_offset() const noexcept {
  return slot_->m.queue_offset;
}
Queue MessageView::queue() const {
  return {block_->names.unwrap(slot_->m.topic), block_->broker, slot_->m.queue_id};
}

std::string MessageView::id() const {
  if (const auto unique = property(proto::prop::kUniqKey)) {
    return std::string(*unique);
  }
  return offset_id();
}

std::string MessageView::offset_id() const {
  return proto::offset_message_id(slot_->m.store_host, slot_->m.phys_offset);
}

std::chrono::system_clock::time_point MessageView::born_time() const noexcept {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(slot_->m.born_ms));
}
std::chrono::system_clock::time_point MessageView::store_time() const noexcept {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(slot_->m.store_ms));
}
std::string MessageView::born_host() const {
  return proto::to_string(slot_->m.born_host);
}
std::string MessageView::store_host() const {
  return proto::to_string(slot_->m.store_host);
}
int MessageView::reconsume_times() const noexcept {
  return slot_->m.reconsume_times + slot_->local_retries.load(std::memory_order_relaxed);
}
std::int32_t MessageView::flag() const noexcept {
  return slot_->m.flag;
}
std::int32_t MessageView::sys_flag() const noexcept {
  return slot_->m.sys_flag;
}
std::int64_t MessageView::physical_offset() const noexcept {
  return slot_->m.phys_offset;
}

}  // namespace tenon::sdk
