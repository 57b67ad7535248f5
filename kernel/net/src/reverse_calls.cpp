// Calls from a server to the peers of its connections.
#include "io_thread.h"

#include "tenon/net/rpc_client.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace tenon::net {
namespace {

class ReverseCallsImpl final : public ReverseCalls,
                               public std::enable_shared_from_this<ReverseCallsImpl> {
 public:
  void call(const ConnectionPtr& connection,
            proto::Command command,
            std::chrono::milliseconds timeout,
            RpcCallback done) override;
  void oneway(const ConnectionPtr& connection, proto::Command command) override;
  bool on_response(const ConnectionPtr& connection,
                   const proto::CommandView& command,
                   const BufferRef& keep) override;
  void on_close(const ConnectionPtr& connection) override;

 private:
  using Key = std::pair<std::uint64_t, std::int32_t>;  ///< connection id, opaque
  struct Pending {
    RpcCallback done{};
    TimerId timer = 0;
  };

  std::optional<Pending> take(const Key& key);
  std::int32_t next_opaque() noexcept {
    return static_cast<std::int32_t>(last_opaque_.fetch_add(1, std::memory_order_relaxed) + 1);
  }

  std::atomic<std::uint32_t> last_opaque_{0};
  std::mutex mutex_{};
  std::map<Key, Pending> pending_{};  ///< guarded by mutex_
};

void ReverseCallsImpl::call(const ConnectionPtr& connection,
                            proto::Command command,
                            std::chrono::milliseconds timeout,
                            RpcCallback done) {
  command.opaque = next_opaque();
  command.flag &= ~(proto::kFlagOneway | proto::kFlagResponse);
  const Key key{connection->id(), command.opaque};
  {
    const std::scoped_lock lock(mutex_);
    Pending& pending = pending_[key];
    pending.done = std::move(done);
    pending.timer = connection->io_thread().after(timeout, [weak = weak_from_this(), key] {
      const auto me = weak.lock();
      auto expired = me ? me->take(key) : std::nullopt;
      if (expired) {
        expired->done(Error{Errc::kTimeout, "the peer did not answer in time"});
      }
    });
  }
  std::string bytes;
  command.encode(bytes);
  connection->send(std::move(bytes));
  // on_close() has run before we were in the table, or it is still to come: either it or we find
  // the call.
  if (!connection->is_open()) {
    if (auto lost = take(key)) {
      connection->io_thread().cancel(lost->timer);
      lost->done(Error{Errc::kClosed, "the connection is closed"});
    }
  }
}

void ReverseCallsImpl::oneway(const ConnectionPtr& connection, proto::Command command) {
  command.opaque = next_opaque();
  command.flag = (command.flag | proto::kFlagOneway) & ~proto::kFlagResponse;
  std::string bytes;
  command.encode(bytes);
  connection->send(std::move(bytes));
}

bool ReverseCallsImpl::on_response(const ConnectionPtr& connection,
                                   const proto::CommandView& command,
                                   const BufferRef& keep) {
  if (!command.is_response()) {
    return false;
  }
  auto answered = take({connection->id(), command.opaque});
  if (!answered) {
    return false;
  }
  connection->io_thread().cancel(answered->timer);
  answered->done(RpcAnswer{&command, keep});
  return true;
}

void ReverseCallsImpl::on_close(const ConnectionPtr& connection) {
  std::vector<Pending> lost;
  {
    const std::scoped_lock lock(mutex_);
    const auto begin = pending_.lower_bound({connection->id(), INT32_MIN});
    auto end = begin;
    for (; end != pending_.end() && end->first.first == connection->id(); ++end) {
      lost.push_back(std::move(end->second));
    }
    pending_.erase(begin, end);
  }
  for (const Pending& pending : lost) {
    connection->io_thread().cancel(pending.timer);
    pending.done(Error{Errc::kClosed, "the connection was closed"});
  }
}

std::optional<ReverseCallsImpl::Pending> ReverseCallsImpl::take(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = pending_.find(key);
  if (found == pending_.end()) {
    return std::nullopt;
  }
  std::optional<Pending> out{std::move(found->second)};
  pending_.erase(found);
  return out;
}

/// The timers refer to the calls by a weak reference, hence the shared object behind the unique
/// pointer.
class ReverseCallsHandle final : public ReverseCalls {
 public:
  void call(const ConnectionPtr& connection,
            proto::Command command,
            std::chrono::milliseconds timeout,
            RpcCallback done) override {
    impl_->call(connection, std::move(command), timeout, std::move(done));
  }
  void oneway(const ConnectionPtr& connection, proto::Command command) override {
    impl_->oneway(connection, std::move(command));
  }
  bool on_response(const ConnectionPtr& connection,
                   const proto::CommandView& command,
                   const BufferRef& keep) override {
    return impl_->on_response(connection, command, keep);
  }
  void on_close(const ConnectionPtr& connection) override { impl_->on_close(connection); }

 private:
  std::shared_ptr<ReverseCallsImpl> impl_ = std::make_shared<ReverseCallsImpl>();
};

}  // namespace

std::unique_ptr<ReverseCalls> ReverseCalls::create() {
  return std::make_unique<ReverseCallsHandle>();
}

}  // namespace tenon::net
