// C interface: messages, receipts and options of producers.
#include "c/c_message.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

namespace tenon::sdk::c {
namespace {

using std::chrono::milliseconds;

std::vector<std::string> split_keys(const char* keys) {
  std::vector<std::string> out;
  std::string_view rest = keys == nullptr ? std::string_view() : std::string_view(keys);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) {
      out.emplace_back(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

template <std::size_t N>
void put(char (&out)[N], std::string_view text) noexcept {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

/// Where it goes. @return 0 or the failure
std::int32_t convert_choice(const tenon_message& in, Outgoing& out) {
  if ((in.sharding_key != nullptr) + (in.queue != nullptr) + (in.select != nullptr) > 1) {
    return failed(Errc::kInvalidArgument,
                  "message: more than one of sharding_key, queue and select");
  }
  if (in.sharding_key != nullptr) {
    out.options.sharding_key = in.sharding_key;
  }
  if (in.queue != nullptr) {
    out.queue = queue_of(*in.queue);
    out.options.queue = &out.queue;
  }
  if (in.select != nullptr) {
    out.select = [select = in.select, arg = in.select_arg](std::span<const Queue> queues,
                                                           const Message& message) {
      std::vector<tenon_message_queue> all;
      all.reserve(queues.size());
      for (const Queue& q : queues) {
        all.push_back(shown(q));
      }
      const Shown view(message);
      return select(arg, all.data(), all.size(), view.get());
    };
    out.options.select = &out.select;
  }
  return 0;
}

}  // namespace

std::int32_t convert(const tenon_message* from, Outgoing& out) {
  tenon_message in;
  if (from == nullptr || !adopt(from, in)) {
    return failed(Errc::kInvalidArgument, "message.size is wrong");
  }
  if ((in.body == nullptr && in.body_length != 0) ||
      (in.properties == nullptr && in.property_count != 0)) {
    return failed(Errc::kInvalidArgument, "message: a length without a pointer");
  }
  out.message.topic = text(in.topic);
  if (in.body_length != 0) {
    out.message.body.assign(static_cast<const char*>(in.body), in.body_length);
  }
  out.message.tag = text(in.tag);
  out.message.keys = split_keys(in.keys);
  out.message.delay_level = in.delay_level;
  out.message.delay = milliseconds(in.delay_ms);
  if (in.deliver_at_ms != 0) {
    out.message.deliver_at = std::chrono::system_clock::time_point(milliseconds(in.deliver_at_ms));
  }
  for (std::size_t i = 0; i < in.property_count; ++i) {
    if (in.properties[i].name == nullptr || in.properties[i].value == nullptr) {
      return failed(Errc::kInvalidArgument, "message: a property without name or value");
    }
    out.message.properties[in.properties[i].name] = in.properties[i].value;
  }
  out.message.flag = in.flag;
  out.message.wait_store_ok = in.no_wait == 0;
  out.options.timeout = milliseconds(in.timeout_ms);
  return convert_choice(in, out);
}

Shown::Shown(const Message& from) {
  for (const std::string& key : from.keys) {
    keys_ += (keys_.empty() ? "" : " ") + key;
  }
  for (const auto& [name, value] : from.properties) {
    properties_.push_back({name.c_str(), value.c_str()});
  }
  message_.size = sizeof message_;
  message_.topic = from.topic.c_str();
  message_.body = from.body.data();
  message_.body_length = from.body.size();
  message_.tag = from.tag.empty() ? nullptr : from.tag.c_str();
  message_.keys = keys_.empty() ? nullptr : keys_.c_str();
  message_.properties = properties_.data();
  message_.property_count = properties_.size();
  message_.delay_ms = from.delay.count();
  message_.deliver_at_ms =
      from.deliver_at
          ? std::chrono::duration_cast<milliseconds>(from.deliver_at->time_since_epoch()).count()
          : 0;
  message_.delay_level = from.delay_level;
  message_.flag = from.flag;
  message_.no_wait = from.wait_store_ok ? 0 : 1;
}

Queue queue_of(const tenon_message_queue& in) {
  return {text(in.topic), text(in.broker), in.id};
}

tenon_message_queue shown(const Queue& queue) noexcept {
  return {queue.topic.c_str(), queue.broker.c_str(), queue.id, 0};
}

tenon_receipt receipt_of(const Receipt& from) noexcept {
  tenon_receipt out{};
  out.size = sizeof out;
  out.status = static_cast<std::int32_t>(from.status);
  out.queue_id = from.queue.id;
  out.queue_offset = from.queue_offset;
  const std::string_view ids = from.id;
  put(out.id, ids.substr(0, ids.find(',')));
  put(out.offset_id, std::string_view(from.offset_id).substr(0, from.offset_id.find(',')));
  put(out.broker, from.queue.broker);
  put(out.recall_handle, from.recall_handle);
  out.message_count = 1 + static_cast<std::int32_t>(std::count(ids.begin(), ids.end(), ','));
  put(out.transaction_id, from.transaction_id);
  return out;
}

void give(const Receipt& from, tenon_receipt* to) noexcept {
  const std::size_t room = to->size;
  const tenon_receipt full = receipt_of(from);
  std::memcpy(to, &full, std::min(room, sizeof full));
  to->size = room;
}

bool sized(const tenon_receipt* receipt) noexcept {
  return receipt == nullptr || receipt->size > sizeof receipt->size;
}

std::size_t copy(const std::string& text, char* out, std::size_t room) noexcept {
  if (out != nullptr && room > 0) {
    const std::size_t n = std::min(text.size(), room - 1);
    std::memcpy(out, text.data(), n);
    out[n] = '\0';
  }
  return text.size();
}

Result<ProducerOptions> producer_options(const tenon_producer_options& in) {
  ProducerOptions out;
  out.group = text(in.group);
  out.selector = text(in.selector);
  set(out.send_timeout, in.send_timeout_ms);
  if (in.retries != 0) {
    out.retries = in.retries == -1 ? 0 : in.retries;
    out.retries_async = out.retries;
  }
  constexpr Compression kKinds[] = {
      Compression::kZlib, Compression::kNone, Compression::kLz4, Compression::kZstd};
  if (in.compression < 0 || in.compression > 3) {
    return Error{Errc::kInvalidArgument, -1, "compression must be 0 to 3"};
  }
  out.compression = kKinds[in.compression];
  set(out.compress_from_bytes, in.compress_from_bytes);
  set(out.max_body_bytes, in.max_body_bytes);
  set(out.in_flight_max, in.in_flight_max);
  set(out.in_flight_max_bytes, in.in_flight_max_bytes);
  if (in.fault_tolerance < 0 || in.fault_tolerance > 2) {
    return Error{Errc::kInvalidArgument, -1, "fault_tolerance must be 0 to 2"};
  }
  out.fault_tolerance = static_cast<FaultTolerance>(in.fault_tolerance);
  out.retry_not_stored_ok = in.retry_not_stored_ok != 0;
  out.retry_busy = in.retry_busy != 0;
  set(out.default_topic_queues, in.default_topic_queues);
  if (in.create_topic_key != nullptr) {
    out.create_topic_key = in.create_topic_key;
  }
  if (auto r = add_hook(in.hook, out.hooks); !r) {
    return std::move(r).error();
  }
  return out;
}

}  // namespace tenon::sdk::c
