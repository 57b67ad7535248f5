#include "client_core.h"

#include "consumer_core.h"
#include "errors.h"
#include "hooked_rpc.h"
#include "name_server_url.h"
#include "producer_core.h"
#include "signing_rpc.h"
#include "trace.h"
#include "transaction_core.h"
#include "validate.h"

#include "tenon/base/log.h"

#include <condition_variable>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include <unistd.h>

namespace tenon::sdk::detail {
namespace {

constexpr std::size_t kCountMax = 64;
constexpr std::chrono::milliseconds kFirstHeartbeat{1'000};
constexpr std::chrono::milliseconds kRebalanceAgain{1'000};
constexpr std::chrono::milliseconds kTraceEnd{500};
constexpr std::chrono::milliseconds kUrlTimeout{3'000};
constexpr std::chrono::milliseconds kUrlFirst{10'000};
constexpr std::chrono::milliseconds kUrlPeriod{120'000};
constexpr std::chrono::milliseconds kSwitchAfterMax{60'000};
constexpr const char* kInnerGroup = "CLIENT_INNER_PRODUCER";

Result<void> check(const ClientOptions& o) {
  if (o.io_threads == 0 || o.io_threads > kCountMax) {
    return make_error(Errc::kInvalidArgument, "io_threads must be 1 to 64");
  }
  if (o.connections_per_broker == 0 || o.connections_per_broker > kCountMax) {
    return make_error(Errc::kInvalidArgument, "connections_per_broker must be 1 to 64");
  }
  for (const auto& [name, value] : {std::pair("route_refresh", o.route_refresh),
                                    std::pair("heartbeat", o.heartbeat),
                                    std::pair("api_timeout", o.api_timeout),
                                    std::pair("connect_timeout", o.connect_timeout)}) {
    if (value.count() <= 0) {
      return make_error(Errc::kInvalidArgument, std::string(name) + " must be positive");
    }
  }
  if (o.switch_after.count() < 0 || o.switch_after > kSwitchAfterMax) {
    return make_error(Errc::kInvalidArgument, "switch_after must be 0 (off) to 60 s");
  }
  return NameSpace::check(o.name_space);
}

std::string name_servers_of(const ClientOptions& o) {
  if (!o.name_servers.empty()) {
    return o.name_servers;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe) nobody changes the environment of a running program
  const char* text = std::getenv("NAMESRV_ADDR");
  return text == nullptr ? std::string() : text;
}

net::TlsClientOptions tls_of(const TlsOptions& o) {
  net::TlsClientOptions out;
  out.ca_file = o.ca_file;
  out.verify = o.verify;
  out.check_name = o.check_name;
  out.server_name = o.server_name;
  out.certificate_file = o.certificate_file;
  out.key_file = o.key_file;
  out.key_password = o.key_password;
  return out;
}

/// The account that requests are signed with; an empty function: none.
Result<CredentialsSource> credentials_of(const ClientOptions& o) {
  if (o.credentials_from) {
    return o.credentials_from;
  }
  Credentials found = o.credentials;
  if (found.access_key.empty() != found.secret_key.empty()) {
    return make_error(Errc::kInvalidArgument,
                      "credentials: access_key and secret_key must both be given");
  }
  if (found.empty()) {
    auto r = o.credentials_file.empty() ? Credentials::from_environment()
                                        : Credentials::from_file(o.credentials_file);
    if (!r) {
      return std::move(r).error();
    }
    found = std::move(*r);
  }
  if (found.empty()) {
    return CredentialsSource();
  }
  return CredentialsSource([found = std::move(found)] { return found; });
}

/// Blocks until a number of answers has come.
class Countdown {
 public:
  explicit Countdown(std::size_t n)
      : left_(n) {}
  void one() {
    const std::scoped_lock lock(mutex_);
    if (--left_ == 0) {
      done_.notify_all();
    }
  }
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, limit, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t left_;
};

}  // namespace

Result<std::shared_ptr<ClientCore>> ClientCore::create(ClientOptions options, CoreDeps deps) {
  if (auto r = check(options); !r) {
    return std::move(r).error();
  }
  options.name_servers = name_servers_of(options);
  if (options.name_space.empty()) {
    options.name_space = name_space_of(options.name_servers);
  }
  if (!split_name_servers(options.name_servers).empty()) {
    options.name_server_url.clear();
  } else if (options.name_server_url.empty()) {
    return make_error(Errc::kNoNameServer,
                      "no name server: set ClientOptions::name_servers, name_server_url or "
                      "NAMESRV_ADDR");
  } else if (auto url = parse_http_url(options.name_server_url); !url) {
    return std::move(url).error();
  }
  // The last reference may go away on one of our own threads, which cannot join itself.
  std::shared_ptr<ClientCore> core(new ClientCore(std::move(options), deps), [](ClientCore* c) {
    if (c->on_own_thread()) {
      std::thread([c] { delete c; }).detach();
    } else {
      delete c;
    }
  });
  if (auto r = core->start(deps); !r) {
    return std::move(r).error();
  }
  return core;
}

ClientCore::ClientCore(ClientOptions options, const CoreDeps& deps)
    : options_(std::move(options)),
      clock_(deps.clock == nullptr ? system_clock() : *deps.clock),
      ip_(options_.client_ip.empty() ? local_ip() : options_.client_ip),
      id_(make_client_id(
          ip_, options_.instance_name, options_.unit_name, options_.stream_requests)),
      names_(options_.name_space),
      name_server_url_(options_.name_server_url.empty()
                           ? std::string()
                           : url_of_unit(options_.name_server_url, options_.unit_name)),
      fetch_(deps.fetch_name_servers),
      message_ids_(ip_, static_cast<std::uint16_t>(getpid()), std::random_device()()),
      plugins_(options_.plugin_dirs),
      timers_(clock_, deps.threads) {}

Result<std::vector<std::string>> ClientCore::fetch_name_servers() {
  auto text = fetch_ ? fetch_(name_server_url_) : fetch_first_line(name_server_url_, kUrlTimeout);
  if (!text) {
    return std::move(text).error();
  }
  std::vector<std::string> list = split_name_servers(*text);
  if (list.empty()) {
    return make_error(Errc::kBadAnswer, "no name servers in the answer of " + name_server_url_);
  }
  return list;
}

/// What is known stays if the end point does not answer. Thread: the worker, because it blocks.
void ClientCore::renew_name_servers() {
  auto list = fetch_name_servers();
  if (!list) {
    log_warn("sdk", "name servers not renewed reason=\"{}\"", list.error().text());
  } else if (routes_->replace_name_servers(std::move(*list))) {
    log_info("sdk", "other name servers url={}", name_server_url_);
  }
}

Result<void> ClientCore::start(const CoreDeps& deps) {
  std::vector<std::string> name_servers = split_name_servers(options_.name_servers);
  if (!name_server_url_.empty()) {
    auto fetched = fetch_name_servers();
    if (!fetched) {
      Error e = std::move(fetched).error();
      e.code = make_error_code(Errc::kNoNameServer);
      return e;
    }
    name_servers = std::move(*fetched);
  }
  auto credentials = credentials_of(options_);
  if (!credentials) {
    return std::move(credentials).error();
  }
  if (deps.make_rpc) {
    rpc_ = deps.make_rpc(*this);
  } else {
    net::IoPool::Options pool;
    pool.threads = options_.io_threads;
    pool.name = "tenon-io";
    auto started = net::IoPool::start(std::move(pool));
    if (started.has_error()) {
      return from_base(started.error(), Errc::kInternal);
    }
    pool_ = std::move(started).value();
    net::RpcClientOptions rpc;
    rpc.connect_timeout = options_.connect_timeout;
    rpc.connections_per_address = options_.connections_per_broker;
    if (options_.tls.enabled) {
      auto tls = net::TlsClient::create(tls_of(options_.tls));
      if (tls.has_error()) {
        return from_base(tls.error(), Errc::kInvalidArgument);
      }
      rpc.tls = std::move(tls).value();
    }
    rpc_ = net::RpcClient::create(*pool_, rpc, this);
  }
  if (*credentials) {
    rpc_ = sign_requests(std::move(rpc_), std::move(*credentials));
  }
  if (options_.stream_requests || !options_.rpc_hooks.empty()) {
    rpc_ = hook_requests(std::move(rpc_), options_.rpc_hooks, options_.stream_requests, clock_);
  }
  calls_ = std::make_unique<Calls>(*rpc_);
  routes_ = std::make_unique<Routes>(*calls_,
                                     std::move(name_servers),
                                     std::random_device()(),
                                     options_.api_timeout,
                                     [this](const TopicInfoPtr& info) { on_route(info); });
  if (options_.trace.enabled) {
    if (auto r = check_topic(options_.trace.topic); !r) {
      return r;
    }
    tracer_ = std::make_unique<Tracer>(*this, options_.trace.topic);
  }
  start_timers();
  return {};
}

void ClientCore::start_timers() {
  if (tracer_) {
    timers_.add(
        TraceLog::kPeriod, [this] { tracer_->log->flush(); }, TraceLog::kPeriod);
  }
  if (!name_server_url_.empty()) {
    timers_.add(
        kUrlFirst, [this] { worker_.post([this] { renew_name_servers(); }); }, kUrlPeriod);
  }
  timers_.add(
      options_.route_refresh, [this] { refresh_routes(); }, options_.route_refresh);
  timers_.add(
      kFirstHeartbeat,
      [this] {
        for (const std::string& address : routes_->clean_addresses()) {
          rpc_->disconnect(address);
        }
        heartbeat();
      },
      options_.heartbeat);
}

ClientCore::~ClientCore() {
  // First end what others may wait for, then the waiting threads, then the loops.
  if (tracer_) {
    tracer_->log->close(on_own_thread() ? std::chrono::milliseconds(0) : kTraceEnd);
  }
  if (inner_) {
    inner_->stop();
  }
  if (rpc_) {
    rpc_->stop();
  }
  worker_.stop();
  timers_.stop();
  if (pool_) {
    pool_->stop();
  }
}

bool ClientCore::on_own_thread() const noexcept {
  if (timers_.is_current() || worker_.is_current()) {
    return true;
  }
  if (pool_) {
    for (std::size_t i = 0; i < pool_->size(); ++i) {
      if (pool_->at(i).is_current()) {
        return true;
      }
    }
  }
  return false;
}

Result<void> ClientCore::add(const std::shared_ptr<ProducerCore>& producer) {
  const std::scoped_lock lock(mutex_);
  auto& slot = producers_[producer->group()];
  if (!slot.expired()) {
    return make_error(Errc::kConflict,
                      "The producer group[" + producer->group() + "] has been created before");
  }
  slot = producer;
  return {};
}

Result<void> ClientCore::add(const std::shared_ptr<ConsumerCore>& consumer) {
  const std::scoped_lock lock(mutex_);
  auto& slot = consumers_[consumer->group()];
  if (!slot.expired()) {
    return make_error(Errc::kConflict,
                      "The consumer group[" + consumer->group() + "] has been created before");
  }
  slot = consumer;
  return {};
}

void ClientCore::add(const std::shared_ptr<TransactionCore>& transactions) {
  const std::scoped_lock lock(mutex_);
  transactions_[transactions->group()] = transactions;
}

void ClientCore::remove_producer(const std::string& group) {
  const std::scoped_lock lock(mutex_);
  transactions_.erase(group);
  producers_.erase(group);
}

void ClientCore::remove_consumer(const std::string& group) {
  const std::scoped_lock lock(mutex_);
  consumers_.erase(group);
}

std::vector<std::shared_ptr<ProducerCore>> ClientCore::producers() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<ProducerCore>> out;
  for (const auto& [group, weak] : producers_) {
    if (auto p = weak.lock()) {
      out.push_back(std::move(p));
    }
  }
  if (inner_) {
    out.push_back(inner_);
  }
  return out;
}

std::vector<std::shared_ptr<ConsumerCore>> ClientCore::consumers() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<ConsumerCore>> out;
  for (const auto& [group, weak] : consumers_) {
    if (auto c = weak.lock()) {
      out.push_back(std::move(c));
    }
  }
  return out;
}

std::shared_ptr<ConsumerCore> ClientCore::consumer(std::string_view group) {
  const std::scoped_lock lock(mutex_);
  const auto it = consumers_.find(group);
  return it == consumers_.end() ? nullptr : it->second.lock();
}

void ClientCore::on_route(const TopicInfoPtr& info) {
  for (const auto& p : producers()) {
    p->on_route(info);
  }
  bool wanted = false;
  for (const auto& c : consumers()) {
    wanted = c->subscribes(info->topic) || wanted;
  }
  if (wanted) {
    wake_rebalance();
  }
}

void ClientCore::refresh_routes() {
  std::set<std::string> topics;
  for (const auto& p : producers()) {
    p->collect_topics(topics);
  }
  for (const auto& c : consumers()) {
    c->collect_topics(topics);
  }
  for (const std::string& topic : topics) {
    routes_->fetch(topic, [topic](Result<TopicInfoPtr> r) {
      if (!r && !topic.starts_with("%RETRY%")) {
        log_debug("sdk", "route not refreshed topic={} reason=\"{}\"", topic, r.error().text());
      }
    });
  }
}

proto::HeartbeatData ClientCore::heartbeat_data(bool& has_consumer) {
  proto::HeartbeatData data;
  data.client_id = id_;
  for (const auto& p : producers()) {
    if (p->group() != kInnerGroup) {
      data.producer_groups.push_back(p->group());
    }
  }
  for (const auto& c : consumers()) {
    data.consumers.push_back(c->heartbeat_data());
  }
  has_consumer = !data.consumers.empty();
  if (!data.producer_groups.empty() || has_consumer) {
    data.producer_groups.emplace_back(kInnerGroup);
  }
  return data;
}

bool ClientCore::heartbeat(std::function<void()> done) {
  if (heartbeat_running_.exchange(true)) {
    return false;
  }
  bool has_consumer = false;
  const proto::HeartbeatData data = heartbeat_data(has_consumer);
  std::vector<std::string> targets;
  if (!data.producer_groups.empty()) {
    for (const Routes::Peer& peer : routes_->peers()) {
      if (peer.id == 0 || has_consumer) {
        targets.push_back(peer.address);
      }
    }
  }
  if (targets.empty()) {
    heartbeat_running_.store(false);
    if (done) {
      done();
    }
    return true;
  }
  proto::Command c = make_request(proto::RequestCode::kHeartBeat);
  c.body = proto::encode(data);
  auto left = std::make_shared<std::atomic<std::size_t>>(targets.size());
  for (const std::string& address : targets) {
    calls_->start(
        address, c, options_.api_timeout, [this, left, done, address](Result<proto::Command> r) {
          if (!r) {
            log_debug("sdk", "heartbeat failed peer={} reason=\"{}\"", address, r.error().text());
          }
          if (left->fetch_sub(1) == 1) {
            heartbeat_running_.store(false);
            if (done) {
              done();
            }
          }
        });
  }
  return true;
}

void ClientCore::heartbeat_blocking() {
  // One that is under way may have been built before the caller registered: another one follows.
  const auto end = std::chrono::steady_clock::now() + 2 * options_.api_timeout;
  auto countdown = std::make_shared<Countdown>(1);
  while (!heartbeat([countdown] { countdown->one(); })) {
    if (std::chrono::steady_clock::now() >= end) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  countdown->wait(options_.api_timeout);
}

void ClientCore::heartbeat_soon() {
  const std::uint64_t now = clock_.mono_ns();
  std::uint64_t last = heartbeat_soon_ns_.load();
  constexpr std::uint64_t kPause = 1'000'000'000;
  if (last != 0 && now - last < kPause) {
    return;
  }
  if (heartbeat_soon_ns_.compare_exchange_strong(last, now)) {
    timers_.add(std::chrono::milliseconds(0), [this] { heartbeat(); });
  }
}

void ClientCore::wake_rebalance() {
  if (rebalance_pending_.exchange(true)) {
    return;
  }
  worker_.post([this] {
    rebalance_pending_.store(false);
    rebalance_all();
  });
}

void ClientCore::rebalance_all() {
  bool settled = true;
  for (const auto& c : consumers()) {
    settled = c->rebalance() && settled;
  }
  if (!settled && !rebalance_again_.exchange(true)) {
    timers_.add(kRebalanceAgain, [this] {
      rebalance_again_.store(false);
      wake_rebalance();
    });
  }
}

void ClientCore::unregister(const std::string& producer_group, const std::string& consumer_group) {
  const auto peers = routes_->peers();
  if (peers.empty()) {
    return;
  }
  proto::Command c = make_request(proto::RequestCode::kUnregisterClient);
  c.set("clientID", id_);
  if (!producer_group.empty()) {
    c.set("producerGroup", producer_group);
  }
  if (!consumer_group.empty()) {
    c.set("consumerGroup", consumer_group);
  }
  auto countdown = std::make_shared<Countdown>(peers.size());
  for (const Routes::Peer& peer : peers) {
    calls_->start(peer.address, c, options_.api_timeout, [countdown](Result<proto::Command>) {
      countdown->one();
    });
  }
  if (!on_own_thread()) {
    countdown->wait(options_.api_timeout);
  }
}

Result<std::shared_ptr<ProducerCore>> ClientCore::inner_producer() {
  const std::scoped_lock lock(mutex_);
  if (!inner_) {
    ProducerOptions options;
    options.group = kInnerGroup;
    auto made = ProducerCore::create(*this, std::move(options));
    if (!made) {
      return std::move(made).error();
    }
    inner_ = std::move(*made);
  }
  return inner_;
}

}  // namespace tenon::sdk::detail
