#include "transaction_core.h"

#include "errors.h"
#include "guarded_hook.h"
#include "message_text.h"
#include "trace.h"

#include "tenon/base/log.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

namespace tenon::sdk::detail {
namespace {

constexpr std::size_t kThreadsMax = 64;

std::int64_t wire_state(TxState state) noexcept {
  switch (state) {
    case TxState::kCommit:
      return proto::sys_flag::kTransactionCommit;
    case TxState::kRollback:
      return proto::sys_flag::kTransactionRollback;
    case TxState::kUnknown:
      break;
  }
  return 0;
}

/// A send whose local transaction runs later. Calls back exactly once, also if it never does.
struct Pending {
  Pending(Message m, TransactionProducer::Callback d)
      : message(std::move(m)),
        done(std::move(d)) {}
  ~Pending() {
    if (!called) {
      Error e = make_error(Errc::kCancelled, "the producer was closed");
      e.outcome_unknown = true;
      call(std::move(e));
    }
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  void call(Result<TransactionReceipt> r) {
    called = true;
    try {
      done(std::move(r));
    } catch (...) {
      log_error("sdk", "a send callback threw");
    }
  }
  Message message;
  TransactionProducer::Callback done;
  bool called = false;
};

}  // namespace

Result<std::shared_ptr<TransactionCore>> TransactionCore::create(ClientCore& client,
                                                                 TransactionOptions options,
                                                                 Execute execute,
                                                                 CheckListener check) {
  if (options.threads == 0 || options.threads > kThreadsMax) {
    return make_error(Errc::kInvalidArgument, "threads must be 1 to 64");
  }
  if (options.first_check_after.count() < 0) {
    return make_error(Errc::kInvalidArgument, "first_check_after must not be negative");
  }
  auto producer = ProducerCore::create(client, options.producer);
  if (!producer) {
    return std::move(producer).error();
  }
  std::shared_ptr<TransactionCore> made(
      new TransactionCore(client, std::move(options), std::move(execute), std::move(check)));
  made->producer_ = std::move(*producer);
  made->shown_group_ = client.names().unwrap(made->group());
  made->pool_ = std::make_shared<ListenerPool>(
      made->options_.threads,
      1,
      Executor(),
      [](const std::shared_ptr<void>&, std::span<const MessageView>) {});
  return made;
}

TransactionCore::TransactionCore(ClientCore& client,
                                 TransactionOptions options,
                                 Execute execute,
                                 CheckListener check)
    : client_(client),
      options_(std::move(options)),
      execute_(std::move(execute)),
      check_(std::move(check)) {}

Result<void> TransactionCore::check_sendable_half(const Message& m) const {
  // Trap: a broker would drop the delay silently (client §4.13).
  if (m.delay_level != 0 || m.delay.count() != 0 || m.deliver_at) {
    return make_error(Errc::kInvalidArgument, "a transactional message cannot be delayed");
  }
  return {};
}

SendExtras TransactionCore::extras() const {
  SendExtras out;
  put_property(out.properties, proto::prop::kTransactionPrepared, "true");
  put_property(out.properties, proto::prop::kProducerGroup, group());
  if (options_.first_check_after.count() > 0) {
    put_property(out.properties,
                 "CHECK_IMMUNITY_TIME_IN_SECONDS",
                 std::to_string(options_.first_check_after.count()));
  }
  out.sys_flag = proto::sys_flag::kTransactionPrepared;
  return out;
}

Result<TransactionReceipt> TransactionCore::send(Message message, const SendOptions& how) {
  if (auto r = check_sendable_half(message); !r) {
    return std::move(r).error();
  }
  const SendExtras extra = extras();
  auto half = producer_->send(message, how, &extra);
  if (!half) {
    return std::move(half).error();
  }
  return finish(message, std::move(*half));
}

void TransactionCore::start(Message message,
                            TransactionProducer::Callback done,
                            const SendOptions& how) {
  if (auto r = check_sendable_half(message); !r) {
    done(std::move(r).error());
    return;
  }
  auto pending = std::make_shared<Pending>(message, std::move(done));
  const SendExtras extra = extras();
  producer_->start(
      std::move(message),
      [self = shared_from_this(), pending](Result<Receipt> half) {
        if (!half) {
          pending->call(std::move(half).error());
          return;
        }
        // The local transaction may block: not on this thread.
        auto receipt = std::make_shared<Receipt>(std::move(*half));
        self->waiting_.fetch_add(1);
        const bool posted = self->pool_->post([self, pending, receipt] {
          self->waiting_.fetch_sub(1);
          pending->call(self->finish(pending->message, std::move(*receipt)));
        });
        if (!posted) {
          self->waiting_.fetch_sub(1);
        }
      },
      how,
      SendForm::kAsync,
      &extra);
}

TransactionReceipt TransactionCore::finish(const Message& message, Receipt half) {
  make_known(message.topic);
  TransactionReceipt out;
  std::string remark;
  if (half.durable()) {
    try {
      out.local = execute_(message, half);
    } catch (const std::exception& e) {
      remark = std::string("executeLocalTransactionBranch exception: ") + e.what();
    } catch (...) {
      remark = "executeLocalTransactionBranch exception";
    }
  } else {
    out.local = TxState::kRollback;
  }
  end(message, half, out.local, remark);
  out.send = std::move(half);
  return out;
}

/// The brokers of a topic have to know this group before they ask it.
void TransactionCore::make_known(const std::string& topic) {
  bool fresh = false;
  {
    const std::scoped_lock lock(mutex_);
    fresh = known_topics_.insert(topic).second;
  }
  if (fresh) {
    client_.heartbeat_soon();
  }
}

proto::Command TransactionCore::end_request(TxState state) const {
  proto::Command c = make_request(proto::RequestCode::kEndTransaction);
  c.set("producerGroup", group());
  c.set("commitOrRollback", wire_state(state));
  return c;
}

/// Nobody confirms it: a lost one is made up for by a check.
void TransactionCore::end(const Message& message,
                          const Receipt& half,
                          TxState state,
                          const std::string& remark) {
  const auto id = proto::parse_offset_message_id(half.offset_id);
  const std::string address = client_.routes().address(half.queue.broker, 0, true);
  if (id.has_error() || address.empty()) {
    log_warn("sdk", "transaction not ended, the broker will ask id={}", half.id);
    return;
  }
  proto::Command c = end_request(state);
  c.set("tranStateTableOffset", half.queue_offset);
  c.set("commitLogOffset", id.value().phys_offset);
  c.set("fromTransactionCheck", std::string_view("false"));
  c.set("msgId", half.id);
  if (!half.transaction_id.empty()) {
    c.set("transactionId", half.transaction_id);
  }
  c.set("topic", client_.names().wrap(half.queue.topic));
  c.set("bname", half.queue.broker);
  c.remark = remark;
  std::string keys;
  for (const std::string& key : message.keys) {
    keys += (keys.empty() ? "" : " ") + key;
  }
  TransactionEnd told;
  told.group = shown_group_;
  told.topic = half.queue.topic;
  told.id = half.id;
  told.transaction_id = half.transaction_id;
  told.tag = message.tag;
  told.keys = keys;
  told.broker = half.queue.broker;
  told.state = state;
  see(told, trace_log().get(), address, half.region);
  client_.calls().oneway(address, std::move(c));
}

std::shared_ptr<TraceLog> TransactionCore::trace_log() const {
  Tracer* const tracer = client_.tracer();
  return tracer == nullptr ? nullptr : tracer->log;
}

void TransactionCore::see(const TransactionEnd& end,
                          TraceLog* log,
                          std::string_view address,
                          std::string_view region) const {
  if (log != nullptr && log->traces(end.topic)) {
    log->ended(end, address, region);
  }
  if (options_.on_end) {
    guarded_hook([&] { options_.on_end(end); });
  }
}

void TransactionCore::on_check(Check check, std::function<void(proto::Command)> answer) {
  if (waiting_.load() >= options_.waiting_max) {
    log_warn("sdk", "transaction check dropped, too many are waiting group={}", group());
    return;
  }
  waiting_.fetch_add(1);
  auto shared = std::make_shared<Check>(std::move(check));
  const bool posted = pool_->post([self = shared_from_this(), shared, answer = std::move(answer)] {
    self->waiting_.fetch_sub(1);
    const auto log = self->trace_log();  // check() may end the producer
    TxState state = TxState::kUnknown;
    std::string remark;
    try {
      state = self->check_(shared->message);
    } catch (const std::exception& e) {
      remark = std::string("checkLocalTransactionState Exception: ") + e.what();
    } catch (...) {
      remark = "checkLocalTransactionState Exception";
    }
    proto::Command c = self->end_request(state);
    c.set("tranStateTableOffset", shared->table_offset);
    c.set("commitLogOffset", shared->log_offset);
    c.set("fromTransactionCheck", std::string_view("true"));
    const auto unique = shared->message.property(proto::prop::kUniqKey);
    c.set("msgId", unique ? *unique : std::string_view(shared->message_id));
    c.set("transactionId", shared->transaction_id);
    c.set("topic", self->client_.names().wrap(shared->message.topic()));
    c.set("bname", shared->message.broker());
    c.remark = remark;
    const MessageView& m = shared->message;
    const std::string id = m.id();
    TransactionEnd told;
    told.group = self->shown_group_;
    told.topic = m.topic();
    told.id = id;
    told.transaction_id = shared->transaction_id;
    told.tag = m.tag();
    told.keys = m.keys();
    told.broker = m.broker();
    told.state = state;
    told.from_check = true;
    self->see(told, log.get(), m.store_host(), m.property(proto::prop::kMsgRegion).value_or(""));
    answer(std::move(c));
  });
  if (!posted) {
    waiting_.fetch_sub(1);
  }
}

void TransactionCore::stop() {
  producer_->stop();
  pool_->stop();
}

}  // namespace tenon::sdk::detail
