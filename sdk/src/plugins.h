// Queue selector and allocator plug-ins of a client (design: plug-in ABI §14, §15).
#pragma once

#include "topic_info.h"

#include "tenon/host/plugin_registry.h"
#include "tenon/sdk/result.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

/// An instance of a selector plug-in. Thread: any.
class SelectorPlugin {
 public:
  SelectorPlugin(std::unique_ptr<host::Instance> instance, host::Interface<tenon_selector> table);
  ~SelectorPlugin();
  SelectorPlugin(const SelectorPlugin&) = delete;
  SelectorPlugin& operator=(const SelectorPlugin&) = delete;

  /// The queues of one route of one topic as the plug-in knows them; dropped by the destructor.
  class QueueSet {
   public:
    QueueSet(std::shared_ptr<SelectorPlugin> plugin, TopicInfoPtr info, std::uint64_t generation);
    ~QueueSet();
    QueueSet(const QueueSet&) = delete;
    QueueSet& operator=(const QueueSet&) = delete;
    /// Index of a queue, or negative: use round robin. Does not allocate.
    int select(const tenon_select& how) const noexcept;

   private:
    std::shared_ptr<SelectorPlugin> plugin_;
    TopicInfoPtr info_;
    std::vector<tenon_queue_ref> refs_;
    tenon_queue_set set_{};
    bool accepted_ = false;
  };

  void report(const tenon_send_report& report) noexcept;

 private:
  std::unique_ptr<host::Instance> instance_;
  host::Interface<tenon_selector> table_;
};

/// Divides queues among the members of a group.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual std::string_view wire_name() const noexcept = 0;
  /// @param queues   sorted; @param clients  sorted, with us at self_index
  virtual Result<std::vector<Queue>> allocate(std::string_view group,
                                              std::string_view topic,
                                              const std::vector<Queue>& queues,
                                              const std::vector<std::string>& clients,
                                              std::size_t self_index) = 0;
};

/// AVG (spec: client §5.7).
std::vector<Queue> allocate_averagely(const std::vector<Queue>& queues,
                                      std::size_t client_count,
                                      std::size_t self_index);

/// Thread: any.
class Plugins {
 public:
  explicit Plugins(const std::vector<std::string>& dirs);
  Result<std::shared_ptr<SelectorPlugin>> selector(const std::string& id);
  /// @param name  empty or "AVG": built in; else a plug-in id, a path or a wire name
  Result<std::unique_ptr<Allocator>> allocator(const std::string& name);

 private:
  Result<std::unique_ptr<host::Instance>> make(const std::string& id);
  host::PluginRegistry& registry();
  std::vector<std::string> dirs_;
  std::mutex mutex_;
  std::unique_ptr<host::PluginRegistry> registry_;
};

}  // namespace tenon::sdk
