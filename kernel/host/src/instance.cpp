#include "instance.h"

#include "required_members.h"

#include "tenon/base/log.h"
#include "tenon/host/thread_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace tenon::host {
namespace {

/// What may exist only once in the process: singletons by id, state owners by id and folder.
class Exclusive {
 public:
  static Result<Exclusive> claim(const PluginInfo& plugin, const InstanceOptions& options) {
    Exclusive e;
    if ((plugin.flags & TENON_PLUGIN_SINGLETON) != 0) {
      e.key_ = plugin.id;
    } else if ((plugin.flags & TENON_PLUGIN_OWNS_STATE) != 0 && !options.store_root.empty()) {
      e.key_ = plugin.id + " on " + options.store_root.lexically_normal().string();
    }
    const std::scoped_lock lock(mutex());
    if (!e.key_.empty() && !taken().insert(e.key_).second) {
      Error error{
          Errc::kConflict,
          fmt::format("there is an instance of {} already, and it allows only one", e.key_)};
      e.key_.clear();
      return error;
    }
    return e;
  }
  Exclusive(Exclusive&& other) noexcept
      : key_(std::exchange(other.key_, {})) {}
  Exclusive& operator=(Exclusive&&) = delete;
  ~Exclusive() {
    if (!key_.empty()) {
      const std::scoped_lock lock(mutex());
      taken().erase(key_);
    }
  }

 private:
  Exclusive() = default;
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  static std::set<std::string>& taken() {
    static auto* t = new std::set<std::string>;
    return *t;
  }
  std::string key_{};
};

enum class State { kCreated, kInited, kActive };

std::string_view to_string(State s) {
  switch (s) {
    case State::kCreated:
      return "created";
    case State::kInited:
      return "inited";
    case State::kActive:
      return "active";
  }
  return "unknown";
}

void put_pairs(void* ctx, const tenon_kv* kv, std::size_t n) noexcept {
  auto& out = *static_cast<std::vector<std::pair<std::string, std::string>>*>(ctx);
  for (std::size_t i = 0; i < n; ++i) {
    out.emplace_back(text(kv[i].key), text(kv[i].value));
  }
}

class InstanceImpl final : public Instance {
 public:
  InstanceImpl(std::shared_ptr<const Library> library,
               const PluginInfo& info,
               const InstanceOptions& options,
               const RegistryOptions& registry,
               std::shared_ptr<ExecCore> core,
               Exclusive exclusive)
      : library_(std::move(library)),
        info_(info),
        name_(options.name.empty() ? info.id : options.name),
        timeout_(options.shutdown_timeout),
        core_(core),
        services_(std::make_unique<Services>(options, name_, registry, std::move(core))),
        exclusive_(std::move(exclusive)) {}
  ~InstanceImpl() override;

  Result<> create();
  const std::string& id() const noexcept override { return info_.id; }
  const std::string& name() const noexcept override { return name_; }
  Result<> init() override;
  Result<> activate() override;
  void deactivate() override;
  Result<bool> quiesce(tenon_token token) override;
  Result<> reconfigure(const ConfigNode* options) override;
  std::vector<std::pair<std::string, std::string>> status() override;
  std::vector<MetricSample> metrics() const override { return services_->metrics.snapshot(); }
  HoldCounter& holds() noexcept override { return services_->holds; }
  void* self() const noexcept override { return plugin_.self; }
  const void* raw_interface(const char* iid) override;

 protected:
  Result<> adopt(const char* iid, void* table, std::size_t table_bytes) override;

 private:
  Error failure(std::string_view what, const Error& e) const {
    return Error{e.code, fmt::format("plug-in {}: {}: {}", name_, what, e.detail), e.os_errno};
  }
  Error wrong_state(std::string_view what) const {
    return Error{Errc::kConflict,
                 fmt::format("plug-in {}: cannot {} while {}", name_, what, to_string(state_))};
  }

  const std::shared_ptr<const Library> library_;
  const PluginInfo info_;
  const std::string name_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<ExecCore> core_;
  std::unique_ptr<Services> services_;
  Exclusive exclusive_;
  tenon_plugin plugin_{};
  State state_ = State::kCreated;
};

Result<> InstanceImpl::create() {
  const ControlScope control;
  const tenon_plugin* theirs = nullptr;
  ErrorBuffer err;
  const tenon_status s =
      library_->factory().create(info_.id.c_str(), services_->host(), &theirs, err.raw());
  if (s < 0) {
    return failure("create", err.make_error(s));
  }
  if (theirs == nullptr) {
    return failure("create", Error{Errc::kInvalid, "the factory gave no instance"});
  }
  tenon_adopt(&plugin_, sizeof plugin_, theirs);
  const std::pair<const char*, bool> required[] = {
      {"init", plugin_.init != nullptr},
      {"activate", plugin_.activate != nullptr},
      {"deactivate", plugin_.deactivate != nullptr},
      {"destroy", plugin_.destroy != nullptr},
      {"get_interface", plugin_.get_interface != nullptr}};
  for (const auto& [member, present] : required) {
    if (!present) {
      plugin_.destroy = nullptr;  // not an instance: nothing of it is called
      return failure("create",
                     Error{Errc::kInvalid, fmt::format("tenon_plugin: member {} is null", member)});
    }
  }
  return ok();
}

Result<> InstanceImpl::init() {
  const ControlScope control;
  if (state_ != State::kCreated) {
    return wrong_state("init");
  }
  if (auto required = services_->config.check_required(info_); !required) {
    return failure("init", required.error());
  }
  ErrorBuffer err;
  if (const tenon_status s = plugin_.init(plugin_.self, err.raw()); s < 0) {
    return failure("init", err.make_error(s));
  }
  if (auto unknown = services_->config.check_unknown(info_); !unknown) {
    return failure("init", unknown.error());
  }
  state_ = State::kInited;
  return ok();
}

Result<> InstanceImpl::activate() {
  const ControlScope control;
  if (state_ != State::kInited) {
    return wrong_state("activate");
  }
  services_->exec->open(core_);
  ErrorBuffer err;
  if (const tenon_status s = plugin_.activate(plugin_.self, err.raw()); s < 0) {
    return failure("activate", err.make_error(s));
  }
  state_ = State::kActive;
  return ok();
}

void InstanceImpl::deactivate() {
  const ControlScope control;
  if (state_ != State::kActive) {
    return;
  }
  plugin_.deactivate(plugin_.self);
  state_ = State::kInited;
  services_->exec->close(timeout_);
}

Result<bool> InstanceImpl::quiesce(tenon_token token) {
  const ControlScope control;
  if (state_ != State::kActive) {
    return wrong_state("quiesce");
  }
  if (plugin_.quiesce == nullptr) {
    return true;
  }
  ErrorBuffer err;
  const tenon_status s = plugin_.quiesce(plugin_.self, token, err.raw());
  if (s < 0) {
    return failure("quiesce", err.make_error(s));
  }
  return s != TENON_PENDING;
}

Result<> InstanceImpl::reconfigure(const ConfigNode* options) {
  const ControlScope control;
  if (state_ != State::kActive) {
    return wrong_state("reconfigure");
  }
  if (plugin_.reconfigure == nullptr) {
    return failure(
        "reconfigure",
        Error{Errc::kUnsupported, "the plug-in reads its options only at start; restart"});
  }
  const ConfigNode* before = &services_->config.root();
  services_->config.replace(options);
  ErrorBuffer err;
  if (const tenon_status s = plugin_.reconfigure(plugin_.self, err.raw()); s < 0) {
    services_->config.replace(before);
    return failure("reconfigure", err.make_error(s));
  }
  return ok();
}

std::vector<std::pair<std::string, std::string>> InstanceImpl::status() {
  std::vector<std::pair<std::string, std::string>> out;
  if (plugin_.status != nullptr && state_ != State::kCreated) {
    const tenon_sink sink{sizeof sink, 0, &out, put_pairs};
    plugin_.status(plugin_.self, &sink);
  }
  return out;
}

const void* InstanceImpl::raw_interface(const char* iid) {
  return state_ == State::kCreated ? nullptr : plugin_.get_interface(plugin_.self, iid);
}

Result<> InstanceImpl::adopt(const char* iid, void* table, std::size_t table_bytes) {
  if (state_ == State::kCreated) {
    return wrong_state("offer an interface");
  }
  const void* theirs = raw_interface(iid);
  if (theirs == nullptr) {
    return Error{Errc::kUnsupported, fmt::format("plug-in {} does not offer {}", name_, iid)};
  }
  tenon_adopt(table, table_bytes, theirs);
  std::uint32_t copied = 0;
  std::memcpy(&copied, table, sizeof copied);
  if (auto complete = check_required_members(iid, table, copied); !complete) {
    return Error{complete.error().code,
                 fmt::format("plug-in {}: {}; repair the plug-in", name_, complete.error().detail)};
  }
  return ok();
}

InstanceImpl::~InstanceImpl() {
  deactivate();
  bool idle = services_->exec->close(timeout_);
  if (!services_->holds.wait_none(timeout_)) {
    log_error("host",
              "plug-in instance has open holds and is not destroyed plugin={} holds={}",
              name_,
              services_->holds.open());
    idle = false;
  } else if (!idle) {
    log_error("host",
              "plug-in code still runs after deactivate, the instance is not destroyed plugin={}",
              name_);
  }
  if (idle) {
    const ControlScope control;
    if (plugin_.destroy != nullptr) {
      plugin_.destroy(plugin_.self);
    }
    return;
  }
  // Something of the plug-in may still call us: what it reaches must outlive it.
  struct Parked {
    std::unique_ptr<Services> services;
    std::shared_ptr<const Library> library;
    void* self;
  };
  static auto* parked = new std::vector<Parked>;
  static auto* mutex = new std::mutex;
  const std::scoped_lock lock(*mutex);
  parked->push_back({std::move(services_), library_, plugin_.self});
}

}  // namespace

Result<std::unique_ptr<Instance>> create_instance(std::shared_ptr<const Library> library,
                                                  const PluginInfo& plugin,
                                                  const InstanceOptions& options,
                                                  const RegistryOptions& registry,
                                                  std::shared_ptr<ExecCore> core) {
  TENON_TRY(auto exclusive, Exclusive::claim(plugin, options));
  auto instance = std::make_unique<InstanceImpl>(
      std::move(library), plugin, options, registry, std::move(core), std::move(exclusive));
  TENON_TRY(instance->create());
  return std::unique_ptr<Instance>(std::move(instance));
}

}  // namespace tenon::host
