// Name servers, routes of topics and addresses of brokers (spec: client §2.4 to §2.6, §3.2).
#pragma once

#include "calls.h"
#include "topic_info.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::sdk {

/// "a:9876;b:9876" → addresses; a leading "scheme://" is dropped.
std::vector<std::string> split_name_servers(std::string_view text);

/// The chosen name server stays chosen until it fails; then the next of the shuffled list is.
/// Thread: any.
class NameServers {
 public:
  NameServers(std::vector<std::string> list, std::uint32_t seed);
  std::string chosen() const;
  /// Moves on if `address` is still the chosen one.
  void failed(std::string_view address);
  std::size_t size() const;
  std::vector<std::string> all() const;
  /// Another list; one that was chosen and is in it stays chosen.
  /// @return false if it is the same list in any order
  bool replace(std::vector<std::string> list);

 private:
  const std::uint32_t seed_;
  mutable std::mutex mutex_;
  std::vector<std::string> list_;
  std::size_t index_ = 0;
};

std::vector<std::string> shuffled(std::vector<std::string> list, std::uint32_t seed);

/// Thread: any.
class Routes {
 public:
  using Callback = std::function<void(Result<TopicInfoPtr>)>;
  /// Told of every topic whose route is new or has changed, without a lock held.
  using Listener = std::function<void(const TopicInfoPtr&)>;

  Routes(Calls& calls,
         std::vector<std::string> name_servers,
         std::uint32_t seed,
         std::chrono::milliseconds timeout,
         Listener listener);

  /// What is known; nullptr if nothing is.
  TopicInfoPtr cached(std::string_view topic) const;
  /// Asks the name server; calls for one topic at the same time are one request. An error does not
  /// erase what is known.
  void fetch(const std::string& topic, Callback done);
  /// What is known with at least one queue to send to, else the topic's route, else that of
  /// `create_key` (spec: client §2.5).
  void resolve(const std::string& topic,
               const std::string& create_key,
               int default_queues,
               Callback done);
  Result<TopicInfoPtr> fetch_blocking(const std::string& topic);
  Result<TopicInfoPtr> resolve_blocking(const std::string& topic,
                                        const std::string& create_key,
                                        int default_queues);

  /// To the chosen name server; on a failed connection or time-out to the others in turn.
  void ask_name_server(proto::Command command, CommandCallback done);
  Result<proto::Command> ask_name_server_ok(proto::Command command);
  std::vector<std::string> name_servers() const { return names_.all(); }
  bool replace_name_servers(std::vector<std::string> list) {
    return names_.replace(std::move(list));
  }

  /// Address of a broker: exactly this id, or for reading also another one. Empty if unknown.
  std::string address(std::string_view broker, std::int64_t id, bool only_this) const;
  struct Peer {
    std::string broker{};
    std::int64_t id = 0;
    std::string address{};
  };
  std::vector<Peer> peers() const;
  /// Forgets addresses that no stored route names. Returns them.
  std::vector<std::string> clean_addresses();
  /// Learns brokers that came from elsewhere (cluster info).
  void learn(const proto::BrokerData& broker);

 private:
  struct NameServerCall;
  void try_name_server(const std::shared_ptr<NameServerCall>& call);
  void on_route(const std::string& topic, Result<proto::Command> answer);
  TopicInfoPtr store(const std::string& topic, proto::TopicRoute route, bool from_template);

  Calls& calls_;
  NameServers names_;
  const std::chrono::milliseconds timeout_;
  const Listener listener_;
  std::atomic<bool> unreachable_{false};  ///< told once, not per call
  mutable std::mutex mutex_;
  std::map<std::string, TopicInfoPtr, std::less<>> topics_;
  std::map<std::string, std::vector<Callback>> waiting_;
  std::map<std::string, std::map<std::int64_t, std::string>, std::less<>> brokers_;
};

}  // namespace tenon::sdk
