// Takes the requests of one socket read apart: sends are collected and appended together, pulls run
// at once, everything else goes where its handler belongs.
#pragma once

#include "processors/handlers.h"
#include "processors/io_state.h"
#include "processors/pull.h"
#include "processors/reply.h"
#include "processors/send.h"
#include "services.h"

#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace tenon::broker {

/// Both listeners share one. Thread: the I/O threads.
class Router {
 public:
  Router(const Services& services, net::IoPool& pool);

  /// @param pulls_served  false on the fast port: a pull is an unknown request there
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep,
                   bool pulls_served);
  /// True if sends of what was read now are to be refused: they waited too long in the socket, or
  /// their share of the thread's time is used up (util/input_lag.h).
  bool screens(const net::ConnectionPtr& connection);
  /// Refuses a send without decoding it. False: something else, or not understood.
  bool take(const net::ConnectionPtr& connection, std::span<const std::byte> frame);
  void on_close(const net::ConnectionPtr& connection);
  PullProcessor& pulls() noexcept { return pulls_; }
  /// Sends that wait for the log. Thread: any.
  std::size_t waiting_sends() const noexcept { return sends_.waiting(); }

 private:
  IoState& state_of(net::IoThread& thread) { return *states_[thread.index()]; }
  void count_input(IoState& io, std::size_t requests);
  void arm_mark(IoState& io);
  void one(IoState& io, const Request& request, bool pulls_served);
  void other(const Request& request, bool pulls_served);
  void to_worker(const HandlerEntry& entry, const Request& request);
  void send_again(const std::shared_ptr<const HeldRequest>& held, int attempt);

  const Services& s_;
  std::vector<std::unique_ptr<IoState>> states_{};
  SendProcessor sends_;
  PullProcessor pulls_;
  ReplyProcessor replies_;
  Handlers handlers_{};
};

/// One listener's view of the router. Closes connections as long as there is no router: a port that
/// the system chooses is open before the router, which needs the port, exists.
class PortHandler final : public net::ConnectionHandler {
 public:
  explicit PortHandler(bool pulls_served)
      : pulls_served_(pulls_served) {}
  void serve(Router& router) noexcept { router_.store(&router, std::memory_order_release); }

  bool screens(const net::ConnectionPtr& connection) override {
    Router* router = router_.load(std::memory_order_acquire);
    return router != nullptr && router->screens(connection);
  }
  bool take(const net::ConnectionPtr& connection, std::span<const std::byte> frame) override {
    return router_.load(std::memory_order_acquire)->take(connection, frame);
  }
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep) override {
    Router* router = router_.load(std::memory_order_acquire);
    if (router == nullptr) {
      connection->close(net::CloseReason::kShutdown);
      return;
    }
    router->on_commands(connection, commands, keep, pulls_served_);
  }
  void on_close(const net::ConnectionPtr& connection, net::CloseReason) override {
    if (Router* router = router_.load(std::memory_order_acquire); router != nullptr) {
      router->on_close(connection);
    }
  }

 private:
  std::atomic<Router*> router_{nullptr};
  bool pulls_served_;
};

}  // namespace tenon::broker
