// The part of a consumer whose messages are asked for (spec: client §6, §7).
#pragma once

#include "consumer_core.h"

#include "tenon/sdk/pull_consumer.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace tenon::sdk::detail {

/// Part of a ConsumerCore. Thread: any.
class Poller {
 public:
  struct Options {
    std::size_t poll_max = 32;
    bool auto_commit = false;
    std::chrono::milliseconds commit_interval{5'000};
  };
  Poller(ConsumerCore& core, Options options)
      : core_(core),
        options_(options) {}

  // Told by the pull loop and the rebalance.
  void on_messages();
  /// The broker has nothing wanted before this offset.
  /// Trap: without it a filter that matches nothing never makes progress (client §6).
  void on_skipped(QueueState& state, std::int64_t next);
  bool is_paused(const Queue& queue) const;
  /// Queues of a topic given by assign(); nullopt if queues are allocated among members.
  std::optional<std::vector<Queue>> assigned(const std::string& topic) const;

  std::vector<MessageView> poll(std::chrono::milliseconds timeout, const std::stop_token& stop);
  Result<void> commit();
  Result<void> commit(const Queue& queue, std::int64_t offset);
  Result<void> assign(std::span<const Queue> queues, const Subscription& wanted);
  bool assigns() const;
  Result<void> seek(const Queue& queue, std::int64_t offset);
  Result<std::int64_t> ask(const Queue& queue,
                           proto::RequestCode::Value code,
                           std::int64_t timestamp = 0);
  Result<void> seek_to(const Queue& queue,
                       proto::RequestCode::Value code,
                       std::int64_t timestamp = 0);
  Result<std::int64_t> position(const Queue& queue) const;
  Result<std::int64_t> committed(const Queue& queue);
  void pause(std::span<const Queue> queues, bool paused);
  Result<PullResult> pull(const Queue& queue,
                          std::int64_t offset,
                          std::size_t max,
                          std::chrono::milliseconds wait,
                          const Subscription& wanted);
  /// Before the end: commits what auto_commit owes.
  Result<void> before_stop();

 private:
  std::vector<MessageView> take();
  void commit_in_memory();
  QueueStatePtr owned(const Queue& queue) const;
  Result<void> restart_at(const Queue& queue, std::int64_t offset);
  Result<void> not_here() const;

  ConsumerCore& core_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t version_ = 0;  ///< counts what a waiting poll() should look at
  std::uint64_t committed_ns_ = 0;
  std::optional<Queue> last_;  ///< of the last poll, so that queues take turns
  std::set<Queue> paused_;
  std::optional<std::set<Queue>> assigned_;
};

}  // namespace tenon::sdk::detail
