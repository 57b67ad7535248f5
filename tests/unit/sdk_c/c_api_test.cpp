// Runs the scenarios in C, each on a broker of its own.
#include "../../support/http_answers.h"
#include "scenarios.h"

#include "tenon/testing.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

using tenon::test::HttpAnswers;
using tenon::testing::Broker;
using tenon::testing::Fault;
using tenon::testing::FaultKind;

namespace {

Broker broker() {
  return Broker::start({.topics = {{"T", 1}, {"T4", 4}},
                        .groups = {"c"},
                        .delay_levels = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
                        .transaction_check = std::chrono::seconds(1)})
      .value();
}

}  // namespace

TEST_SUITE("sdk/c") {
  TEST_CASE("send: blocking, one-way, by key to one of several queues, delayed") {
    Broker b = broker();
    CHECK(scenario_send(b.name_servers().c_str(), "T4") == 0);
  }
  TEST_CASE("each callback is called once") {
    Broker b = broker();
    CHECK(scenario_async(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("consume concurrently and in order: everything once, a copy outlives the consumer") {
    Broker b = broker();
    REQUIRE(scenario_async(b.name_servers().c_str(), "T") == 0);
    CHECK(scenario_consume(b.name_servers().c_str(), "T", 100, 0) == 0);
    CHECK(scenario_consume(b.name_servers().c_str(), "T", 100, 1) == 0);
  }
  TEST_CASE("a message to be retried comes again") {
    Broker b = broker();
    REQUIRE(scenario_destroy_in_callback(b.name_servers().c_str(), "T") == 0);
    CHECK(scenario_retry(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("tag, keys, properties, flag and zero bytes arrive") {
    Broker b = broker();
    CHECK(scenario_properties(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("pull: shared and assigned queues, commit, seek") {
    Broker b = broker();
    REQUIRE(scenario_async(b.name_servers().c_str(), "T") == 0);
    CHECK(scenario_pull(b.name_servers().c_str(), "T", 100) == 0);
  }
  TEST_CASE("a batch is stored together, or in as many requests as it needs") {
    Broker b = broker();
    CHECK(scenario_batch(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("the queue is given, or chosen by a function") {
    Broker b = broker();
    CHECK(scenario_choose(b.name_servers().c_str(), "T4") == 0);
  }
  TEST_CASE("a delayed message is taken back") {
    Broker b = broker();
    CHECK(scenario_recall(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("requests and answers") {
    Broker b = broker();
    CHECK(scenario_request(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("transactions: commit, rollback, asked later") {
    Broker b = broker();
    CHECK(scenario_transaction(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("in order: held, taken back, committed") {
    Broker b = broker();
    CHECK(scenario_hold(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("topics are added and given up while a consumer runs") {
    Broker b = broker();
    CHECK(scenario_subscribe(b.name_servers().c_str(), "T4", "T") == 0);
  }
  TEST_CASE("administration: topics and routes") {
    Broker b = broker();
    CHECK(scenario_admin_topics(b.name_servers().c_str()) == 0);
  }
  TEST_CASE("administration: offsets, progress, messages") {
    Broker b = broker();
    CHECK(scenario_admin_offsets(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("administration: settings, members and subscriptions of groups") {
    Broker b = broker();
    CHECK(scenario_admin_groups(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("hooks see sends, listener calls and polls, and may refuse messages") {
    Broker b = broker();
    b.fail_next(1, 13, "illegal");
    CHECK(scenario_hooks(b.name_servers().c_str(), "T") == 0);
  }
  TEST_CASE("name servers from a URL, namespace, unit, stream requests, trace") {
    Broker b = broker();
    const HttpAnswers server("HTTP/1.0 200 OK\r\n\r\n" + b.name_servers() + "\n");
    CHECK(scenario_client_options(server.url().c_str(), "T") == 0);
  }
  TEST_CASE("structures of older and newer programs") {
    CHECK(scenario_sizes("127.0.0.1:1") == 0);
  }
  TEST_CASE("illegal arguments are errors, not crashes") {
    CHECK(scenario_illegal("127.0.0.1:1") == 0);
  }
  TEST_CASE("failures have code, response and whether the outcome is known") {
    Broker b = broker();
    const std::string address = b.name_servers();
    b.fail_next(1, 13, "illegal");
    CHECK(scenario_failing_send(address.c_str(), "T", TENON_CLIENT_REFUSED, 13, 0) == 0);
    Fault lose;
    lose.kind = FaultKind::kLose;
    b.inject(lose);
    CHECK(scenario_failing_send(address.c_str(), "T", TENON_CLIENT_TIMEOUT, -1, 1) == 0);
    Fault cut;
    cut.kind = FaultKind::kCut;
    b.inject(cut);
    CHECK(scenario_failing_send(address.c_str(), "T", TENON_CLIENT_CLOSED, -1, 1) == 0);
    b.stop_name_server();
    CHECK(scenario_failing_send(address.c_str(), "T", TENON_CLIENT_NO_NAME_SERVER, -1, 0) == 0);
  }
  TEST_CASE("log lines go to a function") {
    std::atomic<int> lines{0};
    tenon_client_set_log(
        [](void* arg, std::int32_t, const char*) { ++*static_cast<std::atomic<int>*>(arg); },
        &lines);
    CHECK(scenario_failing_send("127.0.0.1:1", "T", TENON_CLIENT_NO_NAME_SERVER, -1, 0) == 0);
    tenon_client_set_log(nullptr, nullptr);
    CHECK(lines.load() > 0);
  }
}
