#include "tenon/namesrv/name_server.h"

#include "processor.h"

#include "tenon/base/log.h"
#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"

#include <chrono>
#include <utility>

namespace tenon::namesrv {

/// Destroyed from the bottom up: the server before the handler and the threads.
struct NameServer::Parts {
  Parts(const NamesrvConfig& config)
      : processor(std::make_shared<Processor>(config, system_clock())) {}

  std::unique_ptr<net::IoPool> own_pool{};
  net::IoThread* timer_thread = nullptr;
  net::TimerId first_timer = 0;
  net::TimerId scan_timer = 0;
  std::shared_ptr<Processor> processor;
  std::unique_ptr<net::ConnectionHandler> interceptor{};
  std::unique_ptr<net::Server> server{};
};

Result<std::unique_ptr<NameServer>> NameServer::start(NamesrvConfig config,
                                                      net::IoPool* shared_pool,
                                                      const NamesrvHooks& hooks) {
  using std::chrono::milliseconds;
  auto parts = std::make_unique<Parts>(config);
  TENON_TRY(parts->processor->load());
  net::IoPool* pool = shared_pool;
  if (pool == nullptr) {
    TENON_TRY(parts->own_pool, net::IoPool::start({.threads = config.io_threads, .name = "ns"}));
    pool = parts->own_pool.get();
  }
  net::Server::Options options;
  options.host = config.listen_host;
  options.port = config.listen_port;
  options.connection_max = config.connection_max;
  options.limits.idle_timeout = milliseconds{config.idle_timeout_ms};
  options.limits.frame_max_bytes = config.frame_max_bytes;
  net::ConnectionHandler* front = parts->processor.get();
  if (hooks.intercept) {
    parts->interceptor = hooks.intercept(*front);
    front = parts->interceptor.get();
  }
  TENON_TRY(parts->server, net::Server::listen(*pool, std::move(options), *front));
  parts->processor->set_port(parts->server->port());
  // The timers may outlive us by one run: they hold the processor.
  parts->timer_thread = &pool->at(0);
  const std::weak_ptr<Processor> processor = parts->processor;
  const auto scan = [processor] {
    if (const auto p = processor.lock()) {
      p->scan();
    }
  };
  parts->first_timer = parts->timer_thread->after(milliseconds{config.scan_first_ms}, scan);
  parts->scan_timer = parts->timer_thread->every(milliseconds{config.scan_interval_ms}, scan);
  log_info("ns",
           "name server listens address={}:{} kv_config=\"{}\"",
           config.listen_host,
           parts->server->port(),
           config.kv_config_path);
  return std::unique_ptr<NameServer>(new NameServer(std::move(parts)));
}

NameServer::NameServer(std::unique_ptr<Parts> parts) noexcept
    : parts_(std::move(parts)) {}

NameServer::~NameServer() {
  stop();
}

std::uint16_t NameServer::port() const noexcept {
  return parts_->server->port();
}

std::size_t NameServer::broker_count() const {
  return parts_->processor->broker_count();
}

void NameServer::stop() {
  if (parts_->timer_thread != nullptr) {
    parts_->timer_thread->cancel(parts_->first_timer);
    parts_->timer_thread->cancel(parts_->scan_timer);
    parts_->timer_thread = nullptr;
  }
  parts_->server->stop();
  if (parts_->own_pool) {
    parts_->own_pool->stop();
  }
}

}  // namespace tenon::namesrv
