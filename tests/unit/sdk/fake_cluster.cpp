#include "fake_cluster.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

namespace tenon::sdk::test {
namespace {

/// Answers on a thread of its own, one request after another, as an I/O thread would.
class FakeRpc final : public net::RpcClient {
 public:
  FakeRpc(FakeCluster& cluster, const Clock& clock)
      : cluster_(cluster),
        clock_(clock),
        thread_([this] { loop(); }) {}
  ~FakeRpc() override { stop(); }
  FakeRpc(const FakeRpc&) = delete;
  FakeRpc& operator=(const FakeRpc&) = delete;

  void call(std::string_view address,
            const net::RpcEncoder& encode,
            std::chrono::milliseconds timeout,
            net::RpcCallback done,
            std::size_t lane,
            std::chrono::milliseconds connect_wait) override {
    Request request = decode(address, encode, lane, false);
    request.timeout = timeout;
    push({std::move(request), std::move(done), clock_.mono_ns(), connect_wait});
  }
  void oneway(std::string_view address, const net::RpcEncoder& encode, std::size_t lane) override {
    push({decode(address, encode, lane, true), {}, clock_.mono_ns(), {}});
  }
  void oneway_within(std::string_view address,
                     const net::RpcEncoder& encode,
                     std::chrono::milliseconds connect_wait,
                     net::RpcCallback done,
                     std::size_t lane) override {
    Request request = decode(address, encode, lane, true);
    request.timeout = connect_wait;
    push({std::move(request), std::move(done), clock_.mono_ns(), connect_wait});
  }
  /// Ends what has waited long enough for a connection, sends what has one now. Returns when nothing
  /// more happens at this time.
  void tick() {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = ++ticks_wanted_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return stopped_ || ticks_done_ >= mine; });
  }
  void disconnect(std::string_view) override {}
  void release_held(tenon::Errc code) {
    const std::scoped_lock lock(mutex_);
    released_.push_back(code);
    changed_.notify_all();
  }
  void stop() override {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  struct Call {
    Request request{};
    net::RpcCallback done{};
    std::uint64_t begin_ns = 0;
    std::chrono::milliseconds connect_wait{};
  };

  static Request decode(std::string_view address,
                        const net::RpcEncoder& encode,
                        std::size_t lane,
                        bool oneway) {
    std::string frame;
    encode(frame, 1);
    proto::CommandView view;
    const auto r =
        proto::decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, view);
    if (r.has_error()) {
      std::abort();
    }
    return {std::string(address), proto::Command::from(view), lane, oneway, {}};
  }

  void push(Call call) {
    {
      const std::scoped_lock lock(mutex_);
      if (!stopped_) {
        queue_.push_back(std::move(call));
        changed_.notify_all();
        return;
      }
    }
    if (call.done) {
      call.done(tenon::Error{tenon::Errc::kCancelled, "stopped"});
    }
  }

  static void answer(const Call& call, proto::Command command) {
    command.flag = proto::kFlagResponse;
    auto frame = std::make_shared<std::string>();
    command.encode(*frame);
    proto::CommandView view;
    const auto r =
        proto::decode_command({reinterpret_cast<std::byte*>(frame->data()), frame->size()}, view);
    if (r.has_error()) {
      std::abort();
    }
    call.done(net::RpcAnswer{&view, frame});
  }

  static std::uint64_t ns(std::chrono::milliseconds time) {
    return static_cast<std::uint64_t>(time.count()) * 1'000'000;
  }

  /// How a call to an address without a connection goes on; `unconnected_` as the real one counts.
  enum class Fate : std::uint8_t { kGoesOn, kWaits, kFails };
  Fate fate(const Call& call) {
    if (cluster_.is_connected(call.request.address)) {
      unconnected_.erase(call.request.address);
      return Fate::kGoesOn;
    }
    const std::uint64_t now = clock_.mono_ns();
    const std::uint64_t since = unconnected_.emplace(call.request.address, now).first->second;
    const bool over = call.done && now >= call.begin_ns + ns(call.request.timeout);
    const bool impatient = call.connect_wait.count() > 0 && now >= since + ns(call.connect_wait);
    return over || impatient ? Fate::kFails : Fate::kWaits;
  }

  /// @return false: nothing to do at this time
  bool look_at_waiting() {
    bool moved = false;
    for (Call& call : std::exchange(waiting_, {})) {
      switch (fate(call)) {
        case Fate::kWaits:
          waiting_.push_back(std::move(call));
          break;
        case Fate::kFails:
          moved = true;
          call.done(tenon::Error{tenon::Errc::kNotReady, "not connected"});
          break;
        case Fate::kGoesOn:
          moved = true;
          push(std::move(call));
          break;
      }
    }
    return moved;
  }

  void loop() {
    std::deque<Call> held;
    for (;;) {
      Call call;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
          return stopped_ || !queue_.empty() || !released_.empty() || ticks_done_ != ticks_wanted_;
        });
        if (ticks_done_ != ticks_wanted_ && queue_.empty() && released_.empty() && !stopped_) {
          const std::uint64_t wanted = ticks_wanted_;
          lock.unlock();
          const bool moved = look_at_waiting();
          lock.lock();
          if (!moved && queue_.empty()) {
            ticks_done_ = wanted;
            changed_.notify_all();
          }
          continue;
        }
        if (!released_.empty() && !stopped_) {
          const tenon::Errc code = released_.front();
          released_.pop_front();
          lock.unlock();
          for (const Call& ended : std::exchange(held, {})) {
            ended.done(tenon::Error{code, "released"});
          }
          continue;
        }
        if (queue_.empty()) {
          break;
        }
        call = std::move(queue_.front());
        queue_.pop_front();
        if (stopped_) {
          held.push_back(std::move(call));
          continue;
        }
      }
      switch (fate(call)) {
        case Fate::kWaits:
          waiting_.push_back(std::move(call));
          continue;
        case Fate::kFails:
          call.done(tenon::Error{tenon::Errc::kNotReady, "not connected"});
          continue;
        case Fate::kGoesOn:
          break;
      }
      Outcome outcome = cluster_.handle(call.request);
      if (!call.done) {
        continue;
      }
      if (call.request.oneway) {
        call.done(net::RpcAnswer{});
        continue;
      }
      if (outcome.answer) {
        answer(call, std::move(*outcome.answer));
      } else if (outcome.failure) {
        call.done(*outcome.failure);
      } else {
        held.push_back(std::move(call));
      }
    }
    held.insert(held.end(), waiting_.begin(), waiting_.end());
    for (const Call& call : held) {
      if (call.done) {
        call.done(tenon::Error{tenon::Errc::kCancelled, "stopped"});
      }
    }
  }

  FakeCluster& cluster_;
  const Clock& clock_;
  std::deque<Call> waiting_;                          ///< of the thread
  std::map<std::string, std::uint64_t> unconnected_;  ///< of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> queue_;
  std::deque<tenon::Errc> released_;
  std::uint64_t ticks_wanted_ = 0;
  std::uint64_t ticks_done_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

Queue queue_of(const Request& r, std::string_view topic, std::string_view id) {
  Queue q;
  q.topic = std::string(r.command.field(topic).value_or(""));
  q.broker = r.address.substr(0, r.address.find_first_of(":-"));
  q.id = static_cast<int>(r.command.field_long(id).value_or(-1));
  return q;
}

std::string record(const Queue& q, const FakeCluster::Stored& m) {
  proto::MessageRecord r;
  r.topic = m.topic;
  r.queue_id = q.id;
  r.queue_offset = m.offset;
  r.phys_offset = m.offset * 1000;
  r.sys_flag = m.sys_flag;
  r.born_ms = 1;
  r.store_ms = 2;
  r.store_host = proto::parse_host_addr("10.0.0.1:10911").value();
  r.body = as_bytes(m.body);
  r.properties = m.properties;
  std::string out(proto::encoded_message_bytes(r), '\0');
  proto::encode_message(r, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

}  // namespace

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

FakeCluster::FakeCluster() = default;

void FakeCluster::add_topic(const std::string& topic,
                            const std::vector<std::string>& brokers,
                            std::int32_t queues,
                            std::int32_t perm) {
  const std::scoped_lock lock(mutex_);
  proto::TopicRoute route;
  for (const std::string& name : brokers) {
    route.queues.push_back({name, queues, queues, perm, 0});
    route.brokers.push_back({"c", name, {{0, name + ":10911"}}});
  }
  routes_[topic] = std::move(route);
}

void FakeCluster::replace_master(const std::string& topic,
                                 const std::string& broker,
                                 const std::string& slave_address) {
  const std::scoped_lock lock(mutex_);
  for (proto::BrokerData& b : routes_[topic].brokers) {
    if (b.broker_name == broker) {
      b.addrs = {{1, slave_address}};
    }
  }
}

void FakeCluster::release_held(tenon::Errc code) {
  std::function<void(tenon::Errc)> release;
  {
    const std::scoped_lock lock(mutex_);
    release = release_;
  }
  release(code);
}

void FakeCluster::set_connected(const std::string& address, bool connected) {
  const std::scoped_lock lock(mutex_);
  if (connected) {
    unconnected_.erase(address);
  } else {
    unconnected_.insert(address);
  }
}

bool FakeCluster::is_connected(const std::string& address) {
  const std::scoped_lock lock(mutex_);
  if (!unconnected_.contains(address)) {
    return true;
  }
  ++tried_[address];
  return false;
}

int FakeCluster::tried(const std::string& address) const {
  const std::scoped_lock lock(mutex_);
  const auto it = tried_.find(address);
  return it == tried_.end() ? 0 : it->second;
}

void FakeCluster::tick() {
  std::function<void()> tick;
  {
    const std::scoped_lock lock(mutex_);
    tick = tick_;
  }
  tick();
}

void FakeCluster::remove_topic(const std::string& topic) {
  const std::scoped_lock lock(mutex_);
  routes_.erase(topic);
}

void FakeCluster::set_hook(Hook hook) {
  const std::scoped_lock lock(mutex_);
  hook_ = std::move(hook);
}

void FakeCluster::put(const Queue& queue, const std::string& body, const std::string& properties) {
  const std::scoped_lock lock(mutex_);
  auto& list = queues_[queue];
  list.push_back({static_cast<std::int64_t>(list.size()), body, properties, queue.topic, 0});
}

void FakeCluster::set_members(std::vector<std::string> ids) {
  const std::scoped_lock lock(mutex_);
  members_ = std::move(ids);
}

void FakeCluster::set_offset(const std::string& group, const Queue& queue, std::int64_t offset) {
  const std::scoped_lock lock(mutex_);
  offsets_[{group, queue}] = offset;
}

std::optional<std::int64_t> FakeCluster::offset(const std::string& group,
                                                const Queue& queue) const {
  const std::scoped_lock lock(mutex_);
  const auto it = offsets_.find({group, queue});
  return it == offsets_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Request> FakeCluster::requests(std::int32_t code) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Request> out;
  for (const Request& r : log_) {
    if (r.command.code == code) {
      out.push_back(r);
    }
  }
  return out;
}

std::vector<FakeCluster::Stored> FakeCluster::stored(const Queue& queue) const {
  const std::scoped_lock lock(mutex_);
  const auto it = queues_.find(queue);
  return it == queues_.end() ? std::vector<Stored>() : it->second;
}

std::unique_ptr<net::RpcClient> FakeCluster::make_rpc() {
  return make_rpc(system_clock());
}

std::unique_ptr<net::RpcClient> FakeCluster::make_rpc(const Clock& clock) {
  auto rpc = std::make_unique<FakeRpc>(*this, clock);
  const std::scoped_lock lock(mutex_);
  tick_ = [rpc = rpc.get()] { rpc->tick(); };
  release_ = [rpc = rpc.get()](tenon::Errc code) { rpc->release_held(code); };
  return rpc;
}

std::shared_ptr<detail::ClientCore> FakeCluster::client(const Clock* clock, ClientOptions options) {
  if (options.name_servers.empty()) {
    options.name_servers = kNameServer;
  }
  detail::CoreDeps deps;
  deps.clock = clock;
  deps.threads = clock == nullptr;
  deps.make_rpc = [this, clock](net::ConnectionHandler&) {
    return make_rpc(clock == nullptr ? system_clock() : *clock);
  };
  return detail::ClientCore::create(std::move(options), std::move(deps)).value();
}

Outcome FakeCluster::handle(const Request& request) {
  Hook hook;
  {
    const std::scoped_lock lock(mutex_);
    log_.push_back(request);
    hook = hook_;
  }
  if (hook) {
    if (auto outcome = hook(request)) {
      return std::move(*outcome);
    }
  }
  return default_answer(request);
}

Outcome FakeCluster::default_answer(const Request& request) {
  const std::scoped_lock lock(mutex_);
  switch (request.command.code) {
    case proto::RequestCode::kGetRouteinfoByTopic:
      return route(request);
    case proto::RequestCode::kSendMessageV2:
    case proto::RequestCode::kSendBatchMessage:
    case proto::RequestCode::kSendReplyMessageV2:
      return send(request);
    case proto::RequestCode::kPullMessage:
      return pull(request);
    case proto::RequestCode::kGetConsumerListByGroup: {
      proto::Command c;
      c.body = proto::encode_consumer_ids(members_);
      return Outcome::ok(std::move(c));
    }
    case proto::RequestCode::kLockBatchMq: {
      proto::Command c;
      c.body = proto::encode_lock_answer(
          proto::decode_lock_request(request.command.body).value().queues);
      return Outcome::ok(std::move(c));
    }
    case proto::RequestCode::kQueryConsumerOffset:
    case proto::RequestCode::kUpdateConsumerOffset:
    case proto::RequestCode::kGetMinOffset:
    case proto::RequestCode::kGetMaxOffset:
      return offsets(request);
    default:
      return Outcome::ok();
  }
}

Outcome FakeCluster::route(const Request& request) {
  const auto it = routes_.find(std::string(request.command.field("topic").value_or("")));
  if (it == routes_.end()) {
    return Outcome::code(proto::ResponseCode::kTopicNotExist, "No topic route info");
  }
  proto::Command c;
  c.body = proto::encode(it->second, true);
  return Outcome::ok(std::move(c));
}

Outcome FakeCluster::send(const Request& request) {
  const Queue q = queue_of(request, "b", "e");
  auto& list = queues_[q];
  Stored m;
  m.offset = static_cast<std::int64_t>(list.size());
  m.topic = q.topic;
  m.body = request.command.body;
  m.properties = std::string(request.command.field("i").value_or(""));
  m.sys_flag = static_cast<std::int32_t>(request.command.field_long("f").value_or(0));
  list.push_back(m);
  proto::Command c;
  c.set("msgId", "0A00000100002A9F000000000000000" + std::to_string(m.offset % 10));
  c.set("queueId", static_cast<std::int64_t>(q.id));
  c.set("queueOffset", m.offset);
  c.set("MSG_REGION", std::string_view("DefaultRegion"));
  return Outcome::ok(std::move(c));
}

Outcome FakeCluster::pull(const Request& request) {
  const Queue q = queue_of(request, "topic", "queueId");
  const std::int64_t from = request.command.field_long("queueOffset").value_or(0);
  const auto& list = queues_[q];
  if (from >= static_cast<std::int64_t>(list.size())) {
    return Outcome::hold();
  }
  proto::Command c;
  std::int64_t next = from;
  for (; next < static_cast<std::int64_t>(list.size()) && next < from + 32; ++next) {
    c.body += record(q, list[static_cast<std::size_t>(next)]);
  }
  c.set("suggestWhichBrokerId", std::int64_t{0});
  c.set("nextBeginOffset", next);
  c.set("minOffset", std::int64_t{0});
  c.set("maxOffset", static_cast<std::int64_t>(list.size()));
  return Outcome::ok(std::move(c));
}

Outcome FakeCluster::offsets(const Request& request) {
  const Queue q = queue_of(request, "topic", "queueId");
  const auto key = std::pair(std::string(request.command.field("consumerGroup").value_or("")), q);
  proto::Command c;
  if (request.command.code == proto::RequestCode::kUpdateConsumerOffset) {
    offsets_[key] = request.command.field_long("commitOffset").value_or(-1);
  } else if (request.command.code == proto::RequestCode::kGetMinOffset) {
    c.set("offset", std::int64_t{0});
  } else if (request.command.code == proto::RequestCode::kGetMaxOffset) {
    c.set("offset", static_cast<std::int64_t>(queues_[q].size()));
  } else {
    const auto it = offsets_.find(key);
    if (it == offsets_.end()) {
      return Outcome::code(proto::ResponseCode::kQueryNotFound);
    }
    c.set("offset", it->second);
  }
  return Outcome::ok(std::move(c));
}

}  // namespace tenon::sdk::test
