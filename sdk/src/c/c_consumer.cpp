// C interface: received messages and push consumer.
#include "c/c_support.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::sdk::c {
namespace {

using std::chrono::milliseconds;

const char* give(std::string_view text, std::size_t* length) noexcept {
  if (length != nullptr) {
    *length = text.size();
  }
  return text.data() == nullptr ? "" : text.data();
}

std::int64_t ms(std::chrono::system_clock::time_point when) noexcept {
  return std::chrono::duration_cast<milliseconds>(when.time_since_epoch()).count();
}

struct Verdict {
  std::int32_t ack = TENON_ACK_RETRY;
  tenon_ack_details details{};
};

Verdict ask(tenon_listener_fn listener, void* arg, std::span<const MessageView> batch) {
  std::vector<const tenon_delivery*> pointers;
  pointers.reserve(batch.size());
  for (const MessageView& v : batch) {
    pointers.push_back(delivery(v));
  }
  Verdict verdict;
  verdict.details.size = sizeof verdict.details;
  verdict.ack = listener(arg, pointers.data(), pointers.size(), &verdict.details);
  return verdict;
}

Result<PushConsumerOptions> consumer_options(const tenon_consumer_options& in) {
  PushConsumerOptions out;
  out.group = text(in.group);
  auto wanted = subscriptions(in.subscriptions, in.subscription_count);
  if (!wanted) {
    return std::move(wanted).error();
  }
  out.subscriptions = std::move(*wanted);
  auto start = start_position(in.start, in.start_ms);
  if (!start) {
    return std::move(start).error();
  }
  out.start = *start;
  out.mode = in.broadcasting != 0 ? GroupMode::kBroadcasting : GroupMode::kClustering;
  out.allocator = text(in.allocator);
  out.local_offset_dir = text(in.local_offset_dir);
  const auto set = [](auto& to, auto from) {
    if (from != 0) {
      to = static_cast<std::remove_reference_t<decltype(to)>>(from);
    }
  };
  set(out.max_attempts, in.max_attempts);
  set(out.threads, in.threads);
  set(out.batch_max, in.batch_max);
  set(out.pull_batch, in.pull_batch);
  set(out.cached_max_messages, in.cached_max_messages);
  set(out.suspend_delay, in.suspend_delay_ms);
  set(out.consume_timeout, in.consume_timeout_ms);
  set(out.drain_on_close, in.drain_on_close_ms);
  return out;
}

Result<PushConsumer> open(Client& client,
                          PushConsumerOptions options,
                          bool orderly,
                          tenon_listener_fn listener,
                          void* arg) {
  if (orderly) {
    return PushConsumer::orderly(
        client, std::move(options), [listener, arg](std::span<const MessageView> batch) {
          const Verdict v = ask(listener, arg, batch);
          return v.ack == TENON_ACK_SUCCESS ? OrderAck::success()
                                            : OrderAck::suspend(milliseconds(v.details.pause_ms));
        });
  }
  return PushConsumer::concurrent(
      client, std::move(options), [listener, arg](std::span<const MessageView> batch) {
        const Verdict v = ask(listener, arg, batch);
        if (v.ack == TENON_ACK_SUCCESS) {
          return Ack::success();
        }
        return v.ack == TENON_ACK_DEAD_LETTER
                   ? Ack::dead_letter()
                   : Ack::partial(v.details.done, std::max(v.details.delay_level, 0));
      });
}

}  // namespace

Result<std::map<std::string, Subscription>> subscriptions(const tenon_subscription* first,
                                                          std::size_t count) {
  if (first == nullptr && count != 0) {
    return Error{Errc::kInvalidArgument, -1, "subscriptions is NULL"};
  }
  std::map<std::string, Subscription> out;
  for (std::size_t i = 0; i < count; ++i) {
    Subscription subscription;
    if (first[i].expression != nullptr) {
      subscription.expression = first[i].expression;
    }
    subscription.kind = first[i].sql != 0 ? FilterKind::kSql92 : FilterKind::kTag;
    out[text(first[i].topic)] = subscription;
  }
  return out;
}

Result<StartPosition> start_position(std::int32_t start, std::int64_t start_ms) {
  switch (start) {
    case TENON_START_LAST:
      return StartPosition(FromLast{});
    case TENON_START_FIRST:
      return StartPosition(FromFirst{});
    case TENON_START_TIME:
      return StartPosition(FromTime{std::chrono::system_clock::time_point(milliseconds(start_ms))});
    default:
      return Error{Errc::kInvalidArgument, -1, "start must be 0 to 2"};
  }
}

}  // namespace tenon::sdk::c

using namespace tenon::sdk;

const void* tenon_delivery_body(const tenon_delivery* d, size_t* length) noexcept {
  try {
    return c::give(c::view(d).body(), length);
  } catch (...) {  // no memory to inflate it
    return c::give({}, length);
  }
}
const char* tenon_delivery_topic(const tenon_delivery* d, size_t* length) noexcept {
  return c::give(c::view(d).topic(), length);
}
const char* tenon_delivery_tag(const tenon_delivery* d, size_t* length) noexcept {
  return c::give(c::view(d).tag(), length);
}
const char* tenon_delivery_keys(const tenon_delivery* d, size_t* length) noexcept {
  return c::give(c::view(d).keys(), length);
}
const char* tenon_delivery_broker(const tenon_delivery* d, size_t* length) noexcept {
  return c::give(c::view(d).broker(), length);
}
const char* tenon_delivery_property(const tenon_delivery* d,
                                    const char* name,
                                    size_t* length) noexcept {
  const auto value = c::view(d).property(name == nullptr ? "" : name);
  return value ? c::give(*value, length) : nullptr;
}
size_t tenon_delivery_id(const tenon_delivery* d, char* out, size_t room) noexcept {
  try {
    const std::string id = c::view(d).id();
    if (room > 0) {
      const std::size_t n = std::min(id.size(), room - 1);
      std::memcpy(out, id.data(), n);
      out[n] = '\0';
    }
    return id.size();
  } catch (...) {
    return 0;
  }
}
int32_t tenon_delivery_queue_id(const tenon_delivery* d) noexcept {
  return c::view(d).queue_id();
}
int64_t tenon_delivery_queue_offset(const tenon_delivery* d) noexcept {
  return c::view(d).queue_offset();
}
int32_t tenon_delivery_reconsume_times(const tenon_delivery* d) noexcept {
  return c::view(d).reconsume_times();
}
int64_t tenon_delivery_born_ms(const tenon_delivery* d) noexcept {
  return c::ms(c::view(d).born_time());
}
int64_t tenon_delivery_store_ms(const tenon_delivery* d) noexcept {
  return c::ms(c::view(d).store_time());
}
int32_t tenon_delivery_flag(const tenon_delivery* d) noexcept {
  return c::view(d).flag();
}
tenon_delivery* tenon_delivery_copy(const tenon_delivery* d) noexcept {
  return reinterpret_cast<tenon_delivery*>(new (std::nothrow) MessageView(c::view(d)));
}
void tenon_delivery_free(tenon_delivery* copy) noexcept {
  delete reinterpret_cast<MessageView*>(copy);
}

int32_t tenon_consumer_open(tenon_client* client,
                            const tenon_consumer_options* options,
                            tenon_listener_fn listener,
                            void* arg,
                            tenon_consumer** out) noexcept {
  return c::guarded([&] {
    tenon_consumer_options in;
    if (client == nullptr || listener == nullptr || out == nullptr || !c::adopt(options, in)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_consumer_open: options.size, client, listener or out is wrong");
    }
    auto settings = c::consumer_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto consumer = c::open(client->client, std::move(*settings), in.orderly != 0, listener, arg);
    if (!consumer) {
      return c::failed(consumer.error());
    }
    *out = new tenon_consumer{std::move(*consumer)};
    return 0;
  });
}

void tenon_consumer_pause(tenon_consumer* consumer) noexcept {
  c::guarded([&] {
    consumer->consumer.pause();
    return 0;
  });
}
void tenon_consumer_resume(tenon_consumer* consumer) noexcept {
  c::guarded([&] {
    consumer->consumer.resume();
    return 0;
  });
}
int32_t tenon_consumer_close(tenon_consumer* consumer) noexcept {
  return c::guarded([&] {
    const auto r = consumer->consumer.close();
    return r ? 0 : c::failed(r.error());
  });
}
void tenon_consumer_destroy(tenon_consumer* consumer) noexcept {
  delete consumer;
}
