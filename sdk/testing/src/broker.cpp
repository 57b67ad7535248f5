#include "tenon/broker/broker.h"

#include "faults.h"

#include "tenon/base/result.h"
#include "tenon/host/plugin_registry.h"
#include "tenon/namesrv/name_server.h"
#include "tenon/sdk/admin.h"
#include "tenon/sdk/client.h"
#include "tenon/testing.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

extern "C" {
extern const tenon_entry tenon_entry_store_memory;
extern const tenon_entry tenon_entry_store_file;
extern const tenon_entry tenon_entry_filter_sql92;
extern const tenon_entry tenon_entry_txn_default;
}

namespace tenon::testing {
namespace {

constexpr const char* kHost = "127.0.0.1";

sdk::Error to_sdk(const Error& error, std::string_view what) {
  sdk::Error out;
  out.code = error.code == Errc::kInvalid ? sdk::Errc::kInvalidArgument : sdk::Errc::kInternal;
  out.remark = std::string(what) + ": " + error.detail;
  return out;
}

/// A folder of its own, gone with the object.
class Folder {
 public:
  static Result<std::unique_ptr<Folder>> make() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "tenon-test-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return os_error("make a temporary folder " + path, error ? error.value() : errno);
    }
    return std::unique_ptr<Folder>(new Folder(std::move(path)));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit Folder(std::filesystem::path path)
      : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// Files as small as a test needs them.
ConfigNode small_files() {
  ConfigNode options;
  options.set("commitlog_file", ConfigNode{std::string("64MiB")});
  options.set("index_slots", ConfigNode{std::int64_t{10'000}});
  options.set("index_items", ConfigNode{std::int64_t{40'000}});
  return options;
}

ConfigNode check_times(std::chrono::milliseconds every) {
  const std::string text = std::to_string(every.count()) + "ms";
  ConfigNode options;
  options.set("timeout", ConfigNode{text});
  options.set("interval", ConfigNode{text});
  return options;
}

Result<std::unique_ptr<host::PluginRegistry>> plugins() {
  host::RegistryOptions options;
  options.use_environment = false;
  auto registry = host::PluginRegistry::create(std::move(options));
  for (const tenon_entry* entry : {&tenon_entry_store_memory,
                                   &tenon_entry_store_file,
                                   &tenon_entry_filter_sql92,
                                   &tenon_entry_txn_default}) {
    TENON_TRY(registry->add_static(entry));
  }
  return registry;
}

}  // namespace

class Broker::Parts {
 public:
  explicit Parts(BrokerOptions options)
      : options_(std::move(options)) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Result<> prepare() {
    TENON_TRY(folder_, Folder::make());
    TENON_TRY(registry_, plugins());
    config_.name = options_.name;
    config_.cluster = options_.cluster;
    config_.listen_host = kHost;
    config_.broker_ip1 = kHost;
    config_.port = 0;
    config_.fast_port = false;
    config_.store_root = folder_->path();
    config_.io_threads = 1;
    config_.worker_threads = 1;
    config_.auto_create_topic = options_.create_topics;
    config_.message_delay_level = options_.delay_levels;
    config_.property_filter = true;
    config_.recall_message = true;
    config_.fast_failure = false;  // a test machine that is busy is no overload
    return ok();
  }

  Result<> start_name_server() {
    namesrv::NamesrvConfig config;
    config.listen_host = kHost;
    config.listen_port = name_server_port_;
    namesrv::NamesrvHooks hooks;
    hooks.intercept = [plan = route_plan_](net::ConnectionHandler& inner) {
      return std::make_unique<RouteGate>(plan, inner);
    };
    TENON_TRY(name_server_, namesrv::NameServer::start(std::move(config), nullptr, hooks));
    name_server_port_ = name_server_->port();
    config_.namesrv = {name_servers()};
    return ok();
  }

  Result<> start_broker() {
    broker::PluginSlots slots;
    slots.storage.plugin = options_.keep_messages ? "tenon.store.file" : "tenon.store.memory";
    slots.storage.options = options_.keep_messages ? &store_options_ : nullptr;
    slots.filters.push_back({"tenon.filter.sql92", nullptr});
    slots.txn_check = {"tenon.txn.default",
                       options_.transaction_check.count() > 0 ? &check_options_ : nullptr};
    broker::BrokerHooks hooks;
    hooks.intercept = [plan = plan_](net::ConnectionHandler& inner) {
      return std::make_unique<FaultGate>(plan, inner);
    };
    TENON_TRY(broker_, broker::Broker::start(config_, *registry_, slots, std::move(hooks)));
    config_.port = broker_->port();
    address_ = broker_->advertised_address();
    return ok();
  }

  void stop_broker() {
    if (broker_ == nullptr) {
      return;
    }
    broker_->stop();
    broker_.reset();
    if (!options_.keep_messages) {  // positions in a store that is gone mean nothing
      for (const char* name :
           {"consumerOffset.json", "delayOffset.json", "timercheck", "timerPending"}) {
        std::error_code ignored;
        std::filesystem::remove(folder_->path() / "config" / name, ignored);
        std::filesystem::remove(folder_->path() / "config" / (std::string(name) + ".bak"), ignored);
      }
    }
  }

  void stop_name_server() {
    if (name_server_ != nullptr) {
      name_server_->stop();
      name_server_.reset();
    }
  }

  /// Waits until the name server knows the broker. A first registration may still go into the
  /// connection to the name server before.
  bool registered() {
    for (int attempt = 0; attempt < 200; ++attempt) {
      broker_->register_now();
      for (int i = 0; i < 25; ++i) {
        if (name_server_->broker_count() > 0) {
          return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return false;
  }

  /// Waits until the name server has dealt with a registration that begins after this call.
  bool register_again() {
    const std::uint64_t before = route_plan_->registrations();
    for (int attempt = 0; attempt < 200; ++attempt) {
      broker_->register_now();
      for (int i = 0; i < 25; ++i) {
        if (route_plan_->registrations() > before) {
          return name_server_->broker_count() > 0;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return false;
  }

  std::string name_servers() const {
    return std::string(kHost) + ":" + std::to_string(name_server_port_);
  }

  BrokerOptions options_;
  std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
  std::shared_ptr<FaultPlan> route_plan_ = std::make_shared<FaultPlan>();  ///< of the name server
  ConfigNode store_options_ = small_files();
  ConfigNode check_options_ = check_times(options_.transaction_check);
  broker::BrokerConfig config_{};
  std::string address_{};
  std::uint16_t name_server_port_ = 0;
  std::unique_ptr<Folder> folder_{};
  std::unique_ptr<host::PluginRegistry> registry_{};
  std::unique_ptr<namesrv::NameServer> name_server_{};
  std::unique_ptr<broker::Broker> broker_{};
};

sdk::Result<Broker> Broker::start(BrokerOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  if (auto r = parts->prepare(); !r) {
    return to_sdk(r.error(), "prepare");
  }
  if (auto r = parts->start_name_server(); !r) {
    return to_sdk(r.error(), "name server");
  }
  if (auto r = parts->start_broker(); !r) {
    return to_sdk(r.error(), "broker");
  }
  Broker broker(std::move(parts));
  for (const Topic& topic : broker.parts_->options_.topics) {
    if (auto r = broker.create_topic(topic.name, topic.queues); !r) {
      return std::move(r).error();
    }
  }
  for (const std::string& group : broker.parts_->options_.groups) {
    if (auto r = broker.create_topic("%RETRY%" + group, 1); !r) {
      return std::move(r).error();
    }
  }
  return broker;
}

Broker::Broker(std::unique_ptr<Parts> parts) noexcept
    : parts_(std::move(parts)) {}
Broker::Broker(Broker&&) noexcept = default;
Broker& Broker::operator=(Broker&& other) noexcept {
  if (this != &other) {
    Broker ended(std::move(*this));
    parts_ = std::move(other.parts_);
  }
  return *this;
}
Broker::~Broker() {
  if (parts_ != nullptr) {
    parts_->stop_broker();
    parts_->stop_name_server();
  }
}

std::string Broker::name_servers() const {
  return parts_->name_servers();
}
std::string Broker::address() const {
  return parts_->address_;
}

sdk::Result<void> Broker::create_topic(std::string_view name, int queues) {
  auto client = sdk::Client::connect({.name_servers = name_servers()});
  if (!client) {
    return std::move(client).error();
  }
  auto admin = sdk::Admin::open(*client);
  if (!admin) {
    return std::move(admin).error();
  }
  return admin->create_topic(parts_->options_.cluster, name, queues);
}

void Broker::inject(Fault fault) {
  auto& plan = fault.on == Call::kRoute ? parts_->route_plan_ : parts_->plan_;
  plan->add(std::move(fault));
}

void Broker::fail_next(int times, int code, std::string_view remark) {
  Fault fault;
  fault.times = times;
  fault.code = code;
  fault.remark = remark;
  inject(std::move(fault));
}

void Broker::delay(std::chrono::milliseconds by) {
  parts_->plan_->delay_all(by);
}
void Broker::clear_faults() {
  parts_->plan_->clear();
  parts_->route_plan_->clear();
}
std::uint64_t Broker::requests(Call call) const {
  return (call == Call::kRoute ? parts_->route_plan_ : parts_->plan_)->counted(call);
}
std::size_t Broker::cut_connections() {
  return parts_->plan_->cut_all();
}

void Broker::stop() {
  parts_->stop_broker();
}

sdk::Result<void> Broker::restart() {
  parts_->stop_broker();
  if (auto r = parts_->start_broker(); !r) {
    return to_sdk(r.error(), "broker");
  }
  return {};
}

void Broker::stop_name_server() {
  parts_->stop_name_server();
}

sdk::Result<void> Broker::freeze_routes(bool frozen) {
  parts_->route_plan_->freeze(frozen);
  if (!frozen && parts_->broker_ != nullptr && parts_->name_server_ != nullptr) {
    if (!parts_->register_again()) {
      return sdk::Error{sdk::Errc::kTimeout, -1, "the broker did not register"};
    }
  }
  return {};
}

sdk::Result<void> Broker::restart_name_server() {
  parts_->stop_name_server();
  parts_->route_plan_->freeze(false);
  if (auto r = parts_->start_name_server(); !r) {
    return to_sdk(r.error(), "name server");
  }
  if (parts_->broker_ != nullptr && !parts_->registered()) {
    return sdk::Error{sdk::Errc::kTimeout, -1, "the broker did not register"};
  }
  return {};
}

}  // namespace tenon::testing
