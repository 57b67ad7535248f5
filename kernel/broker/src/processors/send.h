// SEND_MESSAGE 10, 310 and 320: checks in Java's order, records as views into the receive buffer,
// one append for all sends of a socket read (spec: broker §5, §6).
#pragma once

#include "processors/io_state.h"
#include "processors/request.h"
#include "processors/send_header.h"
#include "services.h"

#include "tenon/proto/peek.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon::broker {

/// Answer of a put in the shape that needs no request any more.
struct SendAnswer {
  std::int32_t opaque = 0;
  proto::HeaderKind kind = proto::HeaderKind::kJson;
  std::int32_t queue_id = 0;
  std::int64_t queue_offset = 0;
  std::string message_id{};
  std::string recall_handle{};
};

class SendProcessor {
 public:
  /// @param again  runs a held send once more on its I/O thread, after a topic was created for it
  using Again = std::function<void(std::shared_ptr<const HeldRequest>, int attempt)>;
  SendProcessor(const Services& services, Again again);

  /// Checks one send and adds it to the batch, or answers it at once into connection.out().
  /// @param attempt  how many topics were created for it before; the second one may be its DLQ. Thread: I/O.
  void add(IoState& io, const Request& request, int attempt);
  /// Appends what was added and answers it, or lets it wait if the log is locked for long. The views
  /// of the requests must still live, in `keep`. Thread: I/O.
  void flush(IoState& io, const net::ConnectionPtr& connection, const net::BufferRef& keep);
  /// Answers a send of a read for which io.late_ms is not 0. Thread: I/O.
  void refuse_late(IoState& io, net::Connection& connection, const proto::CommandPeek& send) const;
  /// Sends that wait for the log. Thread: any.
  std::size_t waiting() const noexcept { return waiting_count_.load(std::memory_order_relaxed); }

 private:
  /// Where a send goes after the checks.
  struct Target {
    const Topic* topic = nullptr;
    std::int32_t queue_id = 0;
    std::int32_t answer_queue_id = 0;
    bool dead_letter = false;
    std::string_view recall_handle{};  ///< told to the client; in the arena
  };
  bool check(
      IoState& io, const Request& request, const SendHeader& header, Target& target, int attempt);
  bool redirect_retry(
      IoState& io, const Request& request, const SendHeader& header, Target& target, int attempt);
  bool add_single(IoState& io, const Request& request, const SendHeader& header, Target& target);
  bool add_half(IoState& io,
                const Request& request,
                const SendHeader& header,
                const Target& target,
                const SendProperties& properties);
  bool add_batch(IoState& io, const Request& request, const SendHeader& header, Target& target);
  bool encode_batch(IoState& io,
                    const Request& request,
                    const SendHeader& header,
                    tenon_record& record);
  bool put_off(IoState& io,
               const Request& request,
               const SendProperties& properties,
               PropertyChanges& changes,
               Target& target);
  bool set_timer(IoState& io,
                 const Request& request,
                 const SendProperties& properties,
                 PropertyChanges& changes,
                 Target& target);
  tenon_record base_record(const Request& request,
                           const SendHeader& header,
                           const Target& target) const;
  bool push_checked(IoState& io,
                    const Request& request,
                    const Target& target,
                    tenon_record& record,
                    const SendProperties& properties,
                    std::string_view text,
                    std::size_t growth);
  void push(IoState& io,
            const Request& request,
            const Target& target,
            const tenon_record& record,
            bool wait);
  void create_topic_then_again(const Request& request, const SendHeader& header, int attempt);
  void create_dlq_then_again(const Request& request, std::string topic, int attempt);

  // send_wait.cpp
  void wait(IoState& io, const net::ConnectionPtr& connection, const net::BufferRef& keep);
  void arm_retry(IoState& io, net::IoThread& thread);
  void try_waiting(IoState& io);
  void clean_waiting(IoState& io);
  void leave(IoState& io);
  /// Answers 2 with the remark.
  void refuse(const net::ConnectionPtr& connection,
              std::span<const PendingSend> sends,
              std::string_view remark) const;

  void answer_batch(IoState& io, const net::ConnectionPtr& connection, SendBatch& batch);
  /// Where Java's handler throws: code 1 without the fields of a send answer.
  void fail(const Request& request, std::string_view remark) const;
  void refuse(const Request& request, std::int32_t code, std::string_view remark) const;
  void answer_put(const net::ConnectionPtr& connection,
                  const PendingSend& send,
                  const tenon_record& record,
                  const tenon_append_result& result);
  void answer_failed(const net::ConnectionPtr& connection,
                     const PendingSend& send,
                     tenon_status status) const;
  void answer_when_durable(const net::ConnectionPtr& connection,
                           const PendingSend& send,
                           std::uint64_t end,
                           std::string_view message_id,
                           std::int64_t queue_offset);
  void write_answer(std::string& out,
                    const SendAnswer& answer,
                    std::string_view message_id,
                    std::int32_t code) const;

  const Services& s_;
  Again again_;
  tenon_addr store_host_{};
  std::atomic<std::size_t> waiting_count_{0};
  std::atomic<std::size_t> waiting_bytes_{0};
};

tenon_addr to_abi(const proto::HostAddr& host) noexcept;

/// What a failed put means to a client (spec: broker §6).
struct PutFailure {
  std::int32_t code = 0;
  std::string remark{};
  std::string_view status_name{};  ///< Java's PutMessageStatus
};
PutFailure put_failure(tenon_status status, const Services& services);

}  // namespace tenon::broker
