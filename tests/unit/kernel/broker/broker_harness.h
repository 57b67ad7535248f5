// A real broker on loopback with a store in a folder of its own, and a client that speaks frames.
#pragma once

#include "tenon/base/clock.h"
#include "tenon/broker/broker.h"
#include "tenon/host/plugin_registry.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker::test {

/// A new folder below the system's temporary one, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, std::string_view text);

/// Speaks the protocol over one TCP connection, one call at a time. Requests of the server (notices)
/// are kept aside. Every wait has a deadline of ten seconds and fails the test loudly.
class Client {
 public:
  explicit Client(std::uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  proto::Command call(proto::Command command);
  /// Without waiting. @return the opaque
  std::int32_t send(proto::Command command);
  proto::Command receive(std::int32_t opaque);
  /// Whether an answer comes within the time.
  std::optional<proto::Command> try_receive(std::int32_t opaque, std::chrono::milliseconds limit);
  /// The next notice of the server.
  std::optional<proto::Command> notice(std::chrono::milliseconds limit);
  void write_raw(std::string_view bytes);
  bool closed_by_server(std::chrono::milliseconds limit);

  proto::HeaderKind kind = proto::HeaderKind::kJson;

 private:
  bool read_some(std::chrono::milliseconds limit);
  void take_frames();

  int fd_ = -1;
  std::int32_t opaque_ = 0;
  bool eof_ = false;
  std::string buffer_{};
  std::deque<proto::Command> answers_{};
  std::deque<proto::Command> notices_{};
};

/// Small files, so that a test costs no gigabytes.
ConfigNode small_store_options();
BrokerConfig test_config(const std::filesystem::path& root);
std::unique_ptr<host::PluginRegistry> test_registry();

class TestBroker {
 public:
  TestBroker();
  explicit TestBroker(BrokerConfig config, const Clock* clock = nullptr);
  explicit TestBroker(std::shared_ptr<TempFolder> folder);
  TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config);
  TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config, const Clock& clock);
  /// With the SQL92 filter, and a file store with more options.
  struct WithSql {
    ConfigNode store_options = small_store_options();
    const Clock* clock = nullptr;
  };
  TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config, const WithSql& with);

  Broker& broker() { return *broker_; }
  std::uint16_t port() const { return broker_->port(); }
  const std::shared_ptr<TempFolder>& folder() const { return folder_; }
  void stop() { broker_.reset(); }

 private:
  void start(BrokerConfig config, const Clock* clock, bool sql = false);

  std::shared_ptr<TempFolder> folder_;
  ConfigNode options_;
  std::unique_ptr<host::PluginRegistry> registry_;
  std::unique_ptr<Broker> broker_;
};

/// SEND_MESSAGE_V2 with everything that is required.
struct SendSpec {
  std::string topic = "T";
  std::int32_t queue_id = 0;
  std::string body = "hello";
  std::string properties{};
  std::string group = "PG";
  std::string default_topic = "TBW102";
  std::int32_t default_queues = 4;
  std::int32_t sys_flag = 0;
  std::int32_t reconsume_times = 0;
};
proto::Command send_command(const SendSpec& spec);

struct PullSpec {
  std::string group = "CG";
  std::string topic = "T";
  std::int32_t queue_id = 0;
  std::int64_t offset = 0;
  std::int32_t max = 32;
  std::int32_t sys_flag = 4;  ///< subscription in the header
  std::int64_t commit = 0;
  std::int64_t suspend_ms = 0;
  std::string subscription = "*";
  std::int64_t sub_version = 0;
  std::string expression_type = "TAG";
};
proto::Command pull_command(const PullSpec& spec);
proto::Command heartbeat_command(const proto::HeartbeatData& data);
/// One consumer group with one subscription.
proto::HeartbeatData consumer_beat(std::string client_id,
                                   std::string group,
                                   std::string topic,
                                   std::string expression = "*",
                                   std::int64_t version = 1);
std::vector<proto::MessageView> messages_of(const proto::Command& answer);
std::string text_field(const proto::Command& c, std::string_view key);
std::int64_t long_field(const proto::Command& c, std::string_view key);
/// GET_MAX_OFFSET.
std::int64_t max_offset(Client& c, std::string_view topic, std::int64_t queue_id = 0);

}  // namespace tenon::broker::test
