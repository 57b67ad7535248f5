// A broker with a client, as application tests have them.
#pragma once

#include "tenon/sdk.h"
#include "tenon/testing.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

namespace fixture {

/// Waits for a condition, thirty seconds at most.
template <class F>
bool eventually(F condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

inline tenon::sdk::Message message(std::string topic, std::string body = "body") {
  tenon::sdk::Message m;
  m.topic = std::move(topic);
  m.body = std::move(body);
  return m;
}

struct Rig {
  tenon::testing::Broker broker;
  tenon::sdk::Client client;
  tenon::sdk::Producer producer;

  explicit Rig(tenon::testing::BrokerOptions options = {})
      : broker(tenon::testing::Broker::start(with_topic(std::move(options))).value()),
        client(tenon::sdk::Client::connect({.name_servers = broker.name_servers()}).value()),
        producer(tenon::sdk::Producer::open(client, {.group = "g"}).value()) {}

  static tenon::testing::BrokerOptions with_topic(tenon::testing::BrokerOptions options) {
    options.topics.push_back({"T", 1});
    options.groups.emplace_back("c");
    return options;
  }
};

}  // namespace fixture
