// What is to go wrong, and the stand-in between the sockets and the broker that makes it happen.
#pragma once

#include "tenon/net/connection.h"
#include "tenon/proto/command.h"
#include "tenon/testing.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tenon::testing {

/// Kind of a request by its code; never kAny.
Call call_of(std::int32_t code) noexcept;

/// Outlives restarts of the broker. Thread: any.
class FaultPlan {
 public:
  void add(Fault fault);
  void delay_all(std::chrono::milliseconds by);
  void clear();
  bool armed() const noexcept { return armed_.load(std::memory_order_acquire); }
  void count(const proto::CommandView& command) noexcept;
  std::uint64_t counted(Call call) const noexcept;
  /// The fault that this request meets, used up by one.
  std::optional<Fault> take(const proto::CommandView& command);

  void opened(const net::ConnectionPtr& connection);
  void closed(const net::ConnectionPtr& connection);
  std::size_t cut_all();
  /// See RouteGate.
  void freeze(bool frozen) noexcept { frozen_.store(frozen); }
  bool frozen() const noexcept { return frozen_.load(); }
  /// Registrations of the broker that the name server has dealt with.
  std::uint64_t registrations() const noexcept { return registrations_.load(); }
  void registered() noexcept { registrations_.fetch_add(1); }

 private:
  void rearm() noexcept {
    armed_.store(!faults_.empty() || delay_.count() > 0, std::memory_order_release);
  }
  static constexpr std::size_t kCalls = static_cast<std::size_t>(Call::kRoute) + 1;

  std::mutex mutex_;
  std::vector<Fault> faults_{};
  std::chrono::milliseconds delay_{0};
  std::map<std::uint64_t, std::weak_ptr<net::Connection>> connections_{};
  std::atomic<bool> armed_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<std::uint64_t> registrations_{0};
  std::array<std::atomic<std::uint64_t>, kCalls> counts_{};
};

/// One listener's stand-in. Thread: the I/O threads of the broker.
class FaultGate final : public net::ConnectionHandler {
 public:
  FaultGate(std::shared_ptr<FaultPlan> plan, net::ConnectionHandler& broker) noexcept
      : plan_(std::move(plan)),
        broker_(broker) {}

  void on_open(const net::ConnectionPtr& connection) override;
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep) override;
  void on_close(const net::ConnectionPtr& connection, net::CloseReason reason) override;

 private:
  /// False: the connection was closed, nothing more of it is looked at.
  bool meet(const Fault& fault,
            const net::ConnectionPtr& connection,
            const proto::CommandView& command,
            const net::BufferRef& keep);
  void unanswered(const net::ConnectionPtr& connection,
                  const proto::CommandView& command,
                  const net::BufferRef& keep);
  void later(std::chrono::milliseconds by,
             const net::ConnectionPtr& connection,
             const proto::CommandView& command,
             const net::BufferRef& keep);

  std::shared_ptr<FaultPlan> plan_;
  net::ConnectionHandler& broker_;
};

/// Before the name server. While the plan is frozen it hears of no registration and of no connection
/// that ends; what it missed of those it hears when the plan thaws. Thread: the I/O thread of the
/// name server (one).
class RouteGate final : public net::ConnectionHandler {
 public:
  RouteGate(std::shared_ptr<FaultPlan> plan, net::ConnectionHandler& name_server)
      : plan_(plan),
        faults_(std::move(plan), name_server),
        name_server_(name_server) {}

  void on_open(const net::ConnectionPtr& connection) override;
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep) override;
  void on_close(const net::ConnectionPtr& connection, net::CloseReason reason) override;

 private:
  void catch_up();
  std::shared_ptr<FaultPlan> plan_;
  FaultGate faults_;
  net::ConnectionHandler& name_server_;
  std::vector<std::pair<net::ConnectionPtr, net::CloseReason>> missed_{};
};

}  // namespace tenon::testing
