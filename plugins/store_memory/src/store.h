// tenon.storage/1 in RAM, for tests and for trying. The same records, positions and answers as
// tenon.store.file; nothing survives a stop. When the limit is reached the oldest messages go.
//
// One lock, no threads: dispatch and key index are done in line, everything is "durable" at once.
#pragma once

#include "memory_log.h"

#include "tenon/plugin.hpp"
#include "tenon/proto/message.h"
#include "tenon/store/host_services.h"
#include "tenon/store/record.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::store_memory {

inline constexpr tenon_config_key kOptionKeys[] = {
    plugin::key(
        "memory_limit", TENON_TYPE_BYTES, "256MiB", "the oldest messages are dropped beyond it"),
    plugin::key("segment", TENON_TYPE_BYTES, "8MiB", "what is dropped at a time; bounds a record"),
    plugin::key(
        "multi_dispatch",
        TENON_TYPE_BOOL,
        "false",
        "a message with INNER_MULTI_DISPATCH also enters the light queues (%LMQ%...) named there"),
    plugin::key("light_queues_max",
                TENON_TYPE_INT,
                "20000",
                "further light queues are not made; their messages are stored all the same"),
};

class Store {
 public:
  static constexpr plugin::About kAbout{.id = "tenon.store.memory",
                                        .version = "1.0.0",
                                        .name = "Memory store",
                                        .vendor = "Tenon",
                                        .url = nullptr,
                                        .doc = "Messages in RAM, gone after a stop; for tests",
                                        .flags = 0};
  static constexpr const auto& kKeys = kOptionKeys;
  using Interfaces = plugin::Offers<plugin::Storage>;

  explicit Store(plugin::Host& host);
  void activate();
  void deactivate();
  void status(const tenon_sink& out) { stats(&out); }

  // tenon.storage/1; contracts in tenon/abi/storage.h.
  tenon_status recover(const tenon_recover_opts* o, tenon_recover_result* r, tenon_error* err);
  tenon_status append(const tenon_record* recs,
                      std::size_t stride,
                      std::size_t n,
                      tenon_append_result* out,
                      std::size_t out_stride,
                      tenon_error* err);
  tenon_status open_queue(tenon_str topic,
                          std::uint32_t queue_id,
                          std::uint32_t flags,
                          tenon_queue* out,
                          tenon_error* err);
  tenon_status queue_bounds(tenon_queue q, tenon_queue_bounds* out);
  tenon_status index_read(tenon_queue q,
                          std::int64_t from,
                          tenon_index_entry* out,
                          std::size_t stride,
                          std::size_t cap,
                          std::size_t* n,
                          std::int64_t* next,
                          tenon_hold* hold);
  tenon_status fetch(const tenon_extent* ext,
                     std::size_t n,
                     std::uint32_t flags,
                     tenon_view* out,
                     std::size_t stride,
                     std::uint64_t* next_file,
                     tenon_hold* hold,
                     tenon_error* err);
  tenon_status message_at(std::uint64_t phys, tenon_view* out, tenon_hold* hold, tenon_error* err);
  tenon_status read_log(std::uint64_t phys,
                        std::uint32_t max_bytes,
                        std::uint32_t flags,
                        tenon_view* out,
                        tenon_hold* hold,
                        tenon_error* err);
  tenon_status log_bounds(tenon_log_bounds* out);
  tenon_status offset_by_time(
      tenon_queue q, std::int64_t ms, std::uint32_t boundary, std::int64_t* out, tenon_error* err);
  tenon_status time_of(tenon_queue q, std::int64_t offset, std::int64_t* ms, tenon_error* err);
  tenon_status request_flush(std::uint64_t upto);
  tenon_status flush_now(std::uint64_t upto, std::uint32_t timeout_ms, tenon_error* err);
  tenon_status query_keys(const tenon_key_query* q,
                          tenon_extent* out,
                          std::size_t stride,
                          tenon_key_result* r,
                          tenon_error* err);
  tenon_status retention(const tenon_retention* p, tenon_retention_result* r, tenon_error* err);
  tenon_status drop_topics(const tenon_str* keep,
                           std::size_t n,
                           std::uint32_t* dropped,
                           tenon_error* err);
  void stats(const tenon_sink* out);

 private:
  struct Entry {
    std::uint64_t phys = 0;
    std::uint32_t bytes = 0;
    std::int64_t tags_code = 0;
    std::int64_t store_ms = 0;
  };
  struct Queue {
    std::string topic{};
    std::uint32_t id = 0;
    tenon_queue handle = 0;
    bool dropped = false;
    std::int64_t min = 0;
    std::deque<Entry> entries{};
    std::int64_t max() const { return min + static_cast<std::int64_t>(entries.size()); }
  };
  struct Hit {
    std::uint64_t phys = 0;
    std::uint32_t bytes = 0;
    std::int64_t store_ms = 0;
  };

  tenon_status append_one(const tenon_record& r, tenon_append_result& out, tenon_error* err);
  tenon_status append_checked(const tenon_record& r,
                              Queue* queue,
                              tenon_append_result& out,
                              tenon_error* err);
  tenon_record with_light_offsets(const tenon_record& r);
  tenon_status add_frames(const tenon_record& r, Queue* queue, tenon_append_result& out);
  void add_entry(const tenon_record& r, Queue& queue, const Entry& entry, tenon_bytes properties);
  void add_keys(std::uint64_t phys, std::uint32_t bytes);
  void make_segment();
  void drop_oldest();
  Queue* find(std::string_view topic, std::uint32_t id, bool create);
  Queue* at(tenon_queue handle, tenon_status& status);
  void hold_segment(std::shared_ptr<Segment> segment,
                    std::uint64_t phys,
                    std::size_t bytes,
                    tenon_view& view,
                    tenon_hold* hold);

  store::HostServices host_;
  std::uint64_t limit_bytes_ = 0;
  std::uint64_t segment_bytes_ = 0;
  bool multi_dispatch_ = false;
  std::uint32_t light_queues_max_ = 0;

  mutable std::mutex mutex_{};
  bool active_ = false;
  std::int64_t last_ms_ = 0;
  std::uint64_t last_key_phys_ = 0;
  MemoryLog log_{};
  std::map<std::pair<std::string, std::uint32_t>, Queue*> names_{};
  std::deque<Queue> queues_{};
  std::unordered_map<std::int32_t, std::deque<Hit>> keys_{};
  std::string scratch_{};
  std::vector<std::pair<Queue*, std::int64_t>> light_targets_{};  ///< of the record being appended
  std::string light_text_{};                                      ///< its properties
  std::uint32_t lights_ = 0;
  std::vector<tenon_arrival> arrivals_{};
  std::vector<std::shared_ptr<Segment>> dropped_{};
};

}  // namespace tenon::store_memory
