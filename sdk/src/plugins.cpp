#include "plugins.h"

#include "errors.h"

#include "tenon/base/log.h"

#include <algorithm>

namespace tenon::sdk {
namespace {

constexpr const char* kSelectorId = "tenon.queue-selector/1";
constexpr const char* kAllocatorId = "tenon.queue-allocator/1";
constexpr std::uint32_t kClientSide = 2;

class Averagely final : public Allocator {
 public:
  std::string_view wire_name() const noexcept override { return "AVG"; }
  Result<std::vector<Queue>> allocate(std::string_view,
                                      std::string_view,
                                      const std::vector<Queue>& queues,
                                      const std::vector<std::string>& clients,
                                      std::size_t self_index) override {
    return allocate_averagely(queues, clients.size(), self_index);
  }
};

std::vector<tenon_queue_ref> queue_refs(const std::vector<Queue>& queues) {
  std::vector<tenon_queue_ref> refs;
  refs.reserve(queues.size());
  for (const Queue& q : queues) {
    refs.push_back({host::abi_str(q.broker), static_cast<std::uint32_t>(q.id), 0});
  }
  return refs;
}

class PluginAllocator final : public Allocator {
 public:
  PluginAllocator(std::unique_ptr<host::Instance> instance, host::Interface<tenon_allocator> table)
      : instance_(std::move(instance)),
        table_(table) {}
  ~PluginAllocator() override { instance_->deactivate(); }
  PluginAllocator(const PluginAllocator&) = delete;
  PluginAllocator& operator=(const PluginAllocator&) = delete;

  std::string_view wire_name() const noexcept override {
    return table_->wire_name == nullptr ? std::string_view() : table_->wire_name;
  }

  Result<std::vector<Queue>> allocate(std::string_view group,
                                      std::string_view topic,
                                      const std::vector<Queue>& queues,
                                      const std::vector<std::string>& clients,
                                      std::size_t self_index) override {
    const std::vector<tenon_queue_ref> refs = queue_refs(queues);
    std::vector<tenon_str> names;
    names.reserve(clients.size());
    for (const std::string& c : clients) {
      names.push_back(host::abi_str(c));
    }
    tenon_allocate in{};
    in.size = sizeof in;
    in.self_index = static_cast<std::uint32_t>(self_index);
    in.group = host::abi_str(group);
    in.topic = host::abi_str(topic);
    in.clients = names.data();
    in.client_count = static_cast<std::uint32_t>(names.size());
    in.queue_count = static_cast<std::uint32_t>(refs.size());
    in.queues = refs.data();
    in.stride = sizeof(tenon_queue_ref);
    std::vector<std::uint32_t> indexes(refs.size());
    std::size_t n = 0;
    host::ErrorBuffer error;
    const tenon_status status =
        table_->allocate(table_.self, &in, indexes.data(), indexes.size(), &n, error.raw());
    if (status < 0) {
      return from_base(error.make_error(status, "allocate"), Errc::kInternal);
    }
    std::vector<Queue> out;
    for (std::size_t i = 0; i < std::min(n, indexes.size()); ++i) {
      if (indexes[i] >= queues.size()) {
        return make_error(Errc::kInternal, "allocator plug-in returned an index out of range");
      }
      out.push_back(queues[indexes[i]]);
    }
    return out;
  }

 private:
  std::unique_ptr<host::Instance> instance_;
  host::Interface<tenon_allocator> table_;
};

}  // namespace

std::vector<Queue> allocate_averagely(const std::vector<Queue>& queues,
                                      std::size_t client_count,
                                      std::size_t self_index) {
  const std::size_t n = queues.size();
  const std::size_t rest = n % client_count;
  const bool takes_one_more = self_index < rest;
  const std::size_t share = n <= client_count ? 1 : n / client_count + (takes_one_more ? 1 : 0);
  const std::size_t start =
      rest > 0 && takes_one_more ? self_index * share : self_index * share + rest;
  std::vector<Queue> out;
  for (std::size_t i = start; i < std::min(start + share, n); ++i) {
    out.push_back(queues[i]);
  }
  return out;
}

SelectorPlugin::SelectorPlugin(std::unique_ptr<host::Instance> instance,
                               host::Interface<tenon_selector> table)
    : instance_(std::move(instance)),
      table_(table) {}

SelectorPlugin::~SelectorPlugin() {
  instance_->deactivate();
}

void SelectorPlugin::report(const tenon_send_report& r) noexcept {
  if (table_->report != nullptr) {
    table_->report(table_.self, &r, sizeof r, 1);
  }
}

SelectorPlugin::QueueSet::QueueSet(std::shared_ptr<SelectorPlugin> plugin,
                                   TopicInfoPtr info,
                                   std::uint64_t generation)
    : plugin_(std::move(plugin)),
      info_(std::move(info)) {
  refs_.reserve(info_->publish.size());
  for (const TopicInfo::PublishQueue& q : info_->publish) {
    refs_.push_back(
        {host::abi_str(info_->brokers[q.broker].name), static_cast<std::uint32_t>(q.id), 0});
  }
  set_.size = sizeof set_;
  set_.count = static_cast<std::uint32_t>(refs_.size());
  set_.generation = generation;
  set_.topic = host::abi_str(info_->topic);
  set_.queues = refs_.data();
  set_.stride = sizeof(tenon_queue_ref);
  const auto& table = plugin_->table_;
  accepted_ = table->set_queues == nullptr || table->set_queues(table.self, &set_) >= 0;
}

SelectorPlugin::QueueSet::~QueueSet() {
  const auto& table = plugin_->table_;
  if (accepted_ && table->drop_queues != nullptr) {
    table->drop_queues(table.self, &set_);
  }
}

int SelectorPlugin::QueueSet::select(const tenon_select& how) const noexcept {
  const auto& table = plugin_->table_;
  return accepted_ ? table->select(table.self, &set_, &how) : -1;
}

Plugins::Plugins(const std::vector<std::string>& dirs)
    : dirs_(dirs) {}

host::PluginRegistry& Plugins::registry() {
  if (!registry_) {
    host::RegistryOptions options;
    for (const std::string& dir : dirs_) {
      options.search_path.emplace_back(dir);
    }
    options.side = kClientSide;
    options.host_name = "libtenon";
    registry_ = host::PluginRegistry::create(std::move(options));
  }
  return *registry_;
}

Result<std::unique_ptr<host::Instance>> Plugins::make(const std::string& id) {
  auto instance = registry().create(id, host::InstanceOptions());
  if (instance.has_error()) {
    return from_base(instance.error(), Errc::kNotFound);
  }
  if (auto r = instance.value()->init(); r.has_error()) {
    return from_base(r.error(), Errc::kInvalidArgument);
  }
  if (auto r = instance.value()->activate(); r.has_error()) {
    return from_base(r.error(), Errc::kInvalidArgument);
  }
  return std::move(instance).value();
}

Result<std::shared_ptr<SelectorPlugin>> Plugins::selector(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  auto instance = make(id);
  if (!instance) {
    return std::move(instance).error();
  }
  auto table = (*instance)->interface<tenon_selector>(kSelectorId);
  if (table.has_error()) {
    return from_base(table.error(), Errc::kNotFound);
  }
  return std::make_shared<SelectorPlugin>(std::move(*instance), table.value());
}

Result<std::unique_ptr<Allocator>> Plugins::allocator(const std::string& name) {
  if (name.empty() || name == "AVG") {
    return std::unique_ptr<Allocator>(std::make_unique<Averagely>());
  }
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> candidates{name};
  const bool is_wire_name =
      std::none_of(name.begin(), name.end(), [](char c) { return c == '.' || c == '/'; });
  if (is_wire_name) {
    candidates.clear();
    for (const host::PluginInfo& info : registry().list()) {
      if (info.refused.empty() &&
          std::find(info.interfaces.begin(), info.interfaces.end(), kAllocatorId) !=
              info.interfaces.end()) {
        candidates.push_back(info.id);
      }
    }
  }
  for (const std::string& id : candidates) {
    auto instance = make(id);
    if (!instance) {
      if (is_wire_name) {
        continue;
      }
      return std::move(instance).error();
    }
    auto table = (*instance)->interface<tenon_allocator>(kAllocatorId);
    if (table.has_error()) {
      return from_base(table.error(), Errc::kNotFound);
    }
    auto made = std::make_unique<PluginAllocator>(std::move(*instance), table.value());
    if (!is_wire_name || made->wire_name() == name) {
      return std::unique_ptr<Allocator>(std::move(made));
    }
  }
  return make_error(Errc::kNotFound, "no allocator plug-in is called " + name);
}

}  // namespace tenon::sdk
