// PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361 with long polling (spec: broker §8, remoting §6.2).
#pragma once

#include "meta/light_topics.h"
#include "processors/io_state.h"
#include "processors/request.h"
#include "pull/hold_table.h"
#include "pull/pull_engine.h"
#include "services.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

struct PullHeader {
  std::string_view group{};
  std::string_view topic{};
  std::int32_t queue_id = 0;
  std::int64_t offset = 0;
  std::int32_t max_count = 0;
  std::int32_t sys_flag = 0;
  std::int64_t commit_offset = 0;
  std::int64_t suspend_ms = 0;
  std::string_view subscription{};
  std::int64_t sub_version = 0;
  std::string_view expression_type{};
  std::int32_t max_bytes = 0;  ///< of 5.x clients; 0 = no bound of their own

  static constexpr std::int32_t kCommit = 1;
  static constexpr std::int32_t kSuspend = 2;
  static constexpr std::int32_t kSubscription = 4;
};
Result<> parse_pull_header(const proto::CommandView& command, PullHeader& out);

class PullProcessor {
 public:
  /// @param state_of  the IoState of an I/O thread, called on it
  using StateOf = std::function<IoState&(net::IoThread&)>;
  PullProcessor(const Services& services, StateOf state_of);

  /// Answers into the connection, parks, or hands on to a worker. Thread: I/O.
  void handle(IoState& io, const Request& request);
  /// Pulls woken by arrivals, taken already. Thread: any; must not block.
  void wake(std::vector<ParkedPtr>& woken);
  /// Forgets the parked pulls of a connection. Thread: its I/O thread.
  void connection_closed(const net::ConnectionPtr& connection);
  /// Topics %LMQ% are served without an entry in the table, so many of them. Thread: start.
  void serve_light_queues(std::uint32_t max) { light_topics_.allow(max); }

 private:
  /// Whom to answer.
  struct Caller {
    const net::ConnectionPtr& connection;
    std::int32_t opaque = 0;
    proto::HeaderKind kind = proto::HeaderKind::kJson;
    bool direct = true;  ///< on the I/O thread: write into out()
  };
  struct Checked {
    std::int32_t code = 0;
    std::string remark{};
    GroupPtr group{};
    const Topic* topic = nullptr;
    FilterPtr filter{};
  };
  struct ConnectionPulls {
    std::vector<ParkedPtr> parked{};
  };

  Checked check(const IoState& io, const PullHeader& header, const net::ConnectionPtr& peer) const;
  void check_subscription(const PullHeader& header, Checked& out) const;
  void park(const Request& request,
            const PullHeader& header,
            const Checked& checked,
            tenon_queue queue);
  void rerun(IoState& io, const ParkedPtr& pull);
  void forget(const ParkedPtr& pull);
  void to_worker(const Caller& caller,
                 const PullHeader& header,
                 const Checked& checked,
                 tenon_queue queue);
  void answer(const Caller& caller,
              const proto::SubscriptionGroupConfig& group,
              PullResult& result,
              std::int64_t offset) const;
  void answer_error(const Caller& caller, std::int32_t code, std::string_view remark) const;
  void count(IoState& io, const PullHeader& header, const PullResult& result) const;
  void count_shared(StatsView::Got got, const PullResult& result, std::uint64_t took_ms);
  void report_moved(const PullHeader& header, std::int64_t next_offset);

  const Services& s_;
  StateOf state_of_;
  mutable LightTopics light_topics_{};
  ThreadStats& worker_stats_;  ///< of all workers together
  std::mutex worker_items_mutex_{};
  StatsView worker_items_;  ///< guarded by worker_items_mutex_
};

/// Code of a read's status (spec: broker §8.3).
std::int32_t pull_code(PullStatus status, std::int64_t offset) noexcept;

}  // namespace tenon::broker
