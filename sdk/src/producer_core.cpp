// Life of a producer and the forms of sending; one attempt after another is in send_attempt.cpp.
#include "producer_core.h"

#include "errors.h"
#include "message_text.h"
#include "trace.h"
#include "validate.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <random>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenon::sdk::detail {
namespace {

constexpr std::int64_t kWaitStepMs = 1;

/// Marks the thread as being inside a callback of a producer, so that stop() from there does not
/// wait for itself.
struct InsideCallback {
  explicit InsideCallback(const ProducerCore* p) noexcept
      : core(p),
        outer(top) {
    top = this;
  }
  ~InsideCallback() { top = outer; }
  InsideCallback(const InsideCallback&) = delete;
  InsideCallback& operator=(const InsideCallback&) = delete;
  static int depth(const ProducerCore* p) noexcept {
    int n = 0;
    for (const InsideCallback* i = top; i != nullptr; i = i->outer) {
      n += i->core == p ? 1 : 0;
    }
    return n;
  }
  const ProducerCore* core;
  InsideCallback* outer;
  static thread_local InsideCallback* top;
};
thread_local InsideCallback* InsideCallback::top = nullptr;

/// Where a blocking caller waits. One per thread, so that a late notify touches living memory.
struct Waiter {
  std::atomic<int> ready{0};
  std::optional<Result<Receipt>> result{};
};
thread_local Waiter this_waiter;

void pause_briefly() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Starts an operation with a callback and blocks until it is called.
template <class Start>
Result<Receipt> wait_for(Start&& start_it) {
  Waiter& waiter = this_waiter;
  waiter.ready.store(0, std::memory_order_relaxed);
  waiter.result.reset();
  start_it([&waiter](Result<Receipt> r) {
    waiter.result.emplace(std::move(r));
    // Not release only: notify_one() looks whether anybody waits, and that must not be before the
    // waiter can see the value. A wake-up would be lost and the caller hang.
    waiter.ready.store(1, std::memory_order_seq_cst);
    waiter.ready.notify_one();
  });
  constexpr int kSpins = 200;
  for (int i = 0; i < kSpins && waiter.ready.load(std::memory_order_acquire) == 0; ++i) {
    pause_briefly();
  }
  while (waiter.ready.load(std::memory_order_acquire) == 0) {
    waiter.ready.wait(0, std::memory_order_acquire);
  }
  Result<Receipt> result = std::move(*waiter.result);
  waiter.result.reset();
  return result;
}

/// Producers of the SDK itself are not seen by anybody.
bool is_internal(std::string_view group) noexcept {
  return group == "CLIENT_INNER_PRODUCER" || group == TraceLog::kGroup;
}

const NameSpace& names_of(const ClientCore& client, std::string_view group) noexcept {
  static const NameSpace none;
  return is_internal(group) ? none : client.names();
}

Result<void> check(const ProducerOptions& o) {
  if (auto r = check_group(o.group); !r) {
    return r;
  }
  if (o.group == "DEFAULT_PRODUCER") {
    return make_error(Errc::kInvalidArgument,
                      "producerGroup can not equal DEFAULT_PRODUCER, please specify another one.");
  }
  if (o.send_timeout.count() <= 0) {
    return make_error(Errc::kInvalidArgument, "send_timeout must be positive");
  }
  if (o.retries < 0 || o.retries_async < 0) {
    return make_error(Errc::kInvalidArgument, "retries and retries_async must not be negative");
  }
  if (o.max_body_bytes == 0 || o.default_topic_queues < 1) {
    return make_error(Errc::kInvalidArgument,
                      "max_body_bytes and default_topic_queues must be positive");
  }
  if (o.in_flight_max == 0 || o.in_flight_max_bytes == 0) {
    return make_error(Errc::kInvalidArgument,
                      "in_flight_max and in_flight_max_bytes must be positive");
  }
  return check_topic(o.create_topic_key);
}

}  // namespace

Result<std::shared_ptr<ProducerCore>> ProducerCore::create(ClientCore& client,
                                                           ProducerOptions options) {
  if (options.group.empty()) {
    options.group = "tenon_producer";
  }
  options.group = names_of(client, options.group).wrap(options.group);
  if (options.selector.empty() && options.fault_tolerance == FaultTolerance::kOff) {
    options.selector = client.options().selector;
  }
  if (auto r = check(options); !r) {
    return std::move(r).error();
  }
  std::shared_ptr<ProducerCore> made(new ProducerCore(client, std::move(options)));
  if (!made->options_.selector.empty()) {
    auto selector = client.plugins().selector(made->options_.selector);
    if (!selector) {
      return std::move(selector).error();
    }
    made->selector_ = std::move(*selector);
  } else if (made->options_.fault_tolerance != FaultTolerance::kOff) {
    made->faults_ = std::make_unique<LatencyFaults>(made->options_.fault_tolerance);
  }
  return made;
}

ProducerCore::ProducerCore(ClientCore& client, ProducerOptions options)
    : client_(client),
      names_(names_of(client, options.group)),
      options_(std::move(options)),
      shown_group_(names_.unwrap(options_.group)),
      lane_(client.next_lane()),
      tracer_(is_internal(options_.group) ? nullptr : client.tracer()) {}

TopicSlotPtr ProducerCore::find_slot(std::string_view topic) const {
  const std::shared_lock lock(slots_mutex_);
  const auto it = slots_.find(topic);
  return it == slots_.end() ? nullptr : it->second;
}

TopicSlotPtr ProducerCore::make_slot(const TopicInfoPtr& info) {
  auto slot = std::make_shared<TopicSlot>();
  slot->info = info;
  slot->heads.reserve(info->brokers.size());
  for (const TopicInfo::Broker& b : info->brokers) {
    slot->heads.emplace_back(client_.options().header_encoding,
                             options_.group,
                             info->topic,
                             options_.create_topic_key,
                             options_.default_topic_queues,
                             b.name);
  }
  slot->queues.reserve(info->publish.size());
  for (std::size_t i = 0; i < info->publish.size(); ++i) {
    slot->queues.push_back(names_.unwrap(info->queue_at(i)));
  }
  slot->several_brokers =
      std::any_of(info->publish.begin(), info->publish.end(), [&](const auto& queue) {
        return queue.broker != info->publish.front().broker;
      });
  if (selector_) {
    slot->plugin_set = std::make_unique<SelectorPlugin::QueueSet>(
        selector_, info, generation_.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  const std::unique_lock lock(slots_mutex_);
  TopicSlotPtr& known = slots_[info->topic];
  slot->counter.store(known ? known->counter.load() : std::random_device()() & 0x7fff'ffffu);
  known = slot;
  return slot;
}

void ProducerCore::on_route(const TopicInfoPtr& info) {
  if (find_slot(info->topic)) {
    make_slot(info);
  }
}

void ProducerCore::collect_topics(std::set<std::string>& out) const {
  const std::shared_lock lock(slots_mutex_);
  for (const auto& [topic, slot] : slots_) {
    out.insert(topic);
  }
}

Result<void> ProducerCore::check_options(const Message& m, const SendOptions& how) const {
  if (how.queue != nullptr && how.queue->topic != m.topic &&
      names_.wrap(how.queue->topic) != names_.wrap(m.topic)) {
    return make_error(Errc::kInvalidArgument, "message's topic not equal mq's topic");
  }
  if (how.timeout.count() < 0) {
    return make_error(Errc::kInvalidArgument, "timeout must not be negative");
  }
  return {};
}

/// Trap: the limits hold for the name with the namespace (client §1.3).
Result<std::string> ProducerCore::wire_topic(std::string_view topic) const {
  std::string wire = names_.wrap(topic);
  if (auto r = check_topic(wire); !r) {
    return std::move(r).error();
  }
  return wire;
}

SendOp* ProducerCore::begin(SendForm form,
                            std::string_view topic,
                            Callback done,
                            std::chrono::milliseconds timeout,
                            std::size_t body_bytes) {
  SendOp* op = pool_.acquire();
  in_flight_.fetch_add(1, std::memory_order_acq_rel);
  bytes_in_flight_.fetch_add(body_bytes, std::memory_order_relaxed);
  op->counted_bytes = body_bytes;
  op->producer = this;
  op->keep = shared_from_this();
  op->done = std::move(done);
  op->topic = topic;
  if (!names_.empty()) {
    op->shown_topic = names_.unwrap(topic);
  }
  op->form = form;
  op->begin_ns = client_.clock().mono_ns();
  op->deadline_ns = op->begin_ns + static_cast<std::uint64_t>(timeout.count() > 0
                                                                  ? timeout.count()
                                                                  : options_.send_timeout.count()) *
                                       1'000'000;
  op->header.oneway = form == SendForm::kOneway;
  op->header.born_ms = client_.now_ms();
  op->state.store(SendOp::kActive);
  return op;
}

Result<void> ProducerCore::check_room(std::size_t body_bytes) const {
  if (in_flight_.load(std::memory_order_relaxed) >= options_.in_flight_max) {
    return make_error(Errc::kBusy,
                      "in_flight_max (" + std::to_string(options_.in_flight_max) +
                          ") messages wait for their answers");
  }
  const std::size_t bytes = bytes_in_flight_.load(std::memory_order_relaxed);
  if (bytes > 0 && bytes + body_bytes > options_.in_flight_max_bytes) {
    return make_error(Errc::kBusy,
                      "in_flight_max_bytes (" + std::to_string(options_.in_flight_max_bytes) +
                          "): messages of " + std::to_string(bytes) +
                          " bytes wait for their answers");
  }
  return {};
}

Result<void> ProducerCore::fill(SendOp& op, Message&& message) {
  op.id.resize(kMessageIdChars);
  client_.message_ids().next(op.header.born_ms, op.id.data());
  put_properties(op.properties, message, op.id);
  put_property(op.properties, proto::prop::kInstanceId, names_.name());
  if (auto r = check_properties_size(op.properties.size()); !r) {
    return r;
  }
  op.header.flag = message.flag;
  if (!op.extra_properties.empty()) {
    op.properties += proto::kPropertySeparator;
    op.properties += op.extra_properties;
    if (auto r = check_properties_size(op.properties.size()); !r) {
      return r;
    }
  }
  op.header.properties = op.properties;
  op.body = std::move(message.body);
  // Trap: compressed once, from the original body; attempts send the same bytes (client §4.4).
  op.header.sys_flag = compress_body(op.body, options_) | op.extra_flags;
  return {};
}

void ProducerCore::start(Message message,
                         Callback done,
                         const SendOptions& how,
                         SendForm form,
                         const SendExtras* extras) {
  Result<void> checked = check_message(message, options_.max_body_bytes);
  if (checked) {
    checked = check_options(message, how);
  }
  if (checked && stopped_.load()) {
    checked = make_error(Errc::kCancelled, "the producer is closed");
  }
  if (checked && !options_.hooks.empty()) {
    checked = check_hooks(message);
  }
  if (checked && form == SendForm::kAsync) {
    checked = check_room(message.body.size());
  }
  std::string_view topic = message.topic;
  Result<std::string> wire = std::string();
  // Trap: a reply goes to a topic of the broker, which is in no namespace.
  if (checked && !names_.empty() && (extras == nullptr || !extras->reply)) {
    wire = wire_topic(message.topic);
    if (wire) {
      topic = *wire;
    } else {
      checked = std::move(wire).error();
    }
  }
  if (!checked) {
    done(std::move(checked).error());
    return;
  }
  SendOp* op = begin(form, topic, std::move(done), how.timeout, message.body.size());
  op->sharding_key = how.sharding_key;
  if (extras != nullptr) {
    op->extra_properties = extras->properties;
    op->extra_flags = extras->sys_flag;
    op->header.reply = extras->reply;
  }
  op->slot = find_slot(op->topic);
  if (how.queue != nullptr) {
    op->fixed_queue = true;
    op->fixed_broker = how.queue->broker;
    op->header.queue_id = how.queue->id;
  } else if (how.select != nullptr) {
    // Trap: another queue on a retry would break the order that selectors are for (client §4.7).
    op->fixed_queue = true;
    op->deferred =
        std::make_unique<SendOp::Deferred>(SendOp::Deferred{std::move(message), *how.select});
    launch(op);
    return;
  }
  if (auto r = fill(*op, std::move(message)); !r) {
    complete(op, std::move(r).error());
    return;
  }
  op->by_key = how.queue == nullptr && !how.sharding_key.empty() && !selector_;
  launch(op);
}

void ProducerCore::launch(SendOp* op) {
  if (stopped_.load()) {
    // stop() may have looked before this one was active.
    complete(op, make_error(Errc::kCancelled, "the producer is closed"));
    return;
  }
  if (!op->slot) {
    resolve(op);
  } else if (op->deferred) {
    choose_by_callable(op);
  } else {
    attempt(op);
  }
}

void ProducerCore::choose_by_callable(SendOp* op) {
  const auto deferred = std::move(op->deferred);
  int index = -1;
  std::string reason = "select message queue return null";
  try {
    index = deferred->select(op->slot->queues, deferred->message);
  } catch (const std::exception& e) {
    reason = std::string("select message queue threw exception: ") + e.what();
  } catch (...) {
    reason = "select message queue threw exception";
  }
  if (index < 0 || static_cast<std::size_t>(index) >= op->slot->queues.size()) {
    complete(op, make_error(Errc::kInvalidArgument, std::move(reason)));
    return;
  }
  const Queue& queue = op->slot->queues[static_cast<std::size_t>(index)];
  op->fixed_broker = queue.broker;
  op->header.queue_id = queue.id;
  if (auto r = fill(*op, std::move(deferred->message)); !r) {
    complete(op, std::move(r).error());
    return;
  }
  attempt(op);
}

Result<Receipt> ProducerCore::send(Message message,
                                   const SendOptions& how,
                                   const SendExtras* extras) {
  if (client_.on_own_thread()) {
    return make_error(Errc::kInvalidArgument,
                      "a blocking send on an I/O thread would wait for itself");
  }
  return wait_for([&](Callback done) {
    start(std::move(message), std::move(done), how, SendForm::kBlocking, extras);
  });
}

Result<void> ProducerCore::send_oneway(Message message, const SendOptions& how) {
  auto r = wait_for(
      [&](Callback done) { start(std::move(message), std::move(done), how, SendForm::kOneway); });
  if (!r) {
    return std::move(r).error();
  }
  return {};
}

Result<Receipt> ProducerCore::send_raw(RawMessage raw) {
  return wait_for([&](Callback done) {
    if (stopped_.load()) {
      done(make_error(Errc::kCancelled, "the producer is closed"));
      return;
    }
    SendOp* op = begin(
        SendForm::kBlocking, raw.topic, std::move(done), options_.send_timeout, raw.body.size());
    op->slot = find_slot(op->topic);
    op->id = std::move(raw.id);
    op->properties = std::move(raw.properties);
    op->body = std::move(raw.body);
    op->header.properties = op->properties;
    op->header.sys_flag = raw.sys_flag;
    op->header.flag = raw.flag;
    op->header.reconsume_times = raw.reconsume_times;
    op->header.max_reconsume_times = raw.max_reconsume_times;
    launch(op);
  });
}

Result<std::string> ProducerCore::encode_chunk(std::span<Message> messages,
                                               std::size_t& taken,
                                               std::string& ids) {
  std::string body;
  taken = 0;
  for (const Message& m : messages) {
    if (auto r = check_message(m, options_.max_body_bytes); !r) {
      return std::move(r).error();
    }
    if (auto r = check_hooks(m); !r) {
      return std::move(r).error();
    }
    std::string id(kMessageIdChars, '0');
    client_.message_ids().next(client_.now_ms(), id.data());
    std::string properties;
    put_properties(properties, m, id);
    if (auto r = check_properties_size(properties.size()); !r) {
      return std::move(r).error();
    }
    constexpr std::size_t kEntryHead = 22;
    if (body.size() + kEntryHead + m.body.size() + properties.size() > options_.max_body_bytes) {
      if (taken == 0) {
        return make_error(Errc::kMessageIllegal,
                          "the message body size over max value, MAX: " +
                              std::to_string(options_.max_body_bytes));
      }
      break;
    }
    proto::append_batch_entry(body, m.flag, m.body, properties);
    if (taken > 0) {
      ids += ',';
    }
    ids += id;
    ++taken;
  }
  return body;
}

Result<std::vector<Receipt>> ProducerCore::send_batch(std::span<Message> messages,
                                                      const SendOptions& how,
                                                      std::vector<Receipt>* sent) {
  if (messages.empty()) {
    return make_error(Errc::kInvalidArgument, "a batch needs at least one message");
  }
  for (const Message& m : messages) {
    if (m.delay_level > 0 || m.delay.count() > 0 || m.deliver_at) {
      return make_error(Errc::kInvalidArgument, "TimeDelayLevel is not supported for batching");
    }
    if (m.topic.starts_with("%RETRY%")) {
      return make_error(Errc::kInvalidArgument, "Retry Group is not supported for batching");
    }
    if (m.topic != messages.front().topic) {
      return make_error(Errc::kInvalidArgument,
                        "The topic of the messages in one batch should be the same");
    }
    if (m.wait_store_ok != messages.front().wait_store_ok) {
      return make_error(Errc::kInvalidArgument,
                        "The waitStoreMsgOK of the messages in one batch should the same");
    }
  }
  if (auto r = check_options(messages.front(), how); !r) {
    return std::move(r).error();
  }
  auto topic = wire_topic(messages.front().topic);
  if (!topic) {
    return std::move(topic).error();
  }
  std::vector<Receipt> receipts;
  while (!messages.empty()) {
    std::size_t taken = 0;
    std::string ids;
    auto body = encode_chunk(messages, taken, ids);
    if (!body) {
      return std::move(body).error();
    }
    auto receipt = wait_for([&](Callback done) {
      SendOp* op = begin(SendForm::kBlocking, *topic, std::move(done), how.timeout, body->size());
      op->slot = find_slot(op->topic);
      op->id = std::move(ids);
      put_property(
          op->properties, proto::prop::kWait, messages.front().wait_store_ok ? "true" : "false");
      put_property(op->properties, proto::prop::kInstanceId, names_.name());
      op->header.properties = op->properties;
      op->header.batch = true;
      op->body = std::move(*body);
      if (how.queue != nullptr) {
        op->fixed_queue = true;
        op->fixed_broker = how.queue->broker;
        op->header.queue_id = how.queue->id;
      }
      launch(op);
    });
    if (!receipt) {
      return std::move(receipt).error();
    }
    if (sent != nullptr) {
      sent->push_back(*receipt);
    }
    receipts.push_back(std::move(*receipt));
    messages = messages.subspan(taken);
  }
  return receipts;
}

Result<std::vector<Queue>> ProducerCore::queues(std::string_view topic) {
  auto wire = wire_topic(topic);
  if (!wire) {
    return std::move(wire).error();
  }
  auto info = client_.routes().resolve_blocking(
      *wire, options_.create_topic_key, options_.default_topic_queues);
  if (!info) {
    return std::move(info).error();
  }
  std::vector<Queue> out;
  for (std::size_t i = 0; i < (*info)->publish.size(); ++i) {
    out.push_back(names_.unwrap((*info)->queue_at(i)));
  }
  return out;
}

/// The caller has counted it in running_.
void ProducerCore::run_callback(Callback done, Result<Receipt> result) {
  if (done) {  // the caller of a one-way send may have returned long ago
    const InsideCallback inside(this);
    try {
      done(std::move(result));
    } catch (const std::exception& e) {
      log_error("sdk", "a send callback threw what=\"{}\"", e.what());
    } catch (...) {
      log_error("sdk", "a send callback threw");
    }
    done.reset();
  }
  running_.fetch_sub(1);
}

void ProducerCore::complete(SendOp* op, Result<Receipt> result) {
  std::uint8_t expected = SendOp::kActive;
  if (!op->state.compare_exchange_strong(expected, SendOp::kCompleting)) {
    release(op);  // stop() has told the caller already
    return;
  }
  const std::shared_ptr<ProducerCore> keep = op->keep;
  Callback done = std::move(op->done);
  const Executor& executor = client_.options().executor;
  const bool direct = op->form != SendForm::kAsync || !executor;
  running_.fetch_add(1);
  op->state.store(SendOp::kDone);
  release(op);
  if (direct) {
    run_callback(std::move(done), std::move(result));
    return;
  }
  struct Posted {
    Callback done;
    Result<Receipt> result;
  };
  auto posted = std::make_shared<Posted>(Posted{std::move(done), std::move(result)});
  executor(
      [keep, posted] { keep->run_callback(std::move(posted->done), std::move(posted->result)); });
}

void ProducerCore::release(SendOp* op) {
  while (op->state.load(std::memory_order_acquire) == SendOp::kCompleting) {
    pause_briefly();  // stop() is taking the callback out
  }
  const std::shared_ptr<ProducerCore> keep = std::move(op->keep);
  bytes_in_flight_.fetch_sub(op->counted_bytes, std::memory_order_relaxed);
  op->reset();
  op->state.store(SendOp::kFree);
  pool_.release(op);
  in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

void ProducerCore::stop() {
  stopped_.store(true);
  cancel_requests();
  std::vector<Callback> cancelled;
  pool_.for_each([&](SendOp& op) {
    std::uint8_t expected = SendOp::kActive;
    if (op.state.compare_exchange_strong(expected, SendOp::kCompleting)) {
      cancelled.push_back(std::move(op.done));
      op.state.store(SendOp::kDone);
    }
  });
  for (Callback& done : cancelled) {
    Error e = make_error(Errc::kCancelled, "the producer was closed");
    e.outcome_unknown = true;
    running_.fetch_add(1);
    run_callback(std::move(done), std::move(e));
  }
  while (running_.load() > InsideCallback::depth(this)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kWaitStepMs));
  }
}

bool ProducerCore::drain(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (in_flight_.load() > 0 || running_.load() > InsideCallback::depth(this)) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kWaitStepMs));
  }
  return true;
}

}  // namespace tenon::sdk::detail
