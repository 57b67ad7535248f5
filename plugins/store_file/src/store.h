// The store: commit log, consume queues and key index behind tenon.storage/1, compatible with the
// files of RocketMQ 4.9 (plug-in ABI §11, spec: store).
//
// Who does what:
//   append sequence   encodes into the log, assigns offsets; writes queue units itself as long as
//                     nothing is behind ("dispatch role")
//   follower thread   dispatches what the appender could not (recovery, visible limit, errors), and
//                     feeds the key index by reading the log again, at its own pace
//   flusher thread    brings log and queues to the disk, moves the durable position
//   helper thread     makes files and pages ready ahead of the appender, gives back those behind
#pragma once

#include "layout.h"
#include "store_state.h"

#include "tenon/plugin.hpp"
#include "tenon/proto/message.h"
#include "tenon/store/record.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tenon::store_file {

class Store : private StoreState {
 public:
  static constexpr plugin::About kAbout{
      .id = "tenon.store.file",
      .version = "1.0.0",
      .name = "File store",
      .vendor = "Tenon",
      .url = nullptr,
      .doc = "Commit log, consume queues and key index in the file format of RocketMQ 4.9",
      .flags = TENON_PLUGIN_OWNS_STATE | TENON_PLUGIN_STARTS_THREADS};
  static constexpr const auto& kKeys = kOptionKeys;
  static constexpr std::uint32_t kStorageCaps =
      TENON_STORAGE_SENDFILE | TENON_STORAGE_COLD | TENON_STORAGE_BITMAP | TENON_STORAGE_RAW;
  using Interfaces = plugin::Offers<plugin::Storage>;

  explicit Store(plugin::Host& host);
  ~Store();
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
  tenon_status set_floor(std::uint64_t phys);
  tenon_status drop_topics(const tenon_str* keep,
                           std::size_t n,
                           std::uint32_t* dropped,
                           tenon_error* err);
  tenon_status append_raw(std::uint64_t phys,
                          const tenon_bytes* pieces,
                          std::size_t n,
                          tenon_error* err);
  tenon_status truncate(std::uint64_t phys, std::uint32_t flags, tenon_error* err);
  tenon_status reset(std::uint64_t start, tenon_error* err);
  tenon_status set_visible_limit(std::uint64_t phys);
  tenon_status rebuild_counters(tenon_error* err);
  void stats(const tenon_sink* out);
  tenon_status set_role(std::uint32_t role);

 private:
  // store_recover.cpp
  struct Scan;
  Result<> open_folder(Layout& layout);
  Result<> open_log_folders() const;
  Result<> open_files(const Layout& layout, bool crashed);
  Error lost_files(const ConsumeQueue& queue);
  std::size_t choose_start(const std::vector<std::uint64_t>& bases, bool crashed);
  Result<> scan_log(const tenon_recover_opts* o, Scan& scan);
  Result<> scan_file(const tenon_recover_opts* o, MappedFile& file, Scan& scan);
  Result<> settle(const Layout& layout, Scan& scan, bool crashed);
  Result<> drop_ghosts(ConsumeQueue& queue);
  bool is_record_of(const ConsumeQueue& queue,
                    std::int64_t offset,
                    const Unit& unit,
                    std::int64_t* store_ms = nullptr);
  bool is_place_of_another(ConsumeQueue& queue, std::int64_t offset, std::uint64_t phys);
  Result<std::uint64_t> index_start(bool crashed);
  void limit_mappings();
  void share_mappings(bool opening);
  bool forget_all();  ///< false while a reader holds a file

  // store_append.cpp
  struct Batch;
  tenon_status append_one(const tenon_record& r, Batch& batch, tenon_append_result& out);
  tenon_status append_batch(const tenon_record& r,
                            ConsumeQueue& queue,
                            tenon_queue handle,
                            Batch& batch,
                            tenon_append_result& out);
  ConsumeQueue* queue_of(const tenon_record& r, tenon_queue& handle, tenon_status& status);
  tenon_status append_encoded(const tenon_record& r,
                              ConsumeQueue* queue,
                              tenon_queue handle,
                              Batch& batch,
                              tenon_append_result& out);
  void finish_append(Batch& batch);

  // store_light.cpp
  tenon_record with_light_offsets(const tenon_record& r);
  ConsumeQueue* light_queue(std::string_view name, tenon_queue& handle);
  void advance_light_targets() noexcept;
  bool dispatch_light_targets(const Unit& unit, std::int64_t store_ms, tenon_bytes properties);
  Result<> dispatch_light_record(const proto::MessageView& m, const Unit& unit);

  // store_dispatch.cpp
  bool take_dispatch_role() noexcept { return !dispatch_role_.exchange(true); }
  void give_dispatch_role() noexcept { dispatch_role_.store(false, std::memory_order_release); }
  void wait_dispatch_role() noexcept;
  /// Adds one entry to its queue and to the arrivals. False: the queue could not be written.
  bool dispatch_one(ConsumeQueue& queue,
                    tenon_queue handle,
                    std::int64_t offset,
                    const Unit& unit,
                    std::int64_t store_ms,
                    tenon_bytes properties);
  /// Keeps what pulls with a filter want to know in the queue's extension. @return what the queue
  /// unit holds in place of the tags code; that itself, if it cannot be kept.
  std::int64_t extend_unit(ConsumeQueue& queue, const tenon_arrival& entry, std::uint32_t bytes);
  Result<> dispatch_record(const proto::MessageView& m, std::uint64_t phys);
  Result<> dispatch_entry(ConsumeQueue& queue,
                          tenon_queue handle,
                          std::int64_t offset,
                          Unit unit,
                          const proto::MessageView& m);
  void flush_arrivals(std::uint64_t dispatched);
  bool pump();
  std::uint64_t pump_file(MappedFile& file, std::uint64_t pos, std::uint64_t limit);
  bool index_some();
  void run_follower();
  void index_failed(const Error& error);
  bool is_drained() const noexcept;

  // store_flush.cpp
  void run_flusher();
  void run_helper();
  void flush_log_round(std::uint64_t now_ns);
  void flush_queues_round(std::uint64_t now_ns);
  bool flush_many_queues(std::uint32_t least_pages);
  bool flush_queues(std::uint32_t least_pages);
  bool sync_log(std::uint64_t target);
  void flush_everything();
  void save_marks();
  void fail(const Error& error);
  void give_back_pages();
  void unmap_queues();
  void publish(std::uint32_t changed);

  // store_retention.cpp
  struct Pressure;
  static Pressure pressure_of(const tenon_retention& p, std::uint32_t use);
  void delete_log_files(const tenon_retention& p, bool force, tenon_retention_result& result);
  void set_disk_full(bool full, std::uint32_t use);
  void report_held(std::size_t files);

  // store_read.cpp
  Result<std::int64_t> store_time_of(const Unit& unit);
  ConsumeQueue* live_queue(tenon_queue handle, tenon_status& status) const;
  std::optional<std::int64_t> time_at(ConsumeQueue& queue, std::int64_t offset);
  std::pair<std::int64_t, std::int64_t> file_of_time(ConsumeQueue& queue, std::int64_t ms);
  bool is_resident(const std::uint8_t* at, std::uint64_t phys, std::uint64_t bytes) const;
  tenon_view view_of(MappedFile& file, std::uint64_t phys, std::uint32_t bytes) const;
  std::uint32_t health() const noexcept;

  // store_replica.cpp
  Result<> cut_to(std::uint64_t phys, bool durably);
  bool is_frame_boundary(std::uint64_t phys);
  Result<> cut_index(std::uint64_t phys, bool durably);
  void rebuild_counters_to(std::uint64_t end);
  void advance_frame_end();
  Result<> remove_files(bool including_log);

  bool is_active() const noexcept {
    return phase_.load(std::memory_order_acquire) == Phase::kActive;
  }
};

}  // namespace tenon::store_file
