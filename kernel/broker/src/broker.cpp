// Wiring, start and stop of a broker (spec: broker §1.2).
#include "tenon/broker/broker.h"

#include "local_address.h"
#include "meta/light_topics.h"
#include "meta/rocksdb_tables.h"
#include "processors/router.h"
#include "role/registrar.h"
#include "services.h"

#include "tenon/base/cores.h"
#include "tenon/base/log.h"
#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"
#include "tenon/net/rpc_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <time.h>

namespace tenon::broker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFlushScan{50};
constexpr milliseconds kOverdueScan{50};
constexpr milliseconds kSamplePeriod{1'000};
constexpr milliseconds kItemsPeriod{10'000};
constexpr std::int64_t kExpireScanMaxMs = 10'000;
constexpr std::int64_t kExpireScansPerLife = 12;
constexpr std::uint16_t kFastPortDistance = 2;

class BrokerImpl final : public Broker {
 public:
  BrokerImpl(BrokerConfig config, BrokerHooks hooks)
      : config_(std::move(config)),
        hooks_(std::move(hooks)),
        clock_(hooks_.clock != nullptr ? *hooks_.clock : system_clock()),
        topics_(config_, clock_),
        groups_(config_, clock_),
        offsets_(config_.store_root),
        consumer_filters_(config_, clock_, filters_),
        consumers_(consumer_filters_),
        locks_(config_.lock_expired_ms, config_.lock_orphaned_ms),
        holds_([this](std::vector<ParkedPtr>& woken) { router_->pulls().wake(woken); }),
        stats_(clock_.wall_ms()) {}
  ~BrokerImpl() override { BrokerImpl::stop(); }

  Result<> run(host::PluginRegistry& registry, const PluginSlots& slots);

  std::uint16_t port() const noexcept override { return config_.port; }
  std::string advertised_address() const override { return advertised_.address; }
  const BrokerConfig& config() const noexcept override { return config_; }
  void register_now() override { registrar_->trigger(); }
  void stop() override;

 private:
  Result<> load_tables();
  Result<> open_filters(host::PluginRegistry& registry, const PluginSlots& slots);
  Result<> open_store(host::PluginRegistry& registry, const PluginSlots& slots);
  Result<> open_transactions(host::PluginRegistry& registry, const PluginSlots& slots);
  Result<> open_ports();
  Result<> listen(std::unique_ptr<net::Server>& server,
                  const net::Server::Options& options,
                  PortHandler& handler);
  void build_services();
  void start_timers();
  void persist_soon();
  void persist_tables();
  void expire_clients();
  void sample();
  template <class Fn>
  void every_on_worker(milliseconds period, Fn fn);

  BrokerConfig config_;
  BrokerHooks hooks_;
  const Clock& clock_;
  Advertised advertised_{};

  DelayLevels levels_{};
  std::vector<std::unique_ptr<host::Instance>> filter_instances_{};
  Filters filters_{};
  Topics topics_;
  Groups groups_;
  Offsets offsets_;
  ConsumerFilters consumer_filters_;
  Consumers consumers_;
  Producers producers_{};
  QueueLocks locks_;
  FlushWaiters flush_waiters_{};
  HoldTable holds_;
  Stats stats_;
  std::unique_ptr<Log> log_{};
  std::unique_ptr<PullEngine> pulls_{};
  std::unique_ptr<DelayService> delay_{};
  std::unique_ptr<TxnChecker> txn_checker_{};
  std::unique_ptr<TxnService> txn_{};
  std::unique_ptr<TimerService> timer_{};
  std::unique_ptr<Workers> workers_{};
  std::unique_ptr<net::IoPool> pool_{};
  Retention retention_{config_.retention, clock_};
  std::uint32_t light_queues_max_ = 0;
  LiveConfig live_{config_, clock_};
  std::unique_ptr<net::ReverseCalls> calls_ = net::ReverseCalls::create();
  std::optional<Services> services_{};
  std::unique_ptr<Router> router_{};
  PortHandler main_handler_{true};
  PortHandler fast_handler_{false};
  std::vector<std::unique_ptr<net::ConnectionHandler>> interceptors_{};
  std::unique_ptr<net::Server> main_server_{};
  std::unique_ptr<net::Server> fast_server_{};
  std::unique_ptr<net::RpcClient> rpc_{};
  std::unique_ptr<Registrar> registrar_{};

  std::mutex stop_mutex_;
  bool stopped_ = false;
  bool tables_loaded_ = false;
  std::atomic<bool> persist_pending_{false};
  int day_ = -1;
};

Result<> BrokerImpl::run(host::PluginRegistry& registry, const PluginSlots& slots) {
  TENON_TRY(levels_, DelayLevels::parse(config_.message_delay_level));
  if (slots.storage.options != nullptr) {
    // A storage that flushes synchronously is waited for, whoever asked for it.
    const ConfigNode* flush = slots.storage.options->find("flush");
    const auto* word = flush == nullptr ? nullptr : std::get_if<std::string>(&flush->value);
    config_.sync_flush = config_.sync_flush || (word != nullptr && *word == "sync");
    light_queues_max_ = light_queues_max(slots.storage.options);
    if (light_queues_max_ > 0) {
      offsets_.keep_light_file();
    }
  }
  live_.add(
      "deleteWhen",
      [this] { return retention_.hours(); },
      [this](std::string_view text) { return retention_.set_hours(text); });
  TENON_TRY(live_.load());
  TENON_TRY(load_tables());
  TENON_TRY(open_filters(registry, slots));
  TENON_TRY(consumer_filters_.load());
  TENON_TRY(open_store(registry, slots));
  TENON_TRY(open_transactions(registry, slots));
  workers_ = std::make_unique<Workers>(config_);
  TENON_TRY(pool_, net::IoPool::start({.threads = config_.io_threads, .name = "io"}));
  TENON_TRY(open_ports());
  tables_loaded_ = true;
  rpc_ = net::RpcClient::create(*pool_, {});
  registrar_ = std::make_unique<Registrar>(config_, advertised_, topics_, *pool_, *rpc_, *workers_);
  topics_.on_change([this] {
    registrar_->trigger();
    persist_soon();
  });
  groups_.on_change([this] { persist_soon(); });
  delay_->start();
  txn_->start();
  if (config_.timer_wheel) {
    timer_->start();
  }
  start_timers();
  persist_tables();
  registrar_->start();
  log_info("broker",
           "serving name={} cluster={} address={} store={} io_threads={}",
           config_.name,
           config_.cluster,
           advertised_.address,
           config_.store_root.string(),
           config_.io_threads);
  return ok();
}

Result<> BrokerImpl::load_tables() {
  TENON_TRY(refuse_rocksdb_tables(config_.store_root));
  TENON_TRY(topics_.load());
  TENON_TRY(groups_.load());
  TENON_TRY(offsets_.load());
  return ok();
}

Result<> BrokerImpl::open_filters(host::PluginRegistry& registry, const PluginSlots& slots) {
  for (const PluginSlot& slot : slots.filters) {
    host::InstanceOptions options;
    options.name = "filter";
    options.options = slot.options;
    options.store_root = config_.store_root;
    options.private_dir = config_.store_root / "plugins" / slot.plugin;
    options.temp_dir = config_.store_root / "tmp";
    options.clock = &clock_;
    TENON_TRY(auto instance, registry.create(slot.plugin, options));
    TENON_TRY(instance->init());
    TENON_TRY(instance->activate());
    TENON_TRY(auto filter, instance->interface<tenon_filter>("tenon.filter/1"));
    filters_.add(filter);
    filter_instances_.push_back(std::move(instance));
  }
  return ok();
}

Result<> BrokerImpl::open_store(host::PluginRegistry& registry, const PluginSlots& slots) {
  IndexBitsSource* const bits = config_.calc_filter_bitmap ? &consumer_filters_ : nullptr;
  TENON_TRY(log_,
            Log::open(config_, registry, slots.storage, clock_, levels_, hooks_.on_fault, bits));
  pulls_ = std::make_unique<PullEngine>(config_, *log_);
  delay_ = std::make_unique<DelayService>(config_, clock_, levels_, *log_, topics_, stats_);
  TENON_TRY(delay_->load());
  log_->add(static_cast<ArrivalListener&>(holds_));
  timer_ = std::make_unique<TimerService>(config_, clock_, *log_, topics_);
  log_->add(static_cast<ArrivalListener&>(*delay_));
  log_->add(static_cast<ArrivalListener&>(*timer_));
  log_->add(static_cast<DurableListener&>(flush_waiters_));
  return log_->activate();
}

Result<> BrokerImpl::open_transactions(host::PluginRegistry& registry, const PluginSlots& slots) {
  if (!slots.txn_check.plugin.empty()) {
    TENON_TRY(txn_checker_, TxnChecker::open(config_, registry, slots.txn_check, clock_));
  }
  txn_ = std::make_unique<TxnService>(TxnDeps{config_,
                                              clock_,
                                              advertised_.store_host,
                                              *log_,
                                              topics_,
                                              offsets_,
                                              producers_,
                                              txn_checker_.get()});
  return ok();
}

Result<> BrokerImpl::listen(std::unique_ptr<net::Server>& server,
                            const net::Server::Options& options,
                            PortHandler& handler) {
  net::ConnectionHandler* front = &handler;
  if (hooks_.intercept) {
    front = interceptors_.emplace_back(hooks_.intercept(handler)).get();
  }
  auto listening = net::Server::listen(*pool_, options, *front);
  if (listening.has_error()) {
    Error error = std::move(listening).error();
    if (error.code == Errc::kConflict) {
      error.detail += fmt::format(
          "; stop what listens on port {} (another broker?) or choose another port, whose "
          "neighbour two below must be free too",
          options.port);
    } else if (error.code == Errc::kDenied) {
      error.detail += "; choose a port above 1023";
    }
    return error;
  }
  server = std::move(listening).value();
  return ok();
}

Result<> BrokerImpl::open_ports() {
  net::Server::Options options;
  options.host = config_.listen_host;
  options.port = config_.port;
  options.connection_max = config_.connection_max;
  options.limits.frame_max_bytes = config_.frame_max_bytes;
  options.limits.out_pause_bytes = config_.unsent_pause_bytes;
  options.limits.out_max_bytes = config_.unsent_max_bytes;
  options.limits.shared = std::make_shared<net::SharedMemory>();  // both ports together
  options.limits.shared->unsent_max_bytes = config_.unsent_total_bytes;
  options.limits.shared->receive_max_bytes = config_.receive_total_bytes;
  options.limits.idle_timeout = milliseconds(config_.idle_connection_ms);
  if (config_.port == 0) {
    TENON_TRY(listen(main_server_, options, main_handler_));
    config_.port = main_server_->port();
    config_.fast_port = false;
  }
  TENON_TRY(advertised_, advertise(config_, config_.port));
  TENON_TRY(txn_->load());
  build_services();
  if (main_server_ == nullptr) {
    TENON_TRY(listen(main_server_, options, main_handler_));
  }
  if (config_.fast_port && config_.port > kFastPortDistance) {
    // Trap: a pull on this port is an unknown request (broker §1.2).
    options.port = static_cast<std::uint16_t>(config_.port - kFastPortDistance);
    TENON_TRY(listen(fast_server_, options, fast_handler_));
  }
  return ok();
}

void BrokerImpl::build_services() {
  services_.emplace(
      Services{config_,    clock_,     advertised_, levels_,  *log_,    flush_waiters_,
               retention_, topics_,    groups_,     offsets_, filters_, consumer_filters_,
               consumers_, producers_, locks_,      *pulls_,  holds_,   *workers_,
               stats_,     *delay_,    *txn_,       *timer_,  *calls_,  live_});
  live_.add("brokerIP1", [this] { return advertised_.ip; }, {});
  router_ = std::make_unique<Router>(*services_, *pool_);
  router_->pulls().serve_light_queues(light_queues_max_);
  main_handler_.serve(*router_);
  fast_handler_.serve(*router_);
}

template <class Fn>
void BrokerImpl::every_on_worker(milliseconds period, Fn fn) {
  pool_->at(0).every(period, [this, fn] {
    // A full lane skips a round.
    (void)workers_->post(Workers::Lane::kAdmin, fn);
  });
}

void BrokerImpl::start_timers() {
  every_on_worker(milliseconds(config_.flush_delay_offset_ms), [this] {
    if (auto written = delay_->persist(); written.has_error()) {
      log_error("broker", "delay positions not written reason=\"{}\"", written.error().detail);
    }
  });
  every_on_worker(milliseconds(config_.flush_consumer_offset_ms), [this] { persist_tables(); });
  every_on_worker(milliseconds(std::clamp<std::int64_t>(
                      config_.channel_expired_ms / kExpireScansPerLife, 1, kExpireScanMaxMs)),
                  [this] { expire_clients(); });
  every_on_worker(milliseconds(config_.retention.round_ms), [this] { retention_.round(*log_); });
  pool_->at(0).every(kSamplePeriod, [this] { sample(); });
  every_on_worker(kItemsPeriod, [this] { stats_.sample_items(clock_.wall_ms(), config_.cluster); });
  if (config_.fast_failure) {
    // By each thread: one that appends to a disk that stalls does not come to it.
    for (std::size_t i = 0; i < pool_->size(); ++i) {
      pool_->at(i).every(kOverdueScan, [this] { workers_->expire(clock_.mono_ns()); });
    }
  }
  if (config_.sync_flush) {
    pool_->at(0).every(kFlushScan, [this] { flush_waiters_.expire(clock_.mono_ns()); });
  }
}

void BrokerImpl::sample() {
  const std::int64_t now_ms = clock_.wall_ms();
  stats_.sample(now_ms);
  const std::time_t seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm tm{};
  ::localtime_r(&seconds, &tm);
  if (day_ >= 0 && day_ != tm.tm_yday) {
    stats_.roll_day();
  }
  day_ = tm.tm_yday;
}

void BrokerImpl::persist_soon() {
  if (!persist_pending_.exchange(true) &&
      !workers_->post(Workers::Lane::kAdmin, [this] { persist_tables(); })) {
    persist_pending_.store(false);
  }
}

void BrokerImpl::persist_tables() {
  persist_pending_.store(false);
  for (const auto& written :
       {topics_.persist(), groups_.persist(), offsets_.persist(), consumer_filters_.persist()}) {
    if (written.has_error()) {
      log_error("broker", "configuration not written reason=\"{}\"", written.error().detail);
    }
  }
}

void BrokerImpl::expire_clients() {
  const std::int64_t before_ms = clock_.wall_ms() - config_.channel_expired_ms;
  locks_.sweep(clock_.wall_ms());
  // Better than Java: the rest of a group hears of it (broker §10.2).
  for (const auto& connection : consumers_.expire(before_ms, config_.notify_consumer_ids_changed)) {
    connection->close(net::CloseReason::kIdle);
  }
  for (const auto& connection : producers_.expire(before_ms)) {
    connection->close(net::CloseReason::kIdle);
  }
}

void BrokerImpl::stop() {
  const std::scoped_lock lock(stop_mutex_);
  if (std::exchange(stopped_, true)) {
    return;
  }
  if (registrar_ != nullptr) {
    registrar_->stop();
  }
  if (fast_server_ != nullptr) {
    fast_server_->stop();
  }
  if (delay_ != nullptr) {
    delay_->stop();
  }
  if (timer_ != nullptr) {
    timer_->stop();
  }
  if (workers_ != nullptr) {
    workers_->stop();  // answers what waits there; later requests are answered "busy"
  }
  if (txn_ != nullptr) {
    txn_->stop();
  }
  flush_waiters_.expire_all();
  if (main_server_ != nullptr) {
    main_server_->stop();
  }
  if (rpc_ != nullptr) {
    rpc_->stop();
  }
  if (pool_ != nullptr) {
    pool_->stop();
  }
  if (tables_loaded_) {
    persist_tables();
  }
  if (log_ != nullptr) {
    log_->close();
  }
  if (tables_loaded_) {
    log_info("broker", "stopped name={}", config_.name);
  }
}

}  // namespace

Result<std::unique_ptr<Broker>> Broker::start(const BrokerConfig& config,
                                              host::PluginRegistry& registry,
                                              const PluginSlots& slots,
                                              BrokerHooks hooks) {
  TENON_TRY(validate(config));
  BrokerConfig filled = config;
  if (filled.name.empty()) {
    filled.name = host_name();
  }
  if (filled.io_threads == 0) {
    filled.io_threads = static_cast<std::uint32_t>(std::clamp<std::size_t>(usable_cores(), 1, 4));
  }
  auto broker = std::make_unique<BrokerImpl>(std::move(filled), std::move(hooks));
  TENON_TRY(broker->run(registry, slots));
  return std::unique_ptr<Broker>(std::move(broker));
}

}  // namespace tenon::broker
