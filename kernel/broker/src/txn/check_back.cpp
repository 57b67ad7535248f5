#include "txn/check_back.h"

#include "tenon/base/endian.h"
#include "tenon/proto/command.h"

#include <cstddef>
#include <string>

namespace tenon::broker {
namespace {

/// A producer with so much unread gets no more questions for now.
constexpr std::size_t kUnreadMax = 4u * 1024 * 1024;

}  // namespace

bool CheckBack::online(std::string_view group) const {
  const auto channels = producers_.channels(group);
  if (!channels) {
    return false;
  }
  for (const ClientChannel& channel : *channels) {
    if (channel.connection->is_open()) {
      return true;
    }
  }
  return false;
}

net::ConnectionPtr CheckBack::next(std::string_view group, bool& busy) {
  const auto channels = producers_.channels(group);
  if (!channels || channels->empty()) {
    return nullptr;
  }
  const std::uint32_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < channels->size(); ++i) {
    const net::ConnectionPtr& connection = (*channels)[(first + i) % channels->size()].connection;
    if (!connection->is_open()) {
      continue;
    }
    if (connection->queued_bytes() < kUnreadMax) {
      return connection;
    }
    busy = true;
  }
  return nullptr;
}

void CheckBack::send(const net::ConnectionPtr& producer,
                     const Half& half,
                     const proto::MessageRecord& copy) {
  proto::MessageRecord shown = copy;
  shown.topic = half.real_topic;
  shown.queue_id = half.real_queue_id;
  std::string body(proto::encoded_message_bytes(shown), '\0');
  proto::encode_message(shown, reinterpret_cast<std::byte*>(body.data()));

  proto::FrameWriter::Head head;
  head.code = proto::RequestCode::kCheckTransactionState;
  head.opaque = opaque_.fetch_add(1, std::memory_order_relaxed);
  head.flag = proto::kFlagOneway;
  std::string frame;
  proto::FrameWriter writer(frame, head);
  writer.field("commitLogOffset", copy.phys_offset);
  writer.field("msgId", half.uniq_key);
  writer.field("tranStateTableOffset", copy.queue_offset);
  writer.field("offsetMsgId", proto::offset_message_id(copy.store_host, copy.phys_offset));
  writer.field("transactionId", half.uniq_key);
  writer.finish(as_bytes(std::string_view(body)));
  producer->send(std::move(frame));
}

}  // namespace tenon::broker
