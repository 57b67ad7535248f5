// Start-up errors, restart, the fast port.
#include "broker_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

struct Started {
  ConfigNode options = small_store_options();
  std::unique_ptr<host::PluginRegistry> registry = test_registry();
  Result<std::unique_ptr<Broker>> broker;

  explicit Started(const BrokerConfig& config)
      : broker(Broker::start(config, *registry, slots())) {}
  PluginSlots slots() {
    PluginSlots s;
    s.storage = {"tenon.store.file", &options};
    return s;
  }
};

/// Two free ports, two apart, as the fast port wants them.
std::uint16_t free_port_pair() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    int fds[2] = {::socket(AF_INET, SOCK_STREAM, 0), ::socket(AF_INET, SOCK_STREAM, 0)};
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    std::uint16_t port = 0;
    if (::bind(fds[0], reinterpret_cast<sockaddr*>(&a), size) == 0 &&
        ::getsockname(fds[0], reinterpret_cast<sockaddr*>(&a), &size) == 0) {
      port = ntohs(a.sin_port);
      a.sin_port = htons(static_cast<std::uint16_t>(port - 2));
      if (::bind(fds[1], reinterpret_cast<sockaddr*>(&a), size) != 0) {
        port = 0;
      }
    }
    ::close(fds[0]);
    ::close(fds[1]);
    if (port != 0) {
      return port;
    }
  }
  FAIL("no free pair of ports");
  return 0;
}

}  // namespace

TEST_SUITE("broker/start_stop") {
  TEST_CASE("messages, topics, groups and offsets survive a restart") {
    auto folder = std::make_shared<TempFolder>();
    {
      TestBroker b(folder);
      Client c(b.port());
      REQUIRE(c.call(send_command({.body = "kept"})).code == 0);
      REQUIRE(c.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
      REQUIRE(c.call(pull_command({.sys_flag = 5, .commit = 1})).code == 0);
    }
    TestBroker b(folder);
    Client c(b.port());
    const auto pulled = c.call(pull_command({}));
    REQUIRE(pulled.code == 0);
    CHECK(as_text(messages_of(pulled).at(0).body) == "kept");
    CHECK(long_field(c.call(send_command({})), "queueOffset") == 1);
    proto::Command query;
    query.code = C::kQueryConsumerOffset;
    query.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    CHECK(long_field(c.call(query), "offset") == 1);
    CHECK(read_text(folder->path() / "config/subscriptionGroup.json").find("\"CG\"") !=
          std::string::npos);
  }

  TEST_CASE("offsets survive a kill, all but the last ones") {
    // broker §23.45: what a killed broker leaves is its folder as it is at any moment.
    auto folder = std::make_shared<TempFolder>();
    BrokerConfig config = test_config(folder->path());
    config.flush_consumer_offset_ms = 100;
    TestBroker running(folder, config);
    Client c(running.port());
    REQUIRE(c.call(send_command({})).code == 0);
    proto::Command update;
    update.code = C::kUpdateConsumerOffset;
    update.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    update.set("commitOffset", std::int64_t{1});
    REQUIRE(c.call(update).code == 0);
    const auto file = folder->path() / "config/consumerOffset.json";
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (read_text(file).find("\"T@CG\"") == std::string::npos) {
      REQUIRE(std::chrono::steady_clock::now() < give_up);
      std::this_thread::yield();
    }
    auto left = std::make_shared<TempFolder>();
    // A file that is replaced just now may vanish under the copy.
    std::error_code failed = std::make_error_code(std::errc::io_error);
    while (failed) {
      REQUIRE(std::chrono::steady_clock::now() < give_up);
      std::filesystem::copy(folder->path(),
                            left->path(),
                            std::filesystem::copy_options::recursive |
                                std::filesystem::copy_options::overwrite_existing,
                            failed);
    }
    TestBroker again(left);
    Client d(again.port());
    proto::Command query;
    query.code = C::kQueryConsumerOffset;
    query.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    CHECK(long_field(d.call(query), "offset") == 1);
  }

  TEST_CASE("a taken port is an error that names it and the remedy") {
    TestBroker first;
    const TempFolder folder;
    BrokerConfig config = test_config(folder.path());
    config.port = first.port();
    const Started second(config);
    REQUIRE(second.broker.has_error());
    CHECK(second.broker.error().code == Errc::kConflict);
    const std::string& text = second.broker.error().detail;
    CHECK_MESSAGE(text.find("127.0.0.1:" + std::to_string(first.port())) != std::string::npos,
                  text);
    CHECK_MESSAGE(text.find("choose another port") != std::string::npos, text);
  }

  TEST_CASE("a store in use is an error that names it") {
    TestBroker first;
    const Started second(test_config(first.folder()->path()));
    REQUIRE(second.broker.has_error());
    CHECK_MESSAGE(
        second.broker.error().detail.find(first.folder()->path().string()) != std::string::npos,
        second.broker.error().detail);
    Client c(first.port());
    CHECK(c.call(send_command({})).code == 0);
  }

  TEST_CASE("all bad settings are reported at once") {
    BrokerConfig config = test_config("/nonexistent");
    config.cluster = "a b";
    config.namesrv = {"nohost"};
    config.message_delay_level = "1s 2x";
    config.memory_ratio_pct = 0;
    const auto bad = validate(config);
    REQUIRE(bad.has_error());
    for (const char* part : {"cluster", "nohost", "2x", "memory_ratio_pct is 0"}) {
      CHECK_MESSAGE(bad.error().detail.find(part) != std::string::npos, bad.error().detail);
    }
    CHECK(validate(BrokerConfig{}).has_value());
  }

  TEST_CASE("a broker is a master: another id is refused, and tools are told the role") {
    // broker §23.1; what §23.17, §23.34, §23.35 and §23.55 say of slaves does not occur.
    BrokerConfig config = test_config("/nonexistent");
    config.id = 1;
    const auto bad = validate(config);
    REQUIRE(bad.has_error());
    CHECK(bad.error().detail.find("id is 1, only a master (0) is served") != std::string::npos);
    TestBroker b;
    Client c(b.port());
    proto::Command info;
    info.code = proto::RequestCode::kGetBrokerRuntimeInfo;
    CHECK(proto::decode_kv_table(c.call(info).body).value().at("brokerRole") == "ASYNC_MASTER");
  }

  TEST_CASE("the fast port serves everything but pulls") {
    // broker §23.2
    BrokerConfig config = test_config("");
    config.port = free_port_pair();
    TestBroker b(config);
    Client fast(static_cast<std::uint16_t>(b.port() - 2));
    const auto sent = fast.call(send_command({}));
    CHECK(sent.code == 0);
    // Trap: ids carry the main port, whichever port was used (spec remoting §6.1).
    CHECK(proto::parse_offset_message_id(text_field(sent, "msgId")).value().store_host.port ==
          b.port());
    const auto pull = fast.call(pull_command({}));
    CHECK(pull.code == 3);
    CHECK(pull.remark == " request type 11 not supported");
    Client main(b.port());
    CHECK(main.call(pull_command({})).code == 0);
  }

  TEST_CASE("a stop answers what is running and closes connections") {
    BrokerConfig config = test_config("");
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    c.send(pull_command({.offset = 1, .sys_flag = 6, .suspend_ms = 20'000}));
    b.stop();
    CHECK(c.closed_by_server(std::chrono::seconds(10)));
  }

  TEST_CASE("garbage closes the connection and nobody else's") {
    TestBroker b;
    Client other(b.port());
    REQUIRE(other.call(send_command({})).code == 0);
    Client bad(b.port());
    bad.write_raw(std::string("\xff\xff\xff\xff garbage", 12));
    CHECK(bad.closed_by_server(std::chrono::seconds(10)));
    CHECK(other.call(send_command({})).code == 0);
  }
}
