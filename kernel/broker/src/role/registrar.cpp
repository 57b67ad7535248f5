#include "role/registrar.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/base/log.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <utility>

namespace tenon::broker {
namespace {

using C = proto::RequestCode;

constexpr std::int64_t kPeriodMinMs = 10'000;
constexpr std::int64_t kPeriodMaxMs = 60'000;
constexpr std::chrono::milliseconds kFarewellTimeout{3'000};

/// Waits until a number of things happened, or a deadline.
class Countdown {
 public:
  explicit Countdown(std::size_t n)
      : left_(n) {}
  void done() {
    const std::scoped_lock lock(mutex_);
    if (left_ > 0 && --left_ == 0) {
      zero_.notify_all();
    }
  }
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    zero_.wait_for(lock, limit, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  std::size_t left_;
};

}  // namespace

Registrar::Registrar(const BrokerConfig& config,
                     const Advertised& advertised,
                     Topics& topics,
                     net::IoPool& pool,
                     net::RpcClient& rpc,
                     Workers& workers)
    : config_(config),
      advertised_(advertised),
      topics_(topics),
      pool_(pool),
      rpc_(rpc),
      workers_(workers) {}

proto::Command Registrar::register_command() const {
  proto::RegisterBrokerBody body;
  body.topics = topics_.table();
  body.topics.extra.clear();
  constexpr std::int32_t kReadWrite = proto::kPermRead | proto::kPermWrite;
  if ((config_.permission & kReadWrite) != kReadWrite) {
    // Trap: the registered copies get the broker's permission, not the intersection, and lose their
    // sys flag (broker §1.3).
    for (auto& [name, topic] : body.topics.topics) {
      topic.perm = config_.permission;
      topic.sys_flag = 0;
    }
  }
  proto::Command c;
  c.code = C::kRegisterBroker;
  c.body = proto::encode(body);
  proto::HostAddr ha = advertised_.store_host;
  ha.port = static_cast<std::uint16_t>(ha.port + 1);
  c.set("brokerName", config_.name);
  c.set("brokerAddr", advertised_.address);
  c.set("clusterName", config_.cluster);
  c.set("haServerAddr", proto::to_string(ha));
  c.set("brokerId", config_.id);
  c.set("compressed", "false");
  c.set("bodyCrc32", std::int64_t{crc32_java(as_bytes(c.body))});
  return c;
}

void Registrar::register_all(const Done& done) {
  const proto::Command command = register_command();
  for (const std::string& address : config_.namesrv) {
    register_one(address, command, done);
  }
}

void Registrar::register_one(const std::string& address,
                             const proto::Command& command,
                             const Done& done) {
  rpc_.call(address,
            command,
            std::chrono::milliseconds(config_.register_timeout_ms),
            [this, address, done](Result<net::RpcAnswer> answer) {
              answered(address, answer);
              if (done) {
                done();
              }
            });
}

void Registrar::answered(const std::string& address, const Result<net::RpcAnswer>& answer) {
  std::string reason;
  if (answer.has_error()) {
    reason = answer.error().detail;
  } else if (answer.value().command->code != proto::ResponseCode::kSuccess) {
    reason = answer.value().command->remark;
  }
  const bool fine = reason.empty() && answer.has_value();
  {
    const std::scoped_lock lock(mutex_);
    const auto [it, first] = reachable_.try_emplace(address, !fine);
    if (it->second != fine) {
      it->second = fine;
      if (fine) {
        log_info("broker",
                 "registered name_server={} broker={} address={}",
                 address,
                 config_.name,
                 advertised_.address);
      } else {
        log_warn("broker", "not registered name_server={} reason=\"{}\"", address, reason);
      }
    }
  }
  if (!fine || answer.value().command->body.empty()) {
    return;
  }
  // The table of order topics, only sent if it exists (broker §4.3).
  auto order = proto::decode_kv_table(as_text(answer.value().command->body));
  if (order.has_value()) {
    topics_.set_order_topics(order.value());
  }
}

void Registrar::start() {
  if (config_.namesrv.empty() || running_.exchange(true)) {
    return;
  }
  auto countdown = std::make_shared<Countdown>(config_.namesrv.size());
  register_all([countdown] { countdown->done(); });
  countdown->wait(std::chrono::milliseconds(config_.register_timeout_ms));
  const std::chrono::milliseconds period(period_ms(config_.register_period_ms));
  timer_ = pool_.at(0).every(period, [this] { trigger(); });
}

std::int64_t Registrar::period_ms(std::int64_t configured) noexcept {
  return std::clamp(configured, kPeriodMinMs, kPeriodMaxMs);
}

void Registrar::trigger() {
  if (!running_.load(std::memory_order_acquire) || triggered_.exchange(true)) {
    return;
  }
  const bool taken = workers_.post(Workers::Lane::kAdmin, [this] {
    triggered_.store(false);
    if (running_.load(std::memory_order_acquire)) {
      register_all({});
    }
  });
  if (!taken) {
    triggered_.store(false);
  }
}

void Registrar::stop() {
  if (!running_.exchange(false)) {
    return;
  }
  pool_.at(0).cancel(timer_);
  proto::Command c;
  c.code = C::kUnregisterBroker;
  c.set("brokerName", config_.name);
  c.set("brokerAddr", advertised_.address);
  c.set("clusterName", config_.cluster);
  c.set("brokerId", config_.id);
  auto countdown = std::make_shared<Countdown>(config_.namesrv.size());
  for (const std::string& address : config_.namesrv) {
    rpc_.call(
        address, c, kFarewellTimeout, [countdown](Result<net::RpcAnswer>) { countdown->done(); });
  }
  countdown->wait(kFarewellTimeout);
}

}  // namespace tenon::broker
