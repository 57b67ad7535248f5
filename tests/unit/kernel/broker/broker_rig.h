// The services around a router, without a Broker: for tests that hold parts in their hands.
#pragma once

#include "append/log.h"
#include "broker_harness.h"
#include "services.h"

#include "tenon/net/io_pool.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

namespace tenon::broker::test {

/// Queue files that last for the whole test: a new one is not the steady state.
inline ConfigNode large_queue_files() {
  ConfigNode options = small_store_options();
  ConfigNode bytes;
  bytes.value = std::int64_t{6'000'000};
  options.set("queue_file_bytes", bytes);
  return options;
}

/// The services around a router, without ports.
struct Rig {
  /// @param durable_events  false: nobody hears that the log became durable, a disk that hangs
  explicit Rig(BrokerConfig settings = test_config(""), bool durable_events = true)
      : config(std::move(settings)) {
    log->add(static_cast<ArrivalListener&>(holds));
    if (durable_events) {
      log->add(static_cast<DurableListener&>(flush_waiters));
    }
    REQUIRE(topics.load().has_value());
  }

  TempFolder folder{};
  ConfigNode options = large_queue_files();
  std::unique_ptr<host::PluginRegistry> registry = test_registry();
  BrokerConfig config;
  const Clock& clock = system_clock();
  Advertised advertised{
      proto::parse_host_addr("127.0.0.1:10911").value(), "127.0.0.1", "127.0.0.1:10911"};
  DelayLevels levels = DelayLevels::parse(config.message_delay_level).value();
  std::unique_ptr<Log> log = open_log();
  FlushWaiters flush_waiters{};
  Topics topics{config, clock};
  Groups groups{config, clock};
  Offsets offsets{config.store_root};
  Filters filters{};
  ConsumerFilters consumer_filters{config, clock, filters};
  Consumers consumers{consumer_filters};
  Producers producers{};
  QueueLocks locks{60'000};
  PullEngine pulls{config, *log};
  HoldTable holds{[](std::vector<ParkedPtr>&) {}};
  Workers workers{config};
  Stats stats{0};
  DelayService delay{config, clock, levels, *log, topics, stats};
  TimerService timer{config, clock, *log, topics};
  TxnService txn{
      TxnDeps{config, clock, advertised.store_host, *log, topics, offsets, producers, nullptr}};
  std::unique_ptr<net::IoPool> pool = net::IoPool::start({.threads = 1}).value();
  std::unique_ptr<net::ReverseCalls> calls = net::ReverseCalls::create();
  Retention retention{config.retention, clock};
  LiveConfig live{config, clock};
  Services services{config,    clock,     advertised, levels,  *log,    flush_waiters,
                    retention, topics,    groups,     offsets, filters, consumer_filters,
                    consumers, producers, locks,      pulls,   holds,   workers,
                    stats,     delay,     txn,        timer,   *calls,  live};

  std::unique_ptr<Log> open_log() {
    config.store_root = folder.path();
    PluginSlot slot{"tenon.store.file", &options};
    auto opened = Log::open(config, *registry, slot, clock, levels, {});
    REQUIRE(opened.has_value());
    return std::move(opened).value();
  }
  ~Rig() {
    workers.stop();
    pool->stop();
    log->close();
  }
};

}  // namespace tenon::broker::test
