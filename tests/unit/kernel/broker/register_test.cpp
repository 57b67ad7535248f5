// What name servers hear of a broker (spec: broker §1.3).
#include "broker_harness.h"
#include "role/registrar.h"

#include "tenon/net/connection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using namespace std::chrono_literals;
using C = proto::RequestCode;

namespace {

/// Answers 0 to everything and remembers it.
class NameServer final : public net::ConnectionHandler {
 public:
  NameServer() {
    net::Server::Options options;
    options.host = "127.0.0.1";
    server_ = net::Server::listen(*pool_, options, *this).value();
  }
  ~NameServer() override {
    server_->stop();
    pool_->stop();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef&) override {
    const std::scoped_lock lock(mutex_);
    for (const proto::CommandView& c : commands) {
      heard_.push_back(proto::Command::from(c));
      proto::FrameWriter(
          connection->out(),
          {.code = 0, .opaque = c.opaque, .flag = proto::kFlagResponse, .kind = c.kind})
          .finish();
    }
    changed_.notify_all();
  }
  /// The first request that fits; code -1 if none comes in time.
  template <class Fits>
  proto::Command wait_for(Fits fits) {
    std::unique_lock lock(mutex_);
    proto::Command found{.code = -1};
    changed_.wait_for(lock, 5s, [&] {
      const auto it = std::find_if(heard_.begin(), heard_.end(), fits);
      if (it != heard_.end()) {
        found = *it;
      }
      return it != heard_.end();
    });
    return found;
  }

 private:
  std::unique_ptr<net::IoPool> pool_ = net::IoPool::start({.threads = 1, .name = "ns"}).value();
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<proto::Command> heard_{};
  std::unique_ptr<net::Server> server_{};
};

auto of_code(std::int32_t code) {
  return [code](const proto::Command& c) { return c.code == code; };
}

proto::TopicTable topics_of(const proto::Command& c) {
  const auto body = proto::decode_register_broker_body(c.body, false, c.version);
  REQUIRE(body.has_value());
  return body.value().topics;
}

}  // namespace

TEST_SUITE("broker/register") {
  TEST_CASE("a broker says where it is, and where its copies find it") {
    // broker §23.3
    NameServer ns;
    BrokerConfig config = test_config("");
    config.namesrv = {ns.address()};
    TestBroker b(config);
    const auto heard = ns.wait_for(of_code(C::kRegisterBroker));
    REQUIRE(heard.code == C::kRegisterBroker);
    CHECK(text_field(heard, "brokerAddr") == "127.0.0.1:" + std::to_string(b.port()));
    CHECK(text_field(heard, "haServerAddr") == "127.0.0.1:" + std::to_string(b.port() + 1));
    CHECK(text_field(heard, "brokerName") == config.name);
    CHECK(text_field(heard, "brokerId") == "0");
    CHECK(topics_of(heard).topics.contains("TBW102"));
  }

  TEST_CASE("a clean stop says farewell to every name server") {
    // broker §23.4
    NameServer first;
    NameServer second;
    BrokerConfig config = test_config("");
    config.namesrv = {first.address(), second.address()};
    TestBroker b(config);
    const std::string address = "127.0.0.1:" + std::to_string(b.port());
    b.stop();
    for (NameServer* ns : {&first, &second}) {
      const auto heard = ns->wait_for(of_code(C::kUnregisterBroker));
      REQUIRE(heard.code == C::kUnregisterBroker);
      CHECK(text_field(heard, "brokerAddr") == address);
      CHECK(text_field(heard, "brokerName") == config.name);
      CHECK(text_field(heard, "clusterName") == config.cluster);
      CHECK(text_field(heard, "brokerId") == "0");
    }
  }

  TEST_CASE("a topic that a send creates is registered at once; the period has bounds") {
    // broker §23.5
    NameServer ns;
    BrokerConfig config = test_config("");
    config.namesrv = {ns.address()};
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({.topic = "Fresh"})).code == 0);
    const auto heard = ns.wait_for([](const proto::Command& r) {
      return r.code == C::kRegisterBroker && r.body.find("\"Fresh\"") != std::string::npos;
    });
    REQUIRE(heard.code == C::kRegisterBroker);  // the period is ten seconds at least
    CHECK(topics_of(heard).topics.at("Fresh").write_queue_count == 4);
    CHECK(Registrar::period_ms(0) == 10'000);
    CHECK(Registrar::period_ms(10'001) == 10'001);
    CHECK(Registrar::period_ms(600'000) == 60'000);
  }

  TEST_CASE("the permission of the broker is registered as that of every topic") {
    // broker §23.6
    NameServer ns;
    BrokerConfig config = test_config("");
    config.namesrv = {ns.address()};
    config.permission = 4;
    TestBroker b(config);
    const auto heard = ns.wait_for(of_code(C::kRegisterBroker));
    REQUIRE(heard.code == C::kRegisterBroker);
    const auto table = topics_of(heard);
    CHECK(table.topics.size() > 5);
    for (const auto& [name, topic] : table.topics) {
      CHECK_MESSAGE(topic.perm == 4, name);
    }
  }
}
