#include "txn_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <utility>

extern "C" const tenon_entry tenon_entry_txn_default;

namespace tenon::broker::test {
namespace {

using std::chrono::milliseconds;
constexpr std::int64_t kRoundMs = 60'000;

}  // namespace

ConfigNode text_node(std::string_view text) {
  ConfigNode n;
  n.value = std::string(text);
  return n;
}

ConfigNode number_node(std::int64_t number) {
  ConfigNode n;
  n.value = number;
  return n;
}

TxnBroker::TxnBroker(TxnBrokerSpec s, std::shared_ptr<TempFolder> folder)
    : spec(std::move(s)),
      folder_(std::move(folder)) {
  start();
}

void TxnBroker::start() {
  options_ = small_store_options();
  registry_ = test_registry();
  REQUIRE(registry_->add_static(&tenon_entry_txn_default).has_value());
  BrokerConfig config = test_config(folder_->path());
  config.name = spec.store_name;
  config.transaction_op_batch_ms = spec.op_batch_ms;
  config.transaction_op_batch_bytes = spec.op_batch_bytes;
  config.reject_transaction_message = spec.reject;
  config.transaction_commit_exhausted = spec.commit_exhausted;
  config.channel_expired_ms = 3'600'000;
  PluginSlots slots;
  slots.storage = {"tenon.store.file", &options_};
  const bool given = std::holds_alternative<ConfigNode::Table>(spec.check.value);
  slots.txn_check = {spec.plugin, given ? &spec.check : nullptr};
  BrokerHooks hooks;
  hooks.clock = clock_.get();
  auto started = Broker::start(config, *registry_, slots, hooks);
  if (started.has_error()) {
    FAIL(started.error().detail);
  }
  broker_ = std::move(started).value();
}

void TxnBroker::restart() {
  broker_.reset();
  registry_.reset();
  start();
}

std::unique_ptr<TxnBroker> TxnBroker::after_sigkill() const {
  auto copy = std::make_shared<TempFolder>();
  std::filesystem::copy(
      folder_->path(),
      copy->path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  return std::make_unique<TxnBroker>(spec, copy);
}

std::string property(std::string_view name, std::string_view value) {
  return std::string(name) + proto::kNameValueSeparator + std::string(value) +
         proto::kPropertySeparator;
}

SentHalf send_half(Client& c, const TxnBroker&, std::int64_t born_ms, const HalfSpec& s) {
  SendSpec spec;
  spec.topic = s.topic;
  spec.queue_id = s.queue_id;
  spec.body = s.body;
  spec.group = s.group;
  spec.sys_flag = proto::sys_flag::kTransactionPrepared;
  spec.properties = property("TRAN_MSG", "true") + property("PGROUP", s.group) +
                    property("UNIQ_KEY", s.uniq_key) + s.more;
  proto::Command command = send_command(spec);
  for (auto& [key, value] : command.fields) {
    if (key == "g") {
      value = std::to_string(born_ms);
    }
  }
  const proto::Command r = c.call(std::move(command));
  REQUIRE_MESSAGE(r.code == 0, r.remark);
  CHECK(long_field(r, "queueId") == s.queue_id);
  const auto id = proto::parse_offset_message_id(text_field(r, "msgId"));
  REQUIRE(id.has_value());
  return {long_field(r, "queueOffset"), id.value().phys_offset};
}

proto::Command end_command(const SentHalf& half, std::int32_t state, std::string_view group) {
  proto::Command c;
  c.code = proto::RequestCode::kEndTransaction;
  c.set("producerGroup", group).set("tranStateTableOffset", half.queue_offset);
  c.set("commitLogOffset", half.phys).set("commitOrRollback", std::int64_t{state});
  c.set("fromTransactionCheck", "false").set("msgId", "0123456789ABCDEF");
  return c;
}

void end(Client& c, const SentHalf& half, std::int32_t state, std::string_view group) {
  const auto r = c.call(end_command(half, state, group));
  CHECK_MESSAGE(r.code == 0, r.remark);
}

void producer_beat(Client& c, std::string_view group) {
  proto::HeartbeatData beat;
  beat.client_id = "producer@" + std::string(group);
  beat.producer_groups.emplace_back(group);
  REQUIRE(c.call(heartbeat_command(beat)).code == 0);
}

proto::MessageView Question::message() const {
  auto m = proto::decode_message(as_bytes(std::string_view(body)));
  REQUIRE(m.has_value());
  return m.value();
}

std::optional<Question> question(Client& c, milliseconds limit) {
  auto notice = c.notice(limit);
  if (!notice) {
    return std::nullopt;
  }
  REQUIRE(notice->code == proto::RequestCode::kCheckTransactionState);
  Question q;
  q.half = {long_field(*notice, "tranStateTableOffset"), long_field(*notice, "commitLogOffset")};
  q.body = notice->body;
  q.command = std::move(*notice);
  return q;
}

Question ask(Client& c, TxnBroker& b, std::string_view group) {
  for (int rounds = 0; rounds < 20; ++rounds) {
    producer_beat(c, group);
    b.clock().advance_ms(kRoundMs);
    if (auto q = question(c, milliseconds(1'000))) {
      return std::move(*q);
    }
  }
  FAIL("no question within twenty rounds");
  return {};
}

QueueContent read_all(Client& c, std::string_view topic, std::int32_t queue_id) {
  QueueContent content;
  PullSpec spec;
  spec.topic = topic;
  spec.queue_id = queue_id;
  content.answer = c.call(pull_command(spec));
  if (content.answer.code == 0) {
    content.messages = messages_of(content.answer);
  }
  return content;
}

std::string body_of(const proto::MessageView& m) {
  return std::string(as_text(m.body));
}

std::string property_of(const proto::MessageView& m, std::string_view name) {
  return std::string(proto::find_property(m.properties, name).value_or(""));
}

}  // namespace tenon::broker::test
