// tenon dev: name server and broker in one process, for trying and for tests.
#include "commands/context.h"
#include "servers/broker_node.h"
#include "servers/log_scope.h"
#include "support/memory.h"
#include "support/ready.h"

#include "tenon/config/toml.h"
#include "tenon/namesrv/name_server.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace tenon::app {
namespace {

struct DevCommand {
  std::string store{};
  std::string config{};
  std::string host = "127.0.0.1";
  std::optional<std::string> name{};
  std::vector<std::string> plugin_path{};
  std::uint16_t namesrv_port = 9876;
  std::uint16_t broker_port = 10911;
  bool memory = false;
};

/// Where a user's data belongs by the XDG rules.
std::filesystem::path default_store() {
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/') {
    return std::filesystem::path(data) / "tenon" / "dev";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::filesystem::path(home) / ".local" / "share" / "tenon" / "dev";
  }
  return std::filesystem::absolute("tenon-dev-store");
}

/// "1.2.3.4:5" or "[::1]:5".
std::string host_port(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<BrokerProgram> program_of(const DevCommand& o, bool verbose) {
  BrokerProgram out;
  if (!o.config.empty()) {
    TENON_TRY(const ConfigNode root, config::parse_toml_file(o.config));
    TENON_TRY(out, read_broker_program(root));
  } else {
    out.broker.name = "broker-a";
    out.broker.fast_port = false;  // one port less that may be taken
    // What is deleted goes by its age alone: the disk of somebody who tries things may be full of
    // other things.
    out.broker.retention.clean_forcibly = false;
    out.broker.retention.disk_full_pct = 100;
    out.log.level = verbose ? LogLevel::kInfo : LogLevel::kWarn;
  }
  out.broker.name = o.name.value_or(out.broker.name);
  out.broker.listen_host = o.host;
  out.broker.broker_ip1 = o.host;
  out.broker.port = o.broker_port;
  if (o.memory) {
    out.storage = config::Slot{.plugin = "tenon.store.memory"};
  }
  if (!o.store.empty() || o.config.empty()) {
    out.broker.store_root = o.store.empty() ? default_store() : std::filesystem::absolute(o.store);
  }
  out.plugins.search_path.insert(
      out.plugins.search_path.begin(), o.plugin_path.begin(), o.plugin_path.end());
  TENON_TRY(broker::validate(out.broker));
  return out;
}

/// Where a broker in memory keeps its topics, groups and offsets while it runs: they go with the messages.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> make() {
    std::error_code error;
    std::string path =
        (std::filesystem::temp_directory_path(error) / "tenon-memory-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return os_error("make a temporary folder " + path, error ? error.value() : errno);
    }
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path)
      : path_(std::move(path)) {}
  std::filesystem::path path_;
};

std::string store_text(const DevCommand& o, const BrokerProgram& program) {
  return o.memory ? std::string("memory") : program.broker.store_root.string();
}

int serve(Context& context, const DevCommand& o) {
  const StartClock clock;
  auto program = program_of(o, context.verbose);
  if (!program) {
    return failed(context, program.error().detail, kExitUsage);
  }
  const auto log = LogScope::open(program.value().log);
  if (!log) {
    return failed(context, log.error().detail);
  }
  std::unique_ptr<ScratchFolder> scratch;  // outlives the broker
  if (o.memory) {
    auto made = ScratchFolder::make();
    if (!made) {
      return failed(context, made.error().detail);
    }
    scratch = std::move(made).value();
    program.value().broker.store_root = scratch->path();
  }
  namesrv::NamesrvConfig namesrv_config;
  namesrv_config.listen_host = o.host;
  namesrv_config.listen_port = o.namesrv_port;
  const auto namesrv = namesrv::NameServer::start(namesrv_config);
  if (!namesrv) {
    return failed(context, fmt::format("name server: {}", namesrv.error().detail));
  }
  const std::string namesrv_address = host_port(o.host, namesrv.value()->port());
  program.value().broker.namesrv = {namesrv_address};
  const std::string store = store_text(o, program.value());
  auto node = BrokerNode::start(std::move(program).value(), context.stop);
  if (!node) {
    return failed(context, fmt::format("broker: {}", node.error().detail));
  }
  trim_memory();
  const std::string broker_address = node.value()->broker().advertised_address();
  if (context.json) {
    Json json;
    json.begin_object().field("namesrv", namesrv_address).field("broker", broker_address);
    json.field("store", store).field("start_ms", clock.ms()).field("pid", ::getpid());
    print_line(json.end_object().text());
  } else {
    print_line(fmt::format("serving: name server {}, broker {}, store {}, started in {:.0f} ms",
                           namesrv_address,
                           broker_address,
                           store,
                           clock.ms()));
  }
  context.stop.wait();
  const std::string fault = context.stop.fault();
  node.value()->stop();
  namesrv.value()->stop();
  return fault.empty() ? kExitOk : failed(context, fmt::format("stopped: {}", fault));
}

}  // namespace

void add_dev(CLI::App& app, Context& context) {
  const auto o = std::make_shared<DevCommand>();
  CLI::App* c = app.add_subcommand(
      "dev", "Start a name server and a broker in this process; Ctrl-C stops both");
  CLI::Option* store =
      c->add_option("--store",
                    o->store,
                    "Folder of all data [$XDG_DATA_HOME/tenon/dev, ~/.local/share/tenon/dev]");
  c->add_flag("--memory", o->memory, "Keep messages in memory only")->excludes(store);
  c->add_option("--namesrv-port", o->namesrv_port, "Port of the name server, 0: any")
      ->capture_default_str();
  c->add_option("--broker-port", o->broker_port, "Port of the broker, 0: any")
      ->capture_default_str();
  c->add_option("--host", o->host, "Address to listen on and to tell clients")
      ->capture_default_str();
  c->add_option("--name", o->name, "Name of the broker [broker-a]");
  c->add_option("--config,-c", o->config, "Broker's configuration file; options here override it");
  c->add_option("--plugin-path", o->plugin_path, "Folder to look for plug-ins in first");
  c->callback([&context, o] { context.run = [&context, o] { return serve(context, *o); }; });
}

}  // namespace tenon::app
