#include "fake_cluster.h"
#include "fake_connection.h"
#include "transaction_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::TransactionCore;
using proto::RequestCode;

namespace {

Message payment() {
  Message m;
  m.topic = "T";
  m.body = "paid";
  return m;
}

struct Fixture {
  explicit Fixture(TransactionOptions options = {}) {
    cluster.add_topic("T", {"a"}, 1);
    client = cluster.client();
    options.producer.group = "pay";
    core = TransactionCore::create(
               *client,
               std::move(options),
               [this](const Message& m, const Receipt& half) {
                 ++executed;
                 executed_id = half.id;
                 if (m.tag == "throw") {
                   throw std::runtime_error("ledger closed");
                 }
                 return local;
               },
               [this](const MessageView& m) {
                 ++checked;
                 if (m.body() == "throw") {
                   throw std::runtime_error("no ledger");
                 }
                 return local;
               })
               .value();
    client->add(core->producer()).value();
    client->add(core);
  }
  ~Fixture() { core->stop(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::vector<Request> ends() {
    std::vector<Request> out;
    eventually([&] {
      out = cluster.requests(RequestCode::kEndTransaction);
      return !out.empty();
    });
    return out;
  }
  static proto::Command check(const std::string& body, const std::string& group) {
    proto::Command c;
    c.code = RequestCode::kCheckTransactionState;
    c.flag = proto::kFlagOneway;
    c.set("tranStateTableOffset", std::int64_t{7}).set("commitLogOffset", std::int64_t{777});
    c.set("msgId", std::string_view("mid")).set("transactionId", std::string_view("tid"));
    const std::string properties = "PGROUP\x01" + group + "\x02UNIQ_KEY\x01unique";
    proto::MessageRecord r;
    r.topic = "T";
    r.body = tenon::as_bytes(body);
    r.properties = properties;
    c.body.resize(proto::encoded_message_bytes(r));
    proto::encode_message(r, reinterpret_cast<std::byte*>(c.body.data()));
    return c;
  }

  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  TxState local = TxState::kCommit;
  std::atomic<int> executed{0};
  std::atomic<int> checked{0};
  std::string executed_id;
  std::shared_ptr<TransactionCore> core;
};

}  // namespace

TEST_SUITE("sdk/transaction") {
  TEST_CASE(
      "a half message, the local transaction, then the end: flags 8, 12, 0") {  // client §14.26
    const std::pair<TxState, const char*> cases[] = {
        {TxState::kCommit, "8"}, {TxState::kRollback, "12"}, {TxState::kUnknown, "0"}};
    for (const auto& [state, wire] : cases) {
      CAPTURE(wire);
      Fixture f;
      f.local = state;
      const auto r = f.core->send(payment(), {});
      REQUIRE(r.has_value());
      CHECK(r->local == state);
      CHECK(f.executed.load() == 1);
      CHECK(f.executed_id == r->send.id);
      const auto half = f.cluster.stored({"T", "a", 0}).at(0);
      CHECK((half.sys_flag & 4) == 4);
      CHECK(proto::find_property(half.properties, "TRAN_MSG") == "true");
      CHECK(proto::find_property(half.properties, "PGROUP") == "pay");
      const auto ends = f.ends();
      REQUIRE(ends.size() == 1);
      const proto::Command& end = ends[0].command;
      CHECK(ends[0].oneway);
      CHECK(ends[0].address == "a:10911");
      CHECK(end.field("commitOrRollback") == std::string_view(wire));
      CHECK(end.field("producerGroup") == "pay");
      CHECK(end.field("tranStateTableOffset") == "0");
      CHECK(end.field("commitLogOffset") == "0");  // of offset id 0A00…0000
      CHECK(end.field("fromTransactionCheck") == "false");
      CHECK(end.field("msgId") == std::string_view(r->send.id));
      CHECK(end.field("bname") == "a");
    }
  }

  TEST_CASE(
      "stored less safely than promised: no local transaction, rolled back") {  // client §14.26
    for (const int status : {10, 11, 12}) {
      Fixture f;
      f.cluster.set_hook([status](const Request& r) -> std::optional<Outcome> {
        if (r.command.code != RequestCode::kSendMessageV2) {
          return std::nullopt;
        }
        Outcome o = Outcome::code(status);
        o.answer->set("msgId", std::string_view("0A00000100002A9F0000000000001234"));
        o.answer->set("queueId", std::int64_t{0}).set("queueOffset", std::int64_t{5});
        return o;
      });
      const auto r = f.core->send(payment(), {});
      REQUIRE(r.has_value());
      CHECK(r->local == TxState::kRollback);
      CHECK(f.executed.load() == 0);
      const auto ends = f.ends();
      REQUIRE(ends.size() == 1);
      CHECK(ends[0].command.field("commitOrRollback") == "12");
      CHECK(ends[0].command.field("commitLogOffset") == "4660");
      CHECK(ends[0].command.field("tranStateTableOffset") == "5");
    }
  }

  TEST_CASE("an exception means unknown, the broker is told why") {
    Fixture f;
    Message m = payment();
    m.tag = "throw";
    CHECK(f.core->send(m, {}).value().local == TxState::kUnknown);
    const auto ends = f.ends();
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].command.field("commitOrRollback") == "0");
    CHECK(ends[0].command.remark == "executeLocalTransactionBranch exception: ledger closed");
  }

  TEST_CASE("a half message that is not stored: no local transaction, no end") {
    Fixture f;
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 ? std::optional(Outcome::code(13))
                                                           : std::nullopt;
    });
    CHECK(f.core->send(payment(), {}).error().response == 13);
    CHECK(f.executed.load() == 0);
    CHECK(f.cluster.requests(RequestCode::kEndTransaction).empty());
  }

  TEST_CASE("with a callback the local transaction runs off the I/O threads") {
    Fixture f;
    std::atomic<int> calls{0};
    f.core->start(payment(),
                  [&](Result<TransactionReceipt> r) {
                    CHECK(r.value().local == TxState::kCommit);
                    CHECK_FALSE(f.client->on_own_thread());
                    ++calls;
                  },
                  {});
    CHECK(eventually([&] { return calls.load() == 1; }));
    CHECK(f.ends().size() == 1);
  }

  TEST_CASE(
      "a check is answered to whoever asks, with fromTransactionCheck") {  // client §14.26, §11 L12
    const std::pair<TxState, const char*> cases[] = {
        {TxState::kCommit, "8"}, {TxState::kRollback, "12"}, {TxState::kUnknown, "0"}};
    for (const auto& [state, wire] : cases) {
      Fixture f;
      f.local = state;
      const proto::Command end = ask(*f.client, Fixture::check("paid", "pay"));
      CHECK(f.checked.load() == 1);
      CHECK(end.code == RequestCode::kEndTransaction);
      CHECK(end.flag == proto::kFlagOneway);
      CHECK(end.field("commitOrRollback") == std::string_view(wire));
      CHECK(end.field("fromTransactionCheck") == "true");
      CHECK(end.field("tranStateTableOffset") == "7");
      CHECK(end.field("commitLogOffset") == "777");
      CHECK(end.field("msgId") == "unique");
      CHECK(end.field("transactionId") == "tid");
      CHECK(end.field("producerGroup") == "pay");
      CHECK(f.cluster.requests(RequestCode::kEndTransaction).empty());
    }
  }

  TEST_CASE("two groups in one client: a check goes to the group of the message") {
    Fixture f;  // Trap: client §4.13
    std::atomic<int> other{0};
    TransactionOptions options;
    options.producer.group = "other";
    const auto second = TransactionCore::create(
                            *f.client,
                            options,
                            [](const Message&, const Receipt&) { return TxState::kCommit; },
                            [&](const MessageView&) {
                              ++other;
                              return TxState::kRollback;
                            })
                            .value();
    f.client->add(second->producer()).value();
    f.client->add(second);
    CHECK(ask(*f.client, Fixture::check("paid", "other")).field("commitOrRollback") == "12");
    CHECK(other.load() == 1);
    CHECK(f.checked.load() == 0);
    CHECK(ask(*f.client, Fixture::check("paid", "nobody"), 0ms).code == -1);
    second->stop();
  }

  TEST_CASE("a check that throws is unknown, with the reason") {
    Fixture f;
    const proto::Command end = ask(*f.client, Fixture::check("throw", "pay"));
    CHECK(end.field("commitOrRollback") == "0");
    CHECK(end.remark == "checkLocalTransactionState Exception: no ledger");
  }

  TEST_CASE("a delay is refused; options are checked; the first check can wait") {
    TransactionOptions options;
    options.first_check_after = 90s;
    Fixture f(options);
    Message m = payment();
    m.delay_level = 1;
    CHECK(f.core->send(m, {}).error().is(Errc::kInvalidArgument));
    m.delay_level = 0;
    f.core->send(m, {}).value();
    CHECK(proto::find_property(f.cluster.stored({"T", "a", 0}).at(0).properties,
                               "CHECK_IMMUNITY_TIME_IN_SECONDS") == "90");
    options.threads = 0;
    CHECK(TransactionCore::create(*f.client, options, {}, {}).error().is(Errc::kInvalidArgument));
  }
}
