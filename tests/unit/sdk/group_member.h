// A member of consumer group g on a cluster in memory: topic T on broker a. What the tests of all kinds
// of consumers begin with.
#pragma once

#include "consumer_core.h"
#include "fake_cluster.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace tenon::sdk::test {

inline const Queue kQueue{"T", "a", 0};

/// Options is PushConsumerOptions or PullConsumerOptions. Derived fixtures stop() in their own
/// destructor: listeners use their members.
template <class Options>
struct GroupMember {
  explicit GroupMember(std::int32_t queues = 1,
                       const tenon::Clock* clock = nullptr,
                       const ClientOptions& client_options = {}) {
    cluster.add_topic("T", {"a"}, queues);
    client = cluster.client(clock, client_options);
    cluster.set_members({client->id()});
    options.group = "g";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    options.pull_error_delay = std::chrono::milliseconds(20);
  }
  ~GroupMember() { stop(); }
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  void run(std::shared_ptr<detail::ConsumerCore> consumer) {
    core = std::move(consumer);
    client->add(core).value();
    core->start().value();
  }
  void stop() {
    if (core) {
      core->stop();
      core.reset();
    }
  }

  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  Options options;
  std::shared_ptr<detail::ConsumerCore> core;
};

}  // namespace tenon::sdk::test
