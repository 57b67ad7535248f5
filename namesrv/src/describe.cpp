// The keys of the [namesrv] table.
#include "tenon/config/visitor.h"
#include "tenon/namesrv/name_server.h"

namespace tenon::namesrv {

void describe(config::Visitor& v, NamesrvConfig& c) {
  constexpr std::int64_t kHourMs = 3'600'000;
  v.table("namesrv", "Where the name server listens and how it watches brokers.", [&] {
    v.key("listen_host", &c.listen_host, {.doc = "Numeric IPv4 or IPv6 address to listen on."});
    v.key("listen_port",
          &c.listen_port,
          {.doc = "Port for brokers, clients and tools.", .rocketmq = "listenPort", .max = 65535});
    v.key("kv_config_path",
          &c.kv_config_path,
          {.doc = "File of the key-value configuration. Empty: kept in memory only.",
           .rocketmq = "kvConfigPath"});
    v.key("order_message_enable",
          &c.order_message_enable,
          {.doc = "Give the order configuration of topics in routes.",
           .rocketmq = "orderMessageEnable"});
    v.key("scan_interval_ms",
          &c.scan_interval_ms,
          {.doc = "How often silent brokers are looked for.",
           .rocketmq = "scanNotActiveBrokerInterval",
           .min = 1,
           .max = kHourMs});
    v.key("scan_first_ms",
          &c.scan_first_ms,
          {.doc = "The first time after the start.", .min = 1, .max = kHourMs});
    v.key("broker_timeout_ms",
          &c.broker_timeout_ms,
          {.doc = "A broker that did not register for so long is dropped.",
           .min = 1,
           .max = 24 * kHourMs});
    v.key("idle_timeout_ms",
          &c.idle_timeout_ms,
          {.doc = "Connections without traffic for so long are closed. 0: never.",
           .rocketmq = "serverChannelMaxIdleTimeSeconds",
           .min = 0,
           .max = 24 * kHourMs});
    v.key("connection_max",
          &c.connection_max,
          {.doc = "Connections; further ones are closed at once.", .min = 1, .max = 1'000'000});
    v.key("frame_max_bytes",
          &c.frame_max_bytes,
          {.doc = "Larger requests close their connection.", .min = 4096, .max = 16 << 20});
    v.key("io_threads",
          &c.io_threads,
          {.doc = "Threads that serve connections.", .min = 1, .max = 64});
  });
}

}  // namespace tenon::namesrv
