// C interface: batches, queues, requests and answers, taking back.
#include "c/c_message.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tenon::sdk::c {
namespace {

/// Element of an array whose structures are as large as the caller says.
template <class T>
T* at(T* first, std::size_t size, std::size_t i) noexcept {
  using Bytes = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<T*>(reinterpret_cast<Bytes*>(first) + i * size);
}

std::size_t size_of(const void* structure) noexcept {
  std::size_t size = 0;
  std::memcpy(&size, structure, sizeof size);
  return size;
}

/// @return 0 or the failure
std::int32_t convert_all(const tenon_message* first,
                         std::size_t count,
                         std::vector<Message>& messages,
                         Outgoing& how) {
  if (first == nullptr || count == 0) {
    return failed(Errc::kInvalidArgument, "tenon_producer_send_batch: no messages");
  }
  const std::size_t size = size_of(first);
  for (std::size_t i = 0; i < count; ++i) {
    const tenon_message* one = at(first, size, i);
    if (i > 0 && size_of(one) != size) {
      return failed(Errc::kInvalidArgument, "message.size differs within a batch");
    }
    Outgoing outgoing;
    Outgoing& into = i == 0 ? how : outgoing;
    if (const std::int32_t wrong = convert(one, into); wrong != 0) {
      return wrong;
    }
    messages.push_back(std::move(into.message));
  }
  return 0;
}

}  // namespace
}  // namespace tenon::sdk::c

using namespace tenon::sdk;

int32_t tenon_producer_send_batch(tenon_producer* producer,
                                  const tenon_message* messages,
                                  size_t count,
                                  tenon_receipt* receipts,
                                  size_t* receipt_count) noexcept {
  return c::guarded([&] {
    if ((receipts != nullptr && receipt_count == nullptr) || !c::sized(receipts)) {
      return c::failed(Errc::kInvalidArgument,
                       "receipts without receipt_count, or of a wrong size");
    }
    const std::size_t room = receipts == nullptr ? 0 : *receipt_count;
    if (receipt_count != nullptr) {
      *receipt_count = 0;
    }
    std::vector<Message> all;
    c::Outgoing how;
    if (const std::int32_t wrong = c::convert_all(messages, count, all, how); wrong != 0) {
      return wrong;
    }
    std::vector<Receipt> stored;
    const auto r = producer->producer.send_batch(all, how.options, &stored);
    const std::vector<Receipt>& told = r ? *r : stored;
    const std::size_t size = room == 0 ? 0 : receipts->size;
    for (std::size_t i = 0; i < std::min(room, told.size()); ++i) {
      tenon_receipt* to = c::at(receipts, size, i);
      to->size = size;
      c::give(told[i], to);
      *receipt_count = i + 1;
    }
    return r ? 0 : c::failed(r.error());
  });
}

int32_t tenon_producer_queues(tenon_producer* producer,
                              const char* topic,
                              tenon_queue_fn each,
                              void* arg) noexcept {
  return c::guarded([&] {
    if (topic == nullptr || each == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_producer_queues: topic or each is NULL");
    }
    const auto r = producer->producer.queues(topic);
    if (!r) {
      return c::failed(r.error());
    }
    for (const Queue& q : *r) {
      const tenon_message_queue queue = c::shown(q);
      each(arg, &queue);
    }
    return 0;
  });
}

int32_t tenon_producer_request(tenon_producer* producer,
                               const tenon_message* message,
                               tenon_delivery** answer) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (answer == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_producer_request: answer is NULL");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    auto r = producer->producer.request(std::move(outgoing.message), outgoing.options);
    if (!r) {
      return c::failed(r.error());
    }
    *answer = reinterpret_cast<tenon_delivery*>(new MessageView(std::move(*r)));
    return 0;
  });
}

int32_t tenon_producer_request_async(tenon_producer* producer,
                                     const tenon_message* message,
                                     tenon_answer_fn done,
                                     void* arg) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (done == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_producer_request_async: done is NULL");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    producer->producer.async_request(
        std::move(outgoing.message),
        [done, arg](Result<MessageView> r) {
          if (r) {
            done(arg, TENON_CLIENT_OK, c::delivery(*r));
          } else {
            done(arg, c::failed(r.error()), nullptr);
          }
        },
        outgoing.options);
    return 0;
  });
}

int32_t tenon_producer_reply(tenon_producer* producer,
                             const tenon_delivery* request,
                             const tenon_message* answer,
                             tenon_receipt* receipt) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (request == nullptr || !c::sized(receipt)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_producer_reply: request is NULL or receipt.size is wrong");
    }
    if (const std::int32_t wrong = c::convert(answer, outgoing); wrong != 0) {
      return wrong;
    }
    const auto r =
        producer->producer.reply(c::view(request), std::move(outgoing.message), outgoing.options);
    if (!r) {
      return c::failed(r.error());
    }
    if (receipt != nullptr) {
      c::give(*r, receipt);
    }
    return 0;
  });
}

int32_t tenon_producer_recall(tenon_producer* producer,
                              const char* topic,
                              const char* recall_handle,
                              char* id,
                              size_t room) noexcept {
  return c::guarded([&] {
    const auto r = producer->producer.recall(c::text(topic), c::text(recall_handle));
    if (!r) {
      return c::failed(r.error());
    }
    c::copy(*r, id, room);
    return 0;
  });
}
