// C interface: pull consumer.
#include "c/c_message.h"

#include <chrono>
#include <span>
#include <vector>

struct tenon_pull {
  tenon::sdk::PullConsumer consumer;
  std::vector<tenon::sdk::MessageView>
      polled{};  ///< what the last poll returned, and pointers to it
  std::vector<const tenon_delivery*> pointers{};
};

namespace tenon::sdk::c {
namespace {

constexpr std::int64_t kBegin = -1;
constexpr std::int64_t kEnd = -2;

Result<PullConsumerOptions> pull_options(const tenon_pull_options& in) {
  PullConsumerOptions out;
  if (auto r = consumer_options(in, out); !r) {
    return std::move(r).error();
  }
  out.auto_commit = in.auto_commit != 0;
  set(out.commit_interval, in.commit_interval_ms);
  set(out.poll_max, in.poll_max);
  return out;
}

}  // namespace
}  // namespace tenon::sdk::c

using namespace tenon::sdk;

int32_t tenon_pull_open(tenon_client* client,
                        const tenon_pull_options* options,
                        tenon_pull** out) noexcept {
  return c::guarded([&] {
    tenon_pull_options in;
    if (client == nullptr || out == nullptr || !c::adopt(options, in)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_pull_open: options.size, client or out is wrong");
    }
    auto settings = c::pull_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto consumer = PullConsumer::open(client->client, std::move(*settings));
    if (!consumer) {
      return c::failed(consumer.error());
    }
    *out = new tenon_pull{std::move(*consumer)};
    return 0;
  });
}

int32_t tenon_pull_poll(tenon_pull* pull,
                        int64_t timeout_ms,
                        const tenon_delivery* const** messages,
                        size_t* count) noexcept {
  return c::guarded([&] {
    if (messages == nullptr || count == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_pull_poll: messages or count is NULL");
    }
    *count = 0;
    pull->polled = pull->consumer.poll(std::chrono::milliseconds(timeout_ms));
    pull->pointers.clear();
    for (const MessageView& v : pull->polled) {
      pull->pointers.push_back(c::delivery(v));
    }
    *messages = pull->pointers.data();
    *count = pull->pointers.size();
    return 0;
  });
}

int32_t tenon_pull_commit(tenon_pull* pull) noexcept {
  return c::guarded([&] {
    const auto r = pull->consumer.commit();
    return r ? 0 : c::failed(r.error());
  });
}

int32_t tenon_pull_assign(tenon_pull* pull, const tenon_pull_queue* queues, size_t count) noexcept {
  return c::guarded([&] {
    if (queues == nullptr && count != 0) {
      return c::failed(Errc::kInvalidArgument, "tenon_pull_assign: queues is NULL");
    }
    std::vector<Queue> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      wanted.push_back(c::queue_of(queues[i]));
    }
    const auto r = pull->consumer.assign(wanted);
    return r ? 0 : c::failed(r.error());
  });
}

int32_t tenon_pull_seek(tenon_pull* pull, const tenon_pull_queue* queue, int64_t offset) noexcept {
  return c::guarded([&] {
    if (queue == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_pull_seek: queue is NULL");
    }
    const Queue where = c::queue_of(*queue);
    const auto r = offset == c::kBegin ? pull->consumer.seek_to_begin(where)
                   : offset == c::kEnd ? pull->consumer.seek_to_end(where)
                                       : pull->consumer.seek(where, offset);
    return r ? 0 : c::failed(r.error());
  });
}

int32_t tenon_pull_close(tenon_pull* pull) noexcept {
  return c::guarded([&] {
    const auto r = pull->consumer.close();
    return r ? 0 : c::failed(r.error());
  });
}

void tenon_pull_destroy(tenon_pull* pull) noexcept {
  delete pull;
}
