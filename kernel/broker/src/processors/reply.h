// SEND_REPLY_MESSAGE 324 and 325: the answer to a request message is pushed to the client that
// waits for it, over the connection of its heartbeats, and stored (spec: broker §15.1, remoting
// §6.3).
#pragma once

#include "processors/io_state.h"
#include "processors/request.h"
#include "processors/send_header.h"
#include "services.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::broker {

class ReplyProcessor {
 public:
  explicit ReplyProcessor(const Services& services)
      : s_(services) {}

  /// Answers into the connection or later, when the requester has taken the reply, at most ten
  /// seconds later. Thread: I/O.
  void handle(IoState& io, const Request& request);

 private:
  /// A reply between its checks and its answer.
  struct Pending;
  /// What became of the push.
  struct Pushed {
    bool ok = false;
    std::string remark{};
  };

  void checked(const std::shared_ptr<Pending>& reply, TopicPtr topic, std::uint32_t random);
  void push(const std::shared_ptr<Pending>& reply);
  proto::Command push_command(const Pending& reply) const;
  void finish(const Pending& reply, const Pushed& pushed) const;
  std::string store(const Pending& reply, std::int64_t& queue_offset) const;
  void refuse(const HeldRequest& held, std::int32_t code, std::string_view remark) const;

  const Services& s_;
  std::atomic<std::size_t> waiting_{0};  ///< pushes without an answer
};

}  // namespace tenon::broker
