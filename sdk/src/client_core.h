// The running client behind tenon::Client: connections, timers, routes, members of groups.
#pragma once

#include "calls.h"
#include "identity.h"
#include "name_space.h"
#include "plugins.h"
#include "routes.h"
#include "scheduler.h"
#include "serial_worker.h"

#include "tenon/base/clock.h"
#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"
#include "tenon/net/rpc_client.h"
#include "tenon/sdk/client.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::detail {

class ProducerCore;
class ConsumerCore;
class TransactionCore;
class Tracer;

/// What tests replace.
struct CoreDeps {
  const Clock* clock = nullptr;  ///< null: the machine's
  std::function<std::unique_ptr<net::RpcClient>(net::ConnectionHandler&)> make_rpc{};
  bool threads = true;  ///< false: timers are run by run_due()
  /// Asks ClientOptions::name_server_url; empty: over HTTP.
  std::function<Result<std::string>(const std::string& url)> fetch_name_servers{};
};

/// Thread: any. Destroyed when the last handle is gone, on whatever thread that happens: its own
/// threads are then left to a helper.
class ClientCore final : public net::ConnectionHandler {
 public:
  static Result<std::shared_ptr<ClientCore>> create(ClientOptions options, CoreDeps deps = {});
  ~ClientCore() override;

  const ClientOptions& options() const noexcept { return options_; }
  const std::string& id() const noexcept { return id_; }
  const NameSpace& names() const noexcept { return names_; }
  const Clock& clock() const noexcept { return clock_; }
  std::int64_t now_ms() const noexcept { return clock_.wall_ms(); }
  /// For durations: does not jump when somebody sets the clock. Never 0.
  std::int64_t steady_ms() const noexcept {
    return 1 + static_cast<std::int64_t>(clock_.mono_ns() / 1'000'000);
  }
  Scheduler& timers() noexcept { return timers_; }
  SerialWorker& worker() noexcept { return worker_; }
  Routes& routes() noexcept { return *routes_; }
  Calls& calls() noexcept { return *calls_; }
  net::RpcClient& rpc() noexcept { return *rpc_; }
  MessageIds& message_ids() noexcept { return message_ids_; }
  Plugins& plugins() noexcept { return plugins_; }
  Tracer* tracer() noexcept { return tracer_.get(); }  ///< null: nothing is traced
  std::size_t next_lane() noexcept {
    return lanes_.fetch_add(1, std::memory_order_relaxed) % options_.connections_per_broker;
  }
  /// On an I/O or timer thread of this client: must not block, must not join.
  bool on_own_thread() const noexcept;

  /// @return kConflict if the group is taken
  Result<void> add(const std::shared_ptr<ProducerCore>& producer);
  Result<void> add(const std::shared_ptr<ConsumerCore>& consumer);
  void add(const std::shared_ptr<TransactionCore>& transactions);
  void remove_producer(const std::string& group);  ///< and its transactions
  void remove_consumer(const std::string& group);

  /// To every broker known; slaves only with a consumer. While one is running, false is returned and
  /// nothing happens. `done` runs
  /// when all have answered.
  bool heartbeat(std::function<void()> done = {});
  void heartbeat_blocking();
  /// Soon, at most once per second: a broker does not know us.
  void heartbeat_soon();
  void refresh_routes();
  /// Rebalances all consumers on the worker as soon as it is free.
  void wake_rebalance();
  /// Tells every broker that we leave a group; waits for the answers at most api_timeout.
  void unregister(const std::string& producer_group, const std::string& consumer_group);

  /// Sends what consumers could not send back (spec: client §5.12); made on first use.
  Result<std::shared_ptr<ProducerCore>> inner_producer();

  // ConnectionHandler: requests of servers (spec: client §2.8).
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep) override;

 private:
  ClientCore(ClientOptions options, const CoreDeps& deps);
  Result<void> start(const CoreDeps& deps);
  void start_timers();
  Result<std::vector<std::string>> fetch_name_servers();
  void renew_name_servers();
  void on_route(const TopicInfoPtr& info);
  proto::HeartbeatData heartbeat_data(bool& has_consumer);
  std::vector<std::shared_ptr<ProducerCore>> producers();
  std::vector<std::shared_ptr<ConsumerCore>> consumers();
  std::shared_ptr<ConsumerCore> consumer(std::string_view group);
  void rebalance_all();
  void answer_request(const net::ConnectionPtr& connection,
                      const proto::CommandView& request,
                      const net::BufferRef& keep);
  void on_transaction_check(const net::ConnectionPtr& connection,
                            const proto::CommandView& request,
                            const net::BufferRef& keep);
  bool on_reply(const proto::CommandView& request);

  const ClientOptions options_;
  const Clock& clock_;
  const std::string ip_;
  const std::string id_;
  const NameSpace names_;
  const std::string name_server_url_;  ///< empty: the list was given
  std::function<Result<std::string>(const std::string& url)> fetch_;
  MessageIds message_ids_;
  Plugins plugins_;
  std::atomic<std::size_t> lanes_{0};
  std::unique_ptr<net::IoPool> pool_;
  std::unique_ptr<net::RpcClient> rpc_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Routes> routes_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ProducerCore>, std::less<>> producers_;
  std::map<std::string, std::weak_ptr<ConsumerCore>, std::less<>> consumers_;
  std::map<std::string, std::weak_ptr<TransactionCore>, std::less<>> transactions_;
  std::shared_ptr<ProducerCore> inner_;
  std::unique_ptr<Tracer> tracer_;
  std::atomic<bool> heartbeat_running_{false};
  std::atomic<std::uint64_t> heartbeat_soon_ns_{0};
  std::atomic<bool> rebalance_pending_{false};
  std::atomic<bool> rebalance_again_{false};
  Scheduler timers_;
  SerialWorker worker_;
};

}  // namespace tenon::sdk::detail
