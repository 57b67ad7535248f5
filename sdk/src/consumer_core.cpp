// Life of a consumer; its parts are in rebalance.cpp, pull_loop.cpp and consume.cpp.
#include "consumer_core.h"

#include "errors.h"
#include "orderly.h"
#include "poller.h"
#include "validate.h"

#include "tenon/base/log.h"
#include "tenon/proto/bodies_admin.h"

#include <algorithm>
#include <cstdlib>

namespace tenon::sdk::detail {
namespace {

template <class T>
Result<void> in_range(const char* name, T value, T low, T high) {
  if (value < low || value > high) {
    return make_error(
        Errc::kInvalidArgument,
        std::string(name) + " must be " + std::to_string(low) + " to " + std::to_string(high));
  }
  return {};
}

Result<void> check(const PushConsumerOptions& o, bool orderly) {
  if (!orderly || o.max_attempts != -1) {
    if (auto r = in_range<int>("max_attempts", o.max_attempts, 1, 1'000'000); !r) {
      return r;
    }
  }
  if (auto r = check_group(o.group); !r) {
    return r;
  }
  if (o.group == "DEFAULT_CONSUMER") {
    return make_error(Errc::kInvalidArgument,
                      "consumerGroup can not equal DEFAULT_CONSUMER, please specify another one.");
  }
  if (o.subscriptions.empty()) {
    return make_error(Errc::kInvalidArgument, "subscriptions must name at least one topic");
  }
  for (const auto& [topic, subscription] : o.subscriptions) {
    if (auto r = check_topic(topic); !r) {
      return r;
    }
  }
  for (auto&& r :
       {in_range<std::size_t>("threads", o.threads, 1, 1000),
        in_range<std::size_t>("batch_max", o.batch_max, 1, 1024),
        in_range<std::size_t>("pull_batch", o.pull_batch, 1, 1024),
        in_range<std::size_t>("cached_max_messages", o.cached_max_messages, 1, 65535),
        in_range<std::size_t>("cached_max_mib", o.cached_max_mib, 1, 1024),
        in_range<std::int64_t>("cached_max_span", o.cached_max_span, 1, 65535),
        in_range<std::int64_t>("pull_interval", o.pull_interval.count(), 0, 65535),
        in_range<std::int64_t>("offset_interval", o.offset_interval.count(), 10, 24 * 3600 * 1000),
        in_range<std::int64_t>(
            "rebalance_interval", o.rebalance_interval.count(), 10, 24 * 3600 * 1000),
        in_range<std::int64_t>(
            "consume_timeout", o.consume_timeout.count(), 1000, std::int64_t{24} * 3600 * 1000)}) {
    if (!r) {
      return r;
    }
  }
  return {};
}

/// From here on everything has the names that servers use.
void wrap(const NameSpace& names, PushConsumerOptions& o) {
  if (names.empty()) {
    return;
  }
  o.group = names.wrap(o.group);
  std::map<std::string, Subscription> wrapped;
  for (auto& [topic, what] : o.subscriptions) {
    wrapped.emplace(names.wrap(topic), std::move(what));
  }
  o.subscriptions = std::move(wrapped);
}

std::string offset_root(const PushConsumerOptions& o) {
  if (!o.local_offset_dir.empty()) {
    return o.local_offset_dir;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe) nobody changes the environment of a running program
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "." : home) + "/.rocketmq_offsets";
}

}  // namespace

void QueueState::advance(std::int64_t offset) noexcept {
  std::int64_t now = memory_offset.load(std::memory_order_relaxed);
  while (offset > now && !memory_offset.compare_exchange_weak(now, offset)) {
  }
}

void filter_by_tag(const std::vector<std::string>& tags, std::vector<MessageView>& messages) {
  if (tags.empty()) {
    return;
  }
  std::erase_if(messages, [&](const MessageView& m) {
    return std::find(tags.begin(), tags.end(), m.tag()) == tags.end();
  });
}

Result<std::shared_ptr<ConsumerCore>> ConsumerCore::create(ClientCore& client,
                                                           PushConsumerOptions options,
                                                           Listeners listeners) {
  const bool orderly = static_cast<bool>(listeners.orderly);
  wrap(client.names(), options);
  if (auto r = check(options, orderly); !r) {
    return std::move(r).error();
  }
  std::shared_ptr<ConsumerCore> made(
      new ConsumerCore(client, std::move(options), std::move(listeners)));
  if (orderly) {
    made->orderly_ = std::make_unique<Orderly>(*made);
  }
  if (auto r = made->set_up(); !r) {
    return std::move(r).error();
  }
  return made;
}

Result<std::shared_ptr<ConsumerCore>> ConsumerCore::create_pull(ClientCore& client,
                                                                PullConsumerOptions options) {
  PushConsumerOptions o;
  o.group = std::move(options.group);
  o.subscriptions = std::move(options.subscriptions);
  o.start = options.start;
  o.mode = options.mode;
  o.allocator = std::move(options.allocator);
  o.pull_batch = options.pull_batch;
  o.batch_max = options.poll_max;
  o.cached_max_messages = options.cached_max_messages;
  o.cached_max_mib = options.cached_max_mib;
  o.offset_interval = options.commit_interval;
  o.rebalance_interval = options.rebalance_interval;
  o.pull_error_delay = options.pull_error_delay;
  o.local_offset_dir = std::move(options.local_offset_dir);
  o.hooks = std::move(options.hooks);
  o.queues_changed = std::move(options.queues_changed);
  wrap(client.names(), o);
  PushConsumerOptions checked = o;
  checked.subscriptions.try_emplace("any");  // none is fine: queues may be assigned
  if (auto r = check(checked, false); !r) {
    return std::move(r).error();
  }
  std::shared_ptr<ConsumerCore> made(new ConsumerCore(client, std::move(o), Listeners()));
  Poller::Options how;
  how.poll_max = options.poll_max;
  how.auto_commit = options.auto_commit;
  how.commit_interval = options.commit_interval;
  made->poller_ = std::make_unique<Poller>(*made, how);
  if (auto r = made->set_up(); !r) {
    return std::move(r).error();
  }
  return made;
}

/// What all kinds of consumers need.
Result<void> ConsumerCore::set_up() {
  if (!clustering() && client_.options().instance_name.empty()) {
    // Trap: the offset file lies in a folder named after the client id; a new id at every start
    // would forget all offsets (client §1.2).
    return make_error(Errc::kInvalidArgument,
                      "a broadcasting consumer needs ClientOptions::instance_name, which names its "
                      "offset file");
  }
  auto allocator = client_.plugins().allocator(
      options_.allocator.empty() ? client_.options().allocator : options_.allocator);
  if (!allocator) {
    return std::move(allocator).error();
  }
  allocator_ = std::move(*allocator);
  if (auto r = add_subscriptions(); !r) {
    return r;
  }
  if (!clustering()) {
    local_ = std::make_unique<LocalOffsets>(offset_root(options_), client_.id(), options_.group);
    if (auto r = local_->load(); !r) {
      return r;
    }
  }
  pool_ = std::make_shared<ListenerPool>(
      options_.threads,
      options_.batch_max,
      client_.options().executor,
      [this](const std::shared_ptr<void>& context, std::span<const MessageView> slice) {
        consume(std::static_pointer_cast<QueueState>(context), slice);
      });
  return {};
}

ConsumerCore::ConsumerCore(ClientCore& client, PushConsumerOptions options, Listeners listeners)
    : client_(client),
      options_(std::move(options)),
      shown_group_(client.names().unwrap(options_.group)),
      listeners_(std::move(listeners)),
      started_ms_(client.now_ms()) {}

ConsumerCore::~ConsumerCore() = default;

ConsumerCore::SubscriptionPtr ConsumerCore::subscription(std::string_view topic) const {
  const std::scoped_lock lock(mutex_);
  const auto it = subscriptions_.find(topic);
  return it == subscriptions_.end() ? nullptr : it->second;
}

std::vector<ConsumerCore::SubscriptionPtr> ConsumerCore::subscriptions() const {
  const std::scoped_lock lock(mutex_);
  std::vector<SubscriptionPtr> out;
  for (const auto& [topic, subscription] : subscriptions_) {
    out.push_back(subscription);
  }
  return out;
}

Result<void> ConsumerCore::add_subscription(const std::string& topic, const Subscription& what) {
  const char* type = what.kind == FilterKind::kTag ? "TAG" : "SQL92";
  auto data = proto::build_subscription(topic, what.expression, type);
  if (data.has_error()) {
    return from_base(data.error(), Errc::kInvalidArgument);
  }
  auto state = std::make_shared<SubscriptionState>();
  state->data = std::move(data).value();
  state->tags.assign(state->data.tags.begin(), state->data.tags.end());
  const std::scoped_lock lock(mutex_);
  SubscriptionPtr& slot = subscriptions_[topic];
  // Trap: milliseconds, and increasing; a broker keeps the subscription with the higher version
  // (client §2.7).
  state->version.store(slot ? std::max(client_.now_ms(), slot->version.load() + 1)
                            : client_.now_ms());
  slot = std::move(state);
  return {};
}

Result<void> ConsumerCore::add_subscriptions() {
  for (const auto& [topic, what] : options_.subscriptions) {
    if (auto r = add_subscription(topic, what); !r) {
      return r;
    }
  }
  if (clustering() && !poller_) {
    return add_subscription("%RETRY%" + options_.group, Subscription());
  }
  return {};
}

/// A broker says whether it understands a SQL text, before anything is started (spec: client §2.7).
Result<void> ConsumerCore::check_sql(const SubscriptionState& subscription) {
  const TopicInfoPtr info = client_.routes().cached(subscription.data.topic);
  if (subscription.data.expression_type == "TAG" || !info || info->brokers.empty()) {
    return {};
  }
  proto::CheckClientBody body;
  body.client_id = client_.id();
  body.group = options_.group;
  body.subscription = subscription.data;
  proto::Command c = make_request(proto::RequestCode::kCheckClientConfig);
  c.body = proto::encode(body);
  const std::string address = client_.routes().address(info->brokers.front().name, 0, false);
  auto r = client_.calls().ask_ok(address, std::move(c), client_.options().api_timeout);
  if (!r) {
    return std::move(r).error();
  }
  return {};
}

Result<void> ConsumerCore::start() {
  for (const SubscriptionPtr& s : subscriptions()) {
    // A topic that does not exist yet is no error: it is found when it does.
    auto r = client_.routes().fetch_blocking(s->data.topic);
    if (!r && r.error().is(Errc::kNoNameServer)) {
      return std::move(r).error();
    }
    if (auto checked = check_sql(*s); !checked) {
      return checked;
    }
  }
  client_.heartbeat_blocking();
  start_timers();
  client_.wake_rebalance();
  return {};
}

Result<void> ConsumerCore::subscribe(std::string_view topic, const Subscription& what) {
  if (client_.on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "subscribe() blocks: not on an I/O thread");
  }
  if (poller_ && poller_->assigns()) {
    return make_error(Errc::kConflict, "Subscribe and assign are mutually exclusive.");
  }
  const std::string name = client_.names().wrap(topic);
  if (auto r = check_topic(name); !r) {
    return r;
  }
  const SubscriptionPtr before = subscription(name);
  if (auto r = add_subscription(name, what); !r) {
    return r;
  }
  auto route = client_.routes().fetch_blocking(name);
  Result<void> checked = check_sql(*subscription(name));
  if (!route && route.error().is(Errc::kNoNameServer)) {
    checked = std::move(route).error();
  }
  if (!checked) {
    const std::scoped_lock lock(mutex_);
    if (before) {
      subscriptions_[name] = before;
    } else {
      subscriptions_.erase(name);
    }
    return checked;
  }
  client_.heartbeat_blocking();
  client_.wake_rebalance();
  return {};
}

Result<void> ConsumerCore::unsubscribe(std::string_view topic) {
  if (client_.on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "unsubscribe() blocks: not on an I/O thread");
  }
  {
    const std::scoped_lock lock(mutex_);
    const auto it = subscriptions_.find(client_.names().wrap(topic));
    if (it == subscriptions_.end()) {
      return make_error(Errc::kNotFound, "not subscribed: " + std::string(topic));
    }
    subscriptions_.erase(it);
  }
  client_.heartbeat_blocking();
  client_.wake_rebalance();
  return {};
}

void ConsumerCore::start_timers() {
  const std::weak_ptr<ConsumerCore> weak = weak_from_this();
  const auto every = [&](std::chrono::milliseconds period, auto fn) {
    timers_.push_back(client_.timers().add(
        period,
        [weak, fn] {
          if (const auto self = weak.lock()) {
            fn(*self);
          }
        },
        period));
  };
  every(options_.offset_interval, [](ConsumerCore& c) { c.persist_all(); });
  if (!orderly_ && !poller_) {
    every(options_.consume_timeout, [](ConsumerCore& c) {
      // Sends back, which blocks: not on the timer thread.
      c.pool_->post([self = c.shared_from_this()] { self->clean_expired(); });
    });
  } else if (orderly_ && clustering()) {
    every(Orderly::kRenewal, [](ConsumerCore& c) { c.orderly_->renew(); });
  }
  every(options_.rebalance_interval, [](ConsumerCore& c) { c.client_.wake_rebalance(); });
}

void ConsumerCore::collect_topics(std::set<std::string>& out) const {
  for (const SubscriptionPtr& s : subscriptions()) {
    out.insert(s->data.topic);
  }
}

proto::ConsumerData ConsumerCore::heartbeat_data() const {
  proto::ConsumerData data;
  data.group = options_.group;
  if (poller_) {
    data.consume_type = proto::ConsumeType::kActively;
  }
  data.message_model =
      clustering() ? proto::MessageModel::kClustering : proto::MessageModel::kBroadcasting;
  data.consume_from_where = proto::ConsumeFromWhere::kLastOffset;
  if (std::holds_alternative<FromFirst>(options_.start)) {
    data.consume_from_where = proto::ConsumeFromWhere::kFirstOffset;
  } else if (std::holds_alternative<FromTime>(options_.start)) {
    data.consume_from_where = proto::ConsumeFromWhere::kTimestamp;
  }
  for (const SubscriptionPtr& s : subscriptions()) {
    data.subscriptions.push_back(s->data);
    data.subscriptions.back().sub_version = s->version.load();
  }
  return data;
}

std::vector<QueueStatePtr> ConsumerCore::states() const {
  const std::scoped_lock lock(mutex_);
  std::vector<QueueStatePtr> out;
  out.reserve(owned_.size());
  for (const auto& [queue, state] : owned_) {
    out.push_back(state);
  }
  return out;
}

std::vector<Queue> ConsumerCore::owned() const {
  std::vector<Queue> out;
  for (const QueueStatePtr& state : states()) {
    out.push_back(client_.names().unwrap(state->queue));
  }
  return out;
}

void ConsumerCore::resume() {
  paused_.store(false);
  client_.wake_rebalance();
}

bool ConsumerCore::drain(std::chrono::milliseconds limit) {
  closing_.store(true);
  // The pool is idle also while suspended queues wait for their time. A queue that is in a call now
  // is closed by its own listener: it does not go on before that returns.
  const auto waits = [this](bool also_in_call) {
    const std::vector<QueueStatePtr> all = states();
    return orderly_ && std::any_of(all.begin(), all.end(), [&](const QueueStatePtr& state) {
             return state->cache.waiting() > 0 && (also_in_call || !state->in_call.load());
           });
  };
  return pool_->drain(limit, [&] { return !waits(false); }) && !waits(true);
}

void ConsumerCore::stop() {
  if (stopped_.exchange(true)) {
    return;
  }
  closing_.store(true);
  if (poller_) {
    poller_->on_messages();  // wakes a waiting poll()
  }
  pool_->stop();
  for (const Scheduler::Id timer : timers_) {
    client_.timers().cancel(timer);
  }
  std::vector<QueueStatePtr> last;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [queue, state] : owned_) {
      last.push_back(state);
    }
    owned_.clear();
  }
  // Trap: committed after the last listener ended and before the group is left: the others read the
  // offsets at once (client §5.16).
  commit_all(last);
  if (orderly_ && clustering()) {
    orderly_->unlock(last, true);
  }
  for (const QueueStatePtr& state : last) {
    state->dropped.store(true);
    state->cache.clear();
  }
  client_.remove_consumer(options_.group);
  client_.unregister({}, options_.group);
}

}  // namespace tenon::sdk::detail
