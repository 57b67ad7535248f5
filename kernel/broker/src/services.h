// What processors work with. Owned and wired by the broker; processors know the services, services
// never know processors.
#pragma once

#include "append/delay_levels.h"
#include "append/flush_waiters.h"
#include "append/log.h"
#include "append/retention.h"
#include "client/consumers.h"
#include "client/producers.h"
#include "client/queue_locks.h"
#include "delay/delay_service.h"
#include "live_config.h"
#include "meta/consumer_filters.h"
#include "meta/groups.h"
#include "meta/offsets.h"
#include "meta/topics.h"
#include "pull/filter.h"
#include "pull/hold_table.h"
#include "pull/pull_engine.h"
#include "stats/stats.h"
#include "timer/timer_service.h"
#include "txn/txn_service.h"
#include "util/workers.h"

#include "tenon/base/clock.h"
#include "tenon/broker/config.h"
#include "tenon/net/rpc_client.h"
#include "tenon/proto/message.h"

#include <string>

namespace tenon::broker {

/// Where clients reach this broker; part of message ids and remarks.
struct Advertised {
  proto::HostAddr store_host{};
  std::string ip{};       ///< broker_ip1
  std::string address{};  ///< ip:port
};

struct Services {
  const BrokerConfig& config;
  const Clock& clock;
  const Advertised& advertised;
  const DelayLevels& levels;
  Log& log;
  FlushWaiters& flush_waiters;
  Retention& retention;
  Topics& topics;
  Groups& groups;
  Offsets& offsets;
  Filters& filters;
  ConsumerFilters& consumer_filters;
  Consumers& consumers;
  Producers& producers;
  QueueLocks& locks;
  PullEngine& pulls;
  HoldTable& holds;
  Workers& workers;
  Stats& stats;
  DelayService& delay;
  TxnService& txn;
  TimerService& timer;
  net::ReverseCalls& calls;  ///< requests to clients over the connections they came on
  LiveConfig& live;          ///< settings by RocketMQ's names, to read and to change
};

}  // namespace tenon::broker
