// Questions about undecided transactions (spec: broker §13.3 to §13.5, §23).
#include "paths.h"
#include "txn_harness.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using std::chrono::milliseconds;
using C = proto::RequestCode;

namespace {

constexpr milliseconds kSoon{10'000};

ConfigNode options(std::initializer_list<std::pair<std::string, ConfigNode>> keys) {
  ConfigNode n;
  for (const auto& [key, value] : keys) {
    n.set(key, value);
  }
  return n;
}

Question need_question(Client& c) {
  auto q = question(c, kSoon);
  REQUIRE_MESSAGE(q.has_value(), "no question within ten seconds");
  return std::move(*q);
}

}  // namespace

TEST_SUITE("broker/txn_check") {
  // broker §23.49
  TEST_CASE("the first question comes between 6 s and 66 s after birth") {
    TxnBroker b;
    Client c(b.port());
    producer_beat(c);
    const std::int64_t begin_ms = b.clock().wall_ms();
    const SentHalf old = send_half(c, b, begin_ms, {.body = "old"});
    b.clock().advance_ms(56'000);
    send_half(c, b, begin_ms + 56'000, {.body = "young"});  // 4 s old in the first round
    b.clock().advance_ms(4'001);
    const Question first = need_question(c);
    CHECK(body_of(first.message()) == "old");
    CHECK(first.message().topic == "T");
    CHECK(first.message().queue_id == 1);
    CHECK(first.message().queue_offset == first.half.queue_offset);
    CHECK(first.half.queue_offset == 2);  // the question is about the copy
    CHECK(property_of(first.message(), "TRANSACTION_CHECK_TIMES") == "1");
    CHECK(property_of(first.message(), "TRAN_PREPARED_QUEUE_OFFSET") ==
          std::to_string(old.queue_offset));
    CHECK(text_field(first.command, "msgId") == "0123456789ABCDEF");
    CHECK(text_field(first.command, "transactionId") == "0123456789ABCDEF");
    CHECK(text_field(first.command, "offsetMsgId") ==
          proto::offset_message_id(first.message().store_host, first.half.phys));
    end(c, first.half, kCommitState);
    b.clock().advance_ms(60'000);
    const Question second = need_question(c);
    CHECK(body_of(second.message()) == "young");
    CHECK(second.message().store_ms >= begin_ms + 62'000);
    CHECK(second.message().store_ms <= begin_ms + 122'000);
    CHECK(max_offset(c, "T", 1) == 1);
  }

  // broker §23.49
  TEST_CASE("15 questions, then the topic for given-up transactions; a late commit counts once") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half =
        send_half(c, b, b.clock().wall_ms(), {.more = property("KEYS", "given up")});
    Question last;
    for (int i = 1; i <= 15; ++i) {
      last = ask(c, b);
      CHECK(property_of(last.message(), "TRANSACTION_CHECK_TIMES") == std::to_string(i));
    }
    CHECK(max_offset(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0) == 0);
    b.clock().advance_ms(60'000);
    for (int tries = 0; tries < 500 && max_offset(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0) < 1;
         ++tries) {
      CHECK_FALSE(question(c, milliseconds(10)).has_value());
    }
    const auto given_up = read_all(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0);
    REQUIRE(given_up.messages.size() == 1);
    CHECK(property_of(given_up.messages[0], "KEYS") == "given up");
    CHECK(property_of(given_up.messages[0], "REAL_TOPIC") == "T");
    CHECK(max_offset(c, "T", 1) == 0);
    end(c, last.half, kCommitState);
    end(c, half, kCommitState);
    CHECK(max_offset(c, "T", 1) == 1);
  }

  // broker §23.50
  TEST_CASE("an immunity of 120 s delays the first question and is not charged") {
    TxnBroker b;
    Client c(b.port());
    producer_beat(c);
    const std::int64_t born = b.clock().wall_ms();
    send_half(
        c, b, born, {.body = "immune", .more = property("CHECK_IMMUNITY_TIME_IN_SECONDS", "120")});
    send_half(c, b, born, {.body = "plain"});
    b.clock().advance_ms(60'001);
    const Question q = need_question(c);
    CHECK(body_of(q.message()) == "plain");
    end(c, q.half, kRollbackState);
    const Question immune = ask(c, b);
    CHECK(body_of(immune.message()) == "immune");
    CHECK(immune.message().store_ms - born >= 120'000);
    CHECK(immune.message().store_ms - born <= 190'000);
    CHECK(property_of(immune.message(), "TRANSACTION_CHECK_TIMES") == "1");
  }

  TEST_CASE("a commit of the original after a copy was written commits once") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf original = send_half(c, b, b.clock().wall_ms());
    const Question first = ask(c, b);
    const Question second = ask(c, b);
    CHECK(second.half.queue_offset > first.half.queue_offset);
    SUBCASE("original first") {
      end(c, original, kCommitState);
      end(c, second.half, kCommitState);
      end(c, first.half, kCommitState);
    }
    SUBCASE("old copy first") {
      end(c, first.half, kCommitState);
      end(c, original, kCommitState);
    }
    SUBCASE("after a restart") {
      b.restart();
      Client again(b.port());
      end(again, original, kCommitState);
      end(again, second.half, kCommitState);
      CHECK(max_offset(again, "T", 1) == 1);
      return;
    }
    CHECK(max_offset(c, "T", 1) == 1);
    // Nothing is left to ask about: a later transaction is the next question.
    send_half(c, b, b.clock().wall_ms(), {.body = "later"});
    CHECK(body_of(ask(c, b).message()) == "later");
  }

  TEST_CASE("undecided transactions survive a stop and a SIGKILL, with their count") {
    TxnBroker b;
    Client c(b.port());
    const SentHalf half = send_half(c, b, b.clock().wall_ms());
    send_half(c, b, b.clock().wall_ms(), {.body = "rolled back"});
    end(c,
        {half.queue_offset + 1, read_all(c, kHalfTopicName, 0).messages[1].phys_offset},
        kRollbackState);
    ask(c, b);
    std::unique_ptr<TxnBroker> killed;
    TxnBroker* now = &b;
    SUBCASE("stop") {
      b.restart();
    }
    SUBCASE("SIGKILL") {
      killed = b.after_sigkill();
      now = killed.get();
    }
    Client again(now->port());
    const Question q = ask(again, *now);
    CHECK(property_of(q.message(), "TRANSACTION_CHECK_TIMES") == "2");
    end(again, q.half, kCommitState);
    end(again, half, kCommitState);
    CHECK(max_offset(again, "T", 1) == 1);
  }

  TEST_CASE("producers of the group are asked in turn, the rest when one is gone") {
    TxnBroker b;
    auto first = std::make_unique<Client>(b.port());
    Client second(b.port());
    producer_beat(*first);
    producer_beat(second);
    for (int i = 0; i < 4; ++i) {
      send_half(second, b, b.clock().wall_ms());
    }
    b.clock().advance_ms(60'001);
    for (int i = 0; i < 2; ++i) {
      need_question(*first);
      need_question(second);
    }
    first.reset();
    proto::Command list;
    list.code = C::kGetProducerConnectionList;
    list.set("producerGroup", "PG");
    const auto members = [&] {
      const std::string body = second.call(list).body;
      const auto one = body.find("producer@PG");
      return one == std::string::npos || body.find("producer@PG", one + 1) == std::string::npos ? 1
                                                                                                : 2;
    };
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (members() == 2) {  // the broker has not seen the end of the connection yet
      REQUIRE(std::chrono::steady_clock::now() < give_up);
    }
    b.clock().advance_ms(60'000);
    for (int i = 0; i < 4; ++i) {
      CHECK(property_of(need_question(second).message(), "TRANSACTION_CHECK_TIMES") == "2");
    }
  }

  TEST_CASE("without a live producer nothing is charged and nothing is written") {
    TxnBroker b;
    Client c(b.port());
    producer_beat(c, "ONLINE");
    send_half(c, b, b.clock().wall_ms(), {.body = "nobody", .group = "OFFLINE"});
    send_half(c, b, b.clock().wall_ms(), {.body = "somebody", .group = "ONLINE"});
    for (int i = 0; i < 5; ++i) {
      // Behind the other one: when it was asked, the other one was looked at.
      CHECK(body_of(ask(c, b, "ONLINE").message()) == "somebody");
    }
    CHECK(max_offset(c, kHalfTopicName, 0) == 7);
    Client late(b.port());
    const Question q = ask(late, b, "OFFLINE");
    CHECK(body_of(q.message()) == "nobody");
    CHECK(property_of(q.message(), "TRANSACTION_CHECK_TIMES") == "1");
  }

  TEST_CASE("what happens after the last question is chosen") {
    std::string choice;
    bool allowed = false;
    std::int64_t in_topic = 0;
    std::int64_t aside = 0;
    SUBCASE("rollback") {
      choice = "rollback";
    }
    SUBCASE("drop") {
      choice = "drop";
    }
    SUBCASE("commit, not allowed by the broker") {
      choice = "commit";
      aside = 1;
    }
    SUBCASE("commit, allowed") {
      choice = "commit";
      allowed = true;
      in_topic = 1;
    }
    CAPTURE(choice);
    TxnBroker b(
        {.check = options({{"max_checks", number_node(2)}, {"on_exhausted", text_node(choice)}}),
         .commit_exhausted = allowed});
    Client c(b.port());
    send_half(c, b, b.clock().wall_ms());
    ask(c, b);
    ask(c, b);
    const std::int64_t halves = max_offset(c, kHalfTopicName, 0);
    b.clock().advance_ms(60'000);
    for (int tries = 0; tries < 500 && max_offset(c, kOpTopicName, 0) < 1; ++tries) {
      CHECK_FALSE(question(c, milliseconds(10)).has_value());
    }
    CHECK(max_offset(c, kOpTopicName, 0) == 1);
    CHECK(max_offset(c, kHalfTopicName, 0) == halves);
    CHECK(max_offset(c, "T", 1) == in_topic);
    CHECK(max_offset(c, "TRANS_CHECK_MAX_TIME_TOPIC", 0) == aside);
  }

  TEST_CASE("keep asks on beyond the maximum") {
    TxnBroker b(
        {.check = options({{"max_checks", number_node(1)}, {"on_exhausted", text_node("keep")}})});
    Client c(b.port());
    send_half(c, b, b.clock().wall_ms());
    for (int i = 1; i <= 3; ++i) {
      CHECK(property_of(ask(c, b).message(), "TRANSACTION_CHECK_TIMES") == std::to_string(i));
    }
  }

  TEST_CASE("an outsider's plug-in that asks a file decides otherwise") {
    auto folder = std::make_shared<TempFolder>();
    const auto file = folder->path() / "decisions.txt";
    const std::filesystem::path bin(tenon::test::bin_dir());
    TxnBroker b(
        {.check = options({{"file", text_node(file.string())}}),
         .plugin = (bin.parent_path() / "tests/plugins/org.example.txn-file.tenon.so").string(),
         .commit_exhausted = true});
    Client c(b.port());
    producer_beat(c);
    const SentHalf left =
        send_half(c, b, b.clock().wall_ms(), {.body = "left", .uniq_key = "LEFT"});
    send_half(c, b, b.clock().wall_ms(), {.body = "committed", .uniq_key = "COMMITTED"});
    const SentHalf dropped =
        send_half(c, b, b.clock().wall_ms(), {.body = "dropped", .uniq_key = "DROPPED"});
    send_half(c, b, b.clock().wall_ms(), {.body = "asked", .uniq_key = "ASKED"});
    write_text(file, "COMMITTED commit\nDROPPED drop\nASKED check\n");
    b.clock().advance_ms(2'000);  // the stock rules would ask nobody within six seconds
    CHECK(body_of(need_question(c).message()) == "asked");
    const auto content = read_all(c, "T", 1);
    REQUIRE(content.messages.size() == 1);
    CHECK(body_of(content.messages[0]) == "committed");
    end(c, dropped, kCommitState);  // too late
    CHECK(max_offset(c, "T", 1) == 1);
    producer_beat(c);
    b.clock().advance_ms(80LL * 3'600'000);  // nor is anything given up by its age
    end(c, left, kCommitState);
    CHECK(max_offset(c, "T", 1) == 2);
  }

  TEST_CASE("the undecided transactions of a store of RocketMQ 4.9.7 are asked about") {
    auto folder = std::make_shared<TempFolder>();
    const std::string command = "tar -xzf '" + std::string(tenon::test::data_dir()) +
                                "/store/transaction/store.tar.gz' --strip-components=1 -C '" +
                                folder->path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    TxnBroker b({.check = options({{"reserved", text_node("876000h")}}), .store_name = "broker-a"},
                folder);
    Client c(b.port());
    producer_beat(c, "TG");
    const std::int64_t in_topic = max_offset(c, "TopicT", 0) + max_offset(c, "TopicT", 1);
    CHECK(in_topic == 11);
    b.clock().advance_ms(200'000'000'000);  // the store was written later than the clock's start
    std::map<std::string, Question> asked;
    for (int i = 0; i < 4; ++i) {
      Question q = need_question(c);
      asked.emplace(property_of(q.message(), "KEYS"), q);
    }
    REQUIRE(asked.size() == 4);
    CHECK(property_of(asked.at("tx-2").message(), "TRANSACTION_CHECK_TIMES") == "6");
    CHECK(property_of(asked.at("tx-8").message(), "TRANSACTION_CHECK_TIMES") == "6");
    CHECK(property_of(asked.at("tx-immune").message(), "TRAN_PREPARED_QUEUE_OFFSET") == "13");
    CHECK(property_of(asked.at("tx-late").message(), "TRANSACTION_CHECK_TIMES") == "2");
    // Java's copy has no link: the original's decision finds it all the same.
    end(c, {27, 12404}, kCommitState, "TG");
    end(c, asked.at("tx-late").half, kCommitState, "TG");
    end(c, asked.at("tx-2").half, kCommitState, "TG");
    end(c, asked.at("tx-8").half, kRollbackState, "TG");
    end(c, asked.at("tx-immune").half, kCommitState, "TG");
    CHECK(max_offset(c, "TopicT", 0) + max_offset(c, "TopicT", 1) == in_topic + 3);
    end(c, {0, 0}, kCommitState, "TG");  // decided long ago
    CHECK(max_offset(c, "TopicT", 0) + max_offset(c, "TopicT", 1) == in_topic + 3);
  }
}
