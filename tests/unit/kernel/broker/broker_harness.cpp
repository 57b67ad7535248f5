#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/frame.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;
extern "C" const tenon_entry tenon_entry_filter_sql92;

namespace tenon::broker::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kDeadline{10'000};

ConfigNode integer(std::int64_t v) {
  ConfigNode n;
  n.value = v;
  return n;
}

}  // namespace

TempFolder::TempFolder() {
  static std::atomic<int> counter{0};
  path_ = std::filesystem::temp_directory_path() /
          ("tenon-broker-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
  std::filesystem::create_directories(path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
}

Client::Client(std::uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

Client::~Client() {
  ::close(fd_);
}

void Client::write_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::int32_t Client::send(proto::Command command) {
  command.opaque = ++opaque_;
  command.kind = kind;
  std::string frame;
  command.encode(frame);
  write_raw(frame);
  return command.opaque;
}

bool Client::read_some(milliseconds limit) {
  pollfd p{fd_, POLLIN, 0};
  if (eof_ || ::poll(&p, 1, static_cast<int>(limit.count())) <= 0) {
    return false;
  }
  char bytes[64 * 1024];
  const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
  if (n <= 0) {
    eof_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<std::size_t>(n));
  take_frames();
  return true;
}

void Client::take_frames() {
  while (buffer_.size() >= proto::kFramePrefixBytes) {
    const auto prefix = proto::decode_frame_prefix(as_bytes(buffer_), 64u * 1024 * 1024);
    REQUIRE(prefix.has_value());
    const std::size_t total = prefix.value().total_bytes();
    if (buffer_.size() < total) {
      return;
    }
    proto::CommandView view;
    const auto decoded =
        proto::decode_command({reinterpret_cast<std::byte*>(buffer_.data()), total}, view);
    REQUIRE(decoded.has_value());
    auto& list = view.is_response() ? answers_ : notices_;
    list.push_back(proto::Command::from(view));
    buffer_.erase(0, total);
  }
}

std::optional<proto::Command> Client::try_receive(std::int32_t opaque, milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    for (auto it = answers_.begin(); it != answers_.end(); ++it) {
      if (it->opaque == opaque) {
        proto::Command found = std::move(*it);
        answers_.erase(it);
        return found;
      }
    }
    const auto left =
        std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || eof_) {
      return std::nullopt;
    }
    read_some(left);
  }
}

proto::Command Client::receive(std::int32_t opaque) {
  auto answer = try_receive(opaque, kDeadline);
  REQUIRE_MESSAGE(answer.has_value(), "no answer within ten seconds");
  return std::move(*answer);
}

proto::Command Client::call(proto::Command command) {
  return receive(send(std::move(command)));
}

std::optional<proto::Command> Client::notice(milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (notices_.empty()) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || eof_) {
      return std::nullopt;
    }
    read_some(left);
  }
  proto::Command first = std::move(notices_.front());
  notices_.pop_front();
  return first;
}

bool Client::closed_by_server(milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!eof_ && std::chrono::steady_clock::now() < end) {
    read_some(milliseconds(50));
  }
  return eof_;
}

ConfigNode small_store_options() {
  ConfigNode options;
  ConfigNode log_file;
  log_file.value = std::string("16MiB");
  options.set("commitlog_file", log_file);
  options.set("queue_file_bytes", integer(20'000));
  options.set("index_slots", integer(1000));
  options.set("index_items", integer(4000));
  return options;
}

BrokerConfig test_config(const std::filesystem::path& root) {
  BrokerConfig config;
  config.name = "broker-t";
  config.listen_host = "127.0.0.1";
  config.port = 0;
  config.store_root = root;
  config.io_threads = 2;
  // Neither the disk of the machine nor the age of a recorded folder decides what a test sees.
  config.retention.file_reserved_hours = 87'600;
  config.retention.clean_forcibly = false;
  config.retention.disk_full_pct = 100;
  return config;
}

std::unique_ptr<host::PluginRegistry> test_registry() {
  host::RegistryOptions options;
  options.use_environment = false;
  auto registry = host::PluginRegistry::create(options);
  REQUIRE(registry->add_static(&tenon_entry_store_file).has_value());
  REQUIRE(registry->add_static(&tenon_entry_filter_sql92).has_value());
  return registry;
}

TestBroker::TestBroker()
    : folder_(std::make_shared<TempFolder>()) {
  start(test_config(folder_->path()), nullptr);
}

TestBroker::TestBroker(std::shared_ptr<TempFolder> folder)
    : folder_(std::move(folder)) {
  start(test_config(folder_->path()), nullptr);
}

TestBroker::TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config)
    : folder_(std::move(folder)) {
  start(std::move(config), nullptr);
}

TestBroker::TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config, const Clock& clock)
    : folder_(std::move(folder)) {
  start(std::move(config), &clock);
}

TestBroker::TestBroker(BrokerConfig config, const Clock* clock)
    : folder_(std::make_shared<TempFolder>()) {
  config.store_root = folder_->path();
  start(std::move(config), clock);
}

TestBroker::TestBroker(std::shared_ptr<TempFolder> folder, BrokerConfig config, const WithSql& with)
    : folder_(std::move(folder)),
      options_(with.store_options) {
  start(std::move(config), with.clock, true);
}

void TestBroker::start(BrokerConfig config, const Clock* clock, bool sql) {
  if (!sql) {
    options_ = small_store_options();
  }
  registry_ = test_registry();
  PluginSlots slots;
  slots.storage = {"tenon.store.file", &options_};
  if (sql) {
    slots.filters.push_back({"tenon.filter.sql92", nullptr});
  }
  BrokerHooks hooks;
  hooks.clock = clock;
  auto started = Broker::start(config, *registry_, slots, hooks);
  if (started.has_error()) {
    FAIL(started.error().detail);
  }
  broker_ = std::move(started).value();
}

proto::Command send_command(const SendSpec& s) {
  proto::Command c;
  c.code = proto::RequestCode::kSendMessageV2;
  c.set("a", s.group).set("b", s.topic).set("c", s.default_topic);
  c.set("d", std::int64_t{s.default_queues}).set("e", std::int64_t{s.queue_id});
  c.set("f", std::int64_t{s.sys_flag}).set("g", std::int64_t{1'700'000'000'000});
  c.set("h", std::int64_t{0}).set("i", s.properties);
  c.set("j", std::int64_t{s.reconsume_times}).set("k", "false").set("m", "false");
  c.body = s.body;
  return c;
}

proto::Command pull_command(const PullSpec& s) {
  proto::Command c;
  c.code = proto::RequestCode::kPullMessage;
  c.set("consumerGroup", s.group).set("topic", s.topic);
  c.set("queueId", std::int64_t{s.queue_id}).set("queueOffset", s.offset);
  c.set("maxMsgNums", std::int64_t{s.max}).set("sysFlag", std::int64_t{s.sys_flag});
  c.set("commitOffset", s.commit).set("suspendTimeoutMillis", s.suspend_ms);
  c.set("subVersion", s.sub_version).set("expressionType", s.expression_type);
  if ((s.sys_flag & 4) != 0) {
    c.set("subscription", s.subscription);
  }
  return c;
}

proto::Command heartbeat_command(const proto::HeartbeatData& data) {
  proto::Command c;
  c.code = proto::RequestCode::kHeartBeat;
  c.body = proto::encode(data);
  return c;
}

proto::HeartbeatData consumer_beat(std::string client_id,
                                   std::string group,
                                   std::string topic,
                                   std::string expression,
                                   std::int64_t version) {
  proto::HeartbeatData beat;
  beat.client_id = std::move(client_id);
  proto::ConsumerData consumer;
  consumer.group = std::move(group);
  auto subscription = proto::build_subscription(topic, expression, "TAG");
  REQUIRE(subscription.has_value());
  subscription.value().sub_version = version;
  consumer.subscriptions.push_back(std::move(subscription).value());
  beat.consumers.push_back(std::move(consumer));
  return beat;
}

std::vector<proto::MessageView> messages_of(const proto::Command& answer) {
  std::vector<proto::MessageView> out;
  std::span<const std::byte> rest = as_bytes(answer.body);
  while (!rest.empty()) {
    const auto message = proto::decode_message(rest);
    REQUIRE(message.has_value());
    out.push_back(message.value());
    rest = rest.subspan(static_cast<std::size_t>(message.value().total_bytes));
  }
  return out;
}

std::string text_field(const proto::Command& c, std::string_view key) {
  return std::string(c.field(key).value_or("<absent>"));
}

std::int64_t long_field(const proto::Command& c, std::string_view key) {
  const auto value = c.field_long(key);
  REQUIRE_MESSAGE(value.has_value(), "field " << std::string(key) << " is missing");
  return *value;
}

std::int64_t max_offset(Client& c, std::string_view topic, std::int64_t queue_id) {
  proto::Command r;
  r.code = proto::RequestCode::kGetMaxOffset;
  r.set("topic", topic).set("queueId", queue_id);
  return long_field(c.call(r), "offset");
}

}  // namespace tenon::broker::test
