#include "tenon/net/rpc_client.h"

#include "io_pool.h"
#include "rpc_session.h"

#include "tenon/base/check.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::net {
namespace {

constexpr int kAttemptsMax = 4;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

class RpcClientImpl final : public RpcClient {
 public:
  RpcClientImpl(IoPool& pool, const RpcClientOptions& options, ConnectionHandler* requests)
      : threads_(threads_of(pool)),
        shared_(std::make_shared<RpcShared>(options, requests)) {}
  ~RpcClientImpl() override { stop(); }

  void call(std::string_view address,
            const RpcEncoder& encode,
            std::chrono::milliseconds timeout,
            RpcCallback done,
            std::size_t lane,
            std::chrono::milliseconds connect_wait) override;
  void oneway(std::string_view address, const RpcEncoder& encode, std::size_t lane) override;
  void oneway_within(std::string_view address,
                     const RpcEncoder& encode,
                     std::chrono::milliseconds connect_wait,
                     RpcCallback done,
                     std::size_t lane) override;
  void disconnect(std::string_view address) override;
  void stop() override;

 private:
  using SessionPtr = std::shared_ptr<RpcSession>;
  using Lanes = std::vector<SessionPtr>;
  enum class Slot : std::uint8_t { kFound, kFresh, kStopped };
  using Take = Taken (RpcSession::*)(const RpcEncoder&, const RpcTimes&, RpcCallback&);

  std::size_t lane_index(std::size_t lane) const noexcept {
    return lane % std::max<std::size_t>(shared_->options.connections_per_address, 1);
  }
  SessionPtr find(std::string_view address, std::size_t lane) const;
  Slot replace(std::string_view address, std::size_t lane, SessionPtr& session);
  void hand_over(std::string_view address,
                 const RpcEncoder& encode,
                 const RpcTimes& times,
                 RpcCallback done,
                 std::size_t lane,
                 Take take);
  void fail(RpcCallback done, Errc code, std::string reason);

  const std::vector<std::shared_ptr<IoThreadImpl>> threads_;
  const std::shared_ptr<RpcShared> shared_;
  mutable std::shared_mutex mutex_{};
  std::unordered_map<std::string, Lanes, TextHash, std::equal_to<>>
      sessions_{};        ///< guarded by mutex_
  bool stopped_ = false;  ///< guarded by mutex_
};

void RpcClientImpl::call(std::string_view address,
                         const RpcEncoder& encode,
                         std::chrono::milliseconds timeout,
                         RpcCallback done,
                         std::size_t lane,
                         std::chrono::milliseconds connect_wait) {
  RpcTimes times;
  times.now_ms = steady_ms();
  times.deadline_ms = times.now_ms + std::max<std::int64_t>(timeout.count(), 1);
  times.connect_wait_ms = connect_wait.count();
  hand_over(address, encode, times, std::move(done), lane, &RpcSession::call);
}

void RpcClientImpl::oneway_within(std::string_view address,
                                  const RpcEncoder& encode,
                                  std::chrono::milliseconds connect_wait,
                                  RpcCallback done,
                                  std::size_t lane) {
  RpcTimes times;
  times.now_ms = steady_ms();
  times.connect_wait_ms = std::max<std::int64_t>(connect_wait.count(), 1);
  times.deadline_ms = times.now_ms + times.connect_wait_ms;
  hand_over(address, encode, times, std::move(done), lane, &RpcSession::oneway_within);
}

void RpcClientImpl::hand_over(std::string_view address,
                              const RpcEncoder& encode,
                              const RpcTimes& times,
                              RpcCallback done,
                              std::size_t lane,
                              Take take) {
  if (shared_->in_flight.load(std::memory_order_relaxed) >= shared_->options.in_flight_max) {
    fail(std::move(done),
         Errc::kBusy,
         fmt::format("{} calls are in flight", shared_->options.in_flight_max));
    return;
  }
  lane = lane_index(lane);
  SessionPtr session = find(address, lane);
  Taken taken = session ? (*session.*take)(encode, times, done) : Taken::kEnded;
  for (int attempt = 0; attempt < kAttemptsMax && taken == Taken::kEnded; ++attempt) {
    switch (replace(address, lane, session)) {
      case Slot::kStopped:
        fail(std::move(done), Errc::kCancelled, "the client is stopped");
        return;
      case Slot::kFound:
        taken = (*session.*take)(encode, times, done);
        break;
      case Slot::kFresh:
        // The call waits in the session before it begins to connect, so a quick refusal reaches it.
        taken = (*session.*take)(encode, times, done);
        session->start();
        break;
    }
  }
  if (taken == Taken::kEnded) {
    fail(std::move(done), Errc::kNotReady, fmt::format("connections to {} end at once", address));
  } else if (taken == Taken::kTooLate) {
    fail(std::move(done), Errc::kNotReady, fmt::format("call to {}: not connected yet", address));
  }
}

void RpcClientImpl::oneway(std::string_view address, const RpcEncoder& encode, std::size_t lane) {
  lane = lane_index(lane);
  SessionPtr session = find(address, lane);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (session && session->oneway(encode)) {
      return;
    }
    const Slot slot = replace(address, lane, session);
    if (slot == Slot::kStopped) {
      return;
    }
    if (slot == Slot::kFresh) {
      const bool taken = session->oneway(encode);
      session->start();
      if (taken) {
        return;
      }
    }
  }
}

RpcClientImpl::SessionPtr RpcClientImpl::find(std::string_view address, std::size_t lane) const {
  const std::shared_lock lock(mutex_);
  const auto found = sessions_.find(address);
  return found == sessions_.end() ? nullptr : found->second[lane];
}

/// `session` was not usable: gives the one that somebody else has put in its place, or a new one
/// that the caller starts.
RpcClientImpl::Slot RpcClientImpl::replace(std::string_view address,
                                           std::size_t lane,
                                           SessionPtr& session) {
  SessionPtr old = session;
  const std::unique_lock lock(mutex_);
  if (stopped_) {
    return Slot::kStopped;
  }
  auto found = sessions_.find(address);
  if (found == sessions_.end()) {
    found = sessions_.emplace(std::string(address), Lanes{}).first;
    found->second.resize(std::max<std::size_t>(shared_->options.connections_per_address, 1));
  }
  SessionPtr& slot = found->second[lane];
  if (slot != old && slot) {
    session = slot;
    return Slot::kFound;
  }
  const auto& thread = pick_thread(threads_);
  thread->connection_count.fetch_add(1, std::memory_order_relaxed);
  slot = std::make_shared<RpcSession>(
      shared_, thread, std::string(address), old ? old->unconnected_ms() : 0);
  session = slot;
  return Slot::kFresh;
}

/// Never from inside call(): the caller may hold locks that its callback takes. Only when the I/O
/// threads are gone there is no other way.
void RpcClientImpl::fail(RpcCallback done, Errc code, std::string reason) {
  std::function<void()> task = [done = std::move(done), error = Error{code, std::move(reason)}] {
    done(error);
  };
  if (!threads_.front()->try_post(task)) {
    task();
  }
}

void RpcClientImpl::disconnect(std::string_view address) {
  Lanes lanes;
  {
    const std::unique_lock lock(mutex_);
    const auto found = sessions_.find(address);
    if (found == sessions_.end()) {
      return;
    }
    lanes = std::move(found->second);
    sessions_.erase(found);
  }
  for (const SessionPtr& session : lanes) {
    if (session) {
      std::function<void()> task = [session] { session->end(Errc::kClosed, "disconnected"); };
      session->thread().try_post(task);  // a stopped thread has ended its sessions itself
    }
  }
}

void RpcClientImpl::stop() {
  TENON_CHECK(IoThreadImpl::current() == nullptr, "an I/O thread must not stop an RPC client");
  std::vector<SessionPtr> all;
  {
    const std::unique_lock lock(mutex_);
    stopped_ = true;
    for (auto& [address, lanes] : sessions_) {
      all.insert(all.end(), lanes.begin(), lanes.end());
    }
    sessions_.clear();
  }
  for (const SessionPtr& session : all) {
    if (session) {
      session->thread().run_sync([&] { session->end(Errc::kCancelled, "the client is stopped"); });
    }
  }
  for (const auto& thread : threads_) {
    thread->run_sync([&] { thread->close_group(*shared_->group); });
  }
  shared_->group->wait_empty();
}

}  // namespace

std::unique_ptr<RpcClient> RpcClient::create(IoPool& pool,
                                             RpcClientOptions options,
                                             ConnectionHandler* requests) {
  return std::make_unique<RpcClientImpl>(pool, options, requests);
}

void RpcClient::call(std::string_view address,
                     proto::Command command,
                     std::chrono::milliseconds timeout,
                     RpcCallback done) {
  call(
      address,
      [&command](std::string& out, std::int32_t opaque) {
        command.opaque = opaque;
        command.encode(out);
      },
      timeout,
      std::move(done),
      0);
}

void RpcClient::oneway(std::string_view address, proto::Command command) {
  command.flag |= proto::kFlagOneway;
  oneway(
      address,
      [&command](std::string& out, std::int32_t opaque) {
        command.opaque = opaque;
        command.encode(out);
      },
      0);
}

Result<proto::Command> RpcClient::call_blocking(std::string_view address,
                                                proto::Command command,
                                                std::chrono::milliseconds timeout) {
  struct State {
    std::atomic<bool> done{false};
    std::optional<Result<proto::Command>> result{};
  };
  TENON_CHECK(IoThreadImpl::current() == nullptr, "a blocking call on an I/O thread");
  auto state = std::make_shared<State>();
  call(address, std::move(command), timeout, [state](Result<RpcAnswer> answer) {
    if (answer) {
      state->result.emplace(proto::Command::from(*answer.value().command));
    } else {
      state->result.emplace(std::move(answer).error());
    }
    state->done.store(true, std::memory_order_release);
    state->done.notify_one();
  });
  state->done.wait(false, std::memory_order_acquire);
  return std::move(*state->result);
}

}  // namespace tenon::net
