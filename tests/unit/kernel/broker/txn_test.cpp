// Halves, decisions and op records over the network (spec: broker §13.1, §13.2, §23).
#include "txn_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using std::chrono::milliseconds;
using C = proto::RequestCode;

namespace {

std::int64_t committed(Client& c, std::string_view topic) {
  proto::Command r;
  r.code = C::kQueryConsumerOffset;
  r.set("consumerGroup", "CID_RMQ_SYS_TRANS").set("topic", topic).set("queueId", std::int64_t{0});
  return long_field(c.call(r), "offset");
}

}  // namespace

TEST_SUITE("broker/txn") {
  // broker §23.47, store §26.23
  TEST_CASE("a half is invisible until its commit, which carries type and prepared offset") {
    TxnBroker b;
    Client c(b.port());
    HalfSpec spec{.more = property("TAGS", "red") + property("KEYS", "k1") +
                          property("DELAY", "3") + property("WAIT", "true") +
                          property("TRANSACTION_CHECK_TIMES", "14") +
                          property("TRAN_PREPARED_QUEUE_OFFSET", "0")};
    send_half(c, b, b.clock().wall_ms(), {.body = "first"});
    const SentHalf half = send_half(c, b, b.clock().wall_ms(), spec);
    CHECK(half.queue_offset == 1);
    CHECK(read_all(c, "T", 1).messages.empty());

    const auto halves = read_all(c, kHalfTopicName, 0);
    REQUIRE(halves.messages.size() == 2);
    const proto::MessageView& stored = halves.messages[1];
    CHECK(stored.sys_flag == 0);
    CHECK(property_of(stored, "REAL_TOPIC") == "T");
    CHECK(property_of(stored, "REAL_QID") == "1");
    CHECK(property_of(stored, "WAIT") == "true");
    CHECK(property_of(stored, "DELAY") == "");
    CHECK(property_of(stored, "TRANSACTION_CHECK_TIMES") == "");  // only the broker counts
    CHECK(property_of(stored, "TRAN_PREPARED_QUEUE_OFFSET") == "");
    CHECK(stored.phys_offset == half.phys);

    end(c, half, kCommitState);
    const auto content = read_all(c, "T", 1);
    REQUIRE(content.messages.size() == 1);
    const proto::MessageView& m = content.messages[0];
    CHECK((m.sys_flag & proto::sys_flag::kTransactionMask) == kCommitState);
    CHECK(m.prepared_offset == half.phys);
    CHECK(body_of(m) == "half");
    CHECK(m.born_ms == b.clock().wall_ms());
    for (const auto& [name, value] : {std::pair{"REAL_TOPIC", "T"},
                                      {"REAL_QID", "1"},
                                      {"TRAN_MSG", "true"},
                                      {"PGROUP", "PG"},
                                      {"TAGS", "red"},
                                      {"KEYS", "k1"},
                                      {"CLUSTER", "DefaultCluster"}}) {
      CAPTURE(name);
      CHECK(property_of(m, name) == value);
    }
    const auto ops = read_all(c, kOpTopicName, 0);
    REQUIRE(ops.messages.size() == 1);
    CHECK(body_of(ops.messages[0]) == "1");
    CHECK(property_of(ops.messages[0], "TAGS") == "d");
    CHECK(property_of(ops.messages[0], "WAIT") == "true");
    CHECK(property_of(ops.messages[0], "UNIQ_KEY") == "");
  }

  // broker §12.3
  TEST_CASE("a message for a later time is timed when it is committed") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half =
        send_half(c, b, b.clock().wall_ms(), {.more = property("TIMER_DELAY_SEC", "60")});
    CHECK(max_offset(c, kHalfTopicName, 0) == 1);
    CHECK(max_offset(c, "rmq_sys_wheel_timer", 0) == 0);
    b.clock().advance_ms(5'000);
    const std::int64_t committed_ms = b.clock().wall_ms();
    end(c, half, kCommitState);
    end(c, half, kCommitState);  // once more counts for nothing
    CHECK(max_offset(c, kOpTopicName, 0) == 1);
    CHECK(max_offset(c, "T", 1) == 0);
    const auto waiting = read_all(c, "rmq_sys_wheel_timer", 0);
    REQUIRE(waiting.messages.size() == 1);
    CHECK(property_of(waiting.messages[0], "TIMER_OUT_MS") ==
          std::to_string(committed_ms + 60'000 - 1));
    CHECK(waiting.messages[0].prepared_offset == half.phys);
    const auto pull = pull_command(
        {.topic = "T", .queue_id = 1, .offset = 0, .sys_flag = 6, .suspend_ms = 20'000});
    const auto parked = c.send(pull);
    b.clock().advance_ms(61'000);
    const auto delivered = c.receive(parked);
    REQUIRE(delivered.code == 0);
    REQUIRE(messages_of(delivered).size() == 1);
    CHECK(body_of(messages_of(delivered)[0]) == "half");
  }

  TEST_CASE("a timed commit whose op record was lost with the process is not repeated") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half =
        send_half(c, b, b.clock().wall_ms(), {.more = property("TIMER_DELAY_SEC", "600")});
    end(c, half, kCommitState);
    const auto image = b.after_sigkill();
    Client again(image->port());
    end(again, half, kCommitState);
    CHECK(max_offset(again, "rmq_sys_wheel_timer", 0) == 1);
  }

  TEST_CASE("a half that wishes for an impossible time is refused") {
    TxnBroker b;
    Client c(b.port());
    const auto r = c.call(send_command(
        {.properties = property("TRAN_MSG", "true") + property("TIMER_DELAY_SEC", "9999999999")}));
    CHECK(r.code == 13);
    CHECK(max_offset(c, kHalfTopicName, 0) == 0);
  }

  TEST_CASE("a rollback writes an op record and nothing else") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half = send_half(c, b, b.clock().wall_ms());
    end(c, half, kRollbackState);
    CHECK(max_offset(c, "T", 1) == 0);
    CHECK(max_offset(c, kOpTopicName, 0) == 1);
    end(c, half, kCommitState);  // too late
    CHECK(max_offset(c, "T", 1) == 0);
  }

  // broker §23.48
  TEST_CASE("a decision about something else is refused with Java's words") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half = send_half(c, b, b.clock().wall_ms());
    const auto refused = [&](const proto::Command& command, std::string_view remark) {
      const auto r = c.call(command);
      CHECK(r.code == 1);
      CHECK(r.remark == remark);
    };
    refused(end_command(half, kCommitState, "OTHER"), "The producer group wrong");
    refused(end_command({half.queue_offset + 1, half.phys}, kCommitState),
            "The transaction state table offset wrong");
    refused(end_command({half.queue_offset, half.phys + 7}, kCommitState),
            "Find prepared transaction message failed");
    refused(end_command({half.queue_offset, -1}, kCommitState),
            "Find prepared transaction message failed");
    refused(end_command({half.queue_offset, 1 << 30}, kCommitState),
            "Find prepared transaction message failed");
    // A message that is no half.
    const auto plain = c.call(send_command({.properties = property("PGROUP", "PG")}));
    const auto id = proto::parse_offset_message_id(text_field(plain, "msgId"));
    refused(end_command({0, id.value().phys_offset}, kCommitState),
            "Find prepared transaction message failed");
    proto::Command no_group = end_command(half, kCommitState);
    no_group.fields.erase(no_group.fields.begin());
    CHECK(c.call(no_group).code == 1);
    CHECK(max_offset(c, "T", 1) == 0);
    CHECK(max_offset(c, kOpTopicName, 0) == 0);
    end(c, half, kCommitState);
  }

  // broker §23.48
  TEST_CASE("unknown gets no answer, another state gets 1") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half = send_half(c, b, b.clock().wall_ms());
    const std::int32_t opaque = c.send(end_command(half, 0));
    const auto wrong = c.call(end_command(half, 5));
    CHECK(wrong.code == 1);
    // Both ran in order on threads of their own: a later one is answered, so the first never is.
    end(c, half, kRollbackState);
    CHECK_FALSE(c.try_receive(opaque, milliseconds(50)).has_value());
  }

  TEST_CASE("a repeated commit stores nothing again") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half = send_half(c, b, b.clock().wall_ms());
    for (int i = 0; i < 3; ++i) {
      end(c, half, kCommitState);
    }
    CHECK(max_offset(c, "T", 1) == 1);
    CHECK(max_offset(c, kOpTopicName, 0) == 1);
    b.restart();
    Client again(b.port());
    end(again, half, kCommitState);
    CHECK(max_offset(again, "T", 1) == 1);
    auto killed = b.after_sigkill();
    Client after(killed->port());
    end(after, half, kCommitState);
    CHECK(max_offset(after, "T", 1) == 1);
  }

  // broker §23.22
  TEST_CASE("transactional messages are refused where the configuration says so") {
    TxnBroker b({.reject = true});
    Client c(b.port());
    const auto r = c.call(send_command({.properties = property("TRAN_MSG", "True")}));
    CHECK(r.code == 16);
    CHECK(r.remark == "the broker[127.0.0.1] sending transaction message is forbidden");
    CHECK(c.call(send_command({.properties = property("TRAN_MSG", "false")})).code == 0);
  }

  TEST_CASE("positions follow decisions and are kept") {
    TxnBroker b;
    Client c(b.port());
    std::vector<SentHalf> halves;
    for (int i = 0; i < 5; ++i) {
      halves.push_back(send_half(c, b, b.clock().wall_ms()));
    }
    for (const int i : {4, 0, 1, 3}) {
      end(c, halves[static_cast<std::size_t>(i)], kRollbackState);
    }
    b.restart();
    Client again(b.port());
    CHECK(committed(again, kHalfTopicName) == 2);
    CHECK(committed(again, kOpTopicName) == 0);  // the first op record speaks of half 4
    end(again, halves[2], kCommitState);
    CHECK(max_offset(again, "T", 1) == 1);
    b.restart();
    Client third(b.port());
    CHECK(committed(third, kHalfTopicName) == 5);
    CHECK(committed(third, kOpTopicName) == 5);
  }

  // broker §23.51
  TEST_CASE("batched op records are bounded in bytes and time, and read again") {
    TxnBroker b({.op_batch_ms = 3'000, .op_batch_bytes = 64});
    Client c(b.port());
    std::vector<SentHalf> halves;
    for (int i = 0; i < 6; ++i) {
      halves.push_back(send_half(c, b, b.clock().wall_ms()));
    }
    for (int i = 0; i < 5; ++i) {
      end(c, halves[static_cast<std::size_t>(i)], kRollbackState);
    }
    auto ops = read_all(c, kOpTopicName, 0);
    REQUIRE(ops.messages.size() == 1);  // by bytes: four of twenty
    CHECK(body_of(ops.messages[0]) == "0,1,2,3,");
    b.clock().advance_ms(3'000);
    for (int tries = 0; tries < 500 && max_offset(c, kOpTopicName, 0) < 2; ++tries) {
      CHECK_FALSE(question(c, milliseconds(10)).has_value());
    }
    ops = read_all(c, kOpTopicName, 0);
    REQUIRE(ops.messages.size() == 2);  // by time
    CHECK(body_of(ops.messages[1]) == "4");
    b.spec.op_batch_ms = 0;
    b.restart();
    Client again(b.port());
    CHECK(committed(again, kHalfTopicName) == 5);
    for (const SentHalf& half : halves) {
      end(again, half, kCommitState);
    }
    CHECK(max_offset(again, "T", 1) == 1);  // only the undecided one
  }

  TEST_CASE("a commit whose op record was lost with the process is found in the log") {
    TxnBroker b({.op_batch_ms = 60'000});
    Client c(b.port());
    const SentHalf committed_half = send_half(c, b, b.clock().wall_ms());
    const SentHalf pending = send_half(c, b, b.clock().wall_ms());
    end(c, committed_half, kCommitState);
    CHECK(max_offset(c, kOpTopicName, 0) == 0);
    auto killed = b.after_sigkill();
    Client after(killed->port());
    end(after, committed_half, kCommitState);
    CHECK(max_offset(after, "T", 1) == 1);
    end(after, pending, kCommitState);
    CHECK(max_offset(after, "T", 1) == 2);
  }

  TEST_CASE("a message put back is a new half that was never asked about") {
    TxnBroker b({.check = [] {
      ConfigNode n;
      n.set("max_checks", number_node(1));
      return n;
    }()});
    Client c(b.port());
    producer_beat(c);
    send_half(c, b, b.clock().wall_ms());
    ask(c, b);
    producer_beat(c);
    b.clock().advance_ms(60'000);
    for (int tries = 0; tries < 500 && max_offset(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0) < 1;
         ++tries) {
      CHECK_FALSE(question(c, milliseconds(10)).has_value());
    }
    const auto given_up = read_all(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0);
    REQUIRE(given_up.messages.size() == 1);
    proto::Command resume;
    resume.code = C::kResumeCheckHalfMessage;
    resume.set("msgId",
               proto::offset_message_id(given_up.messages[0].store_host,
                                        given_up.messages[0].phys_offset));
    CHECK(c.call(resume).code == 0);
    const auto halves = read_all(c, kHalfTopicName, 0);
    REQUIRE(halves.messages.size() == 3);
    CHECK(property_of(halves.messages[2], "TRANSACTION_CHECK_TIMES") == "0");
    const Question q = ask(c, b);
    CHECK(property_of(q.message(), "TRANSACTION_CHECK_TIMES") == "1");
    end(c, q.half, kCommitState);
    CHECK(max_offset(c, "T", 1) == 1);
    proto::Command nothing;
    nothing.code = C::kResumeCheckHalfMessage;
    nothing.set("msgId", "7F00000100002A9F0000000000FFFFFF");
    CHECK(c.call(nothing).code == 1);
  }
}
