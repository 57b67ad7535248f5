// Runs a storage plug-in in a test: a host that records what it is told, and short calls around the
// interface table.
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

/// A new folder below the system's temporary one, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Arrival {
  std::string topic{};
  std::uint32_t queue_id = 0;
  std::int64_t queue_offset = 0;
  std::int64_t tags_code = 0;
  std::int64_t store_ms = 0;
  std::uint64_t phys = 0;
  std::string properties{};
};

/// The host side. Options are texts and numbers; a byte size may be given as a number. Thread: any
/// after set-up.
class FakeHost {
 public:
  explicit FakeHost(std::filesystem::path store_root);
  const tenon_host* raw() const { return &host_; }

  void set(std::string key, std::int64_t value) { numbers_[std::move(key)] = value; }
  void set(std::string key, std::string value) { texts_[std::move(key)] = std::move(value); }
  void set_root(std::filesystem::path root) { root_ = root.string(); }
  /// A fixed time, moved by the test; without it the machine's clock.
  std::atomic<std::int64_t> fixed_wall_ms{0};
  bool record_arrivals = true;
  /// Fills filter bit maps; without it nothing is known (all bits set).
  std::function<void(const tenon_arrival&, std::uint8_t*, std::size_t)> index_bits{};

  std::vector<Arrival> arrivals() const;
  tenon_progress last_progress() const;
  tenon_status faulted() const { return fault_.load(); }
  std::string log_text() const;
  /// Waits until ready() or 10 s have passed, looking again at every event.
  template <class Ready>
  bool wait(Ready&& ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return ready(); });
  }

 private:
  friend struct FakeServices;
  std::string root_;
  std::map<std::string, std::int64_t, std::less<>> numbers_{};
  std::map<std::string, std::string, std::less<>> texts_{};
  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<Arrival> arrivals_{};
  tenon_progress progress_{};
  std::atomic<tenon_status> fault_{0};
  std::string log_{};
  tenon_host host_{};
};

/// One message to append.
struct Message {
  std::string topic = "TopicTest";
  std::uint32_t queue_id = 0;
  std::string body{};
  std::string properties{};
  std::int32_t sys_flag = 0;
  std::int32_t flag = 0;
  std::int64_t born_ms = 1'700'000'000'000;
  std::int64_t store_ms = 0;
  proto::HostAddr born_host{{10, 1, 2, 3}, 54321, false};
  proto::HostAddr store_host{{192, 168, 1, 5}, 10911, false};
  std::uint32_t flags = 0;
};
tenon_addr to_abi(const proto::HostAddr& a);
/// The ABI record of a message; views into it.
tenon_record to_record(const Message& m);
/// `name\x01value\x02name\x01value`
std::string properties_of(std::initializer_list<std::pair<std::string_view, std::string_view>> p);

struct Entry {
  std::int64_t offset = 0;
  std::uint64_t phys = 0;
  std::uint32_t bytes = 0;
  std::int64_t tags_code = 0;
  bool extended = false;  ///< the next two are known
  std::int64_t store_ms = 0;
  std::string bitmap{};
};

struct Bounds {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// An instance of a storage plug-in from created to destroyed. Failed calls keep their text in
/// error().
class StoreInstance {
 public:
  StoreInstance(const tenon_entry& entry, const char* id, FakeHost& host);
  ~StoreInstance();
  StoreInstance(const StoreInstance&) = delete;
  StoreInstance& operator=(const StoreInstance&) = delete;

  tenon_status init();
  tenon_status recover(std::uint32_t mode = TENON_RECOVER_DECIDE);
  tenon_status activate();
  /// init, recover and activate; the first failure.
  tenon_status start();
  void stop();  ///< deactivate

  const tenon_storage& table() const { return *table_; }
  void* self() const { return plugin_->self; }
  const std::string& error() const { return error_; }
  const tenon_recover_result& recovered() const { return recovered_; }

  tenon_append_result append(const Message& m);
  std::vector<tenon_append_result> append(const std::vector<Message>& all);
  tenon_queue queue(std::string_view topic, std::uint32_t id, bool create = false);
  Bounds bounds(std::string_view topic, std::uint32_t id);
  tenon_log_bounds log();
  /// All entries from `from` on, over file ends.
  std::vector<Entry> entries(std::string_view topic, std::uint32_t id, std::int64_t from);
  /// The record bytes of an extent; empty if it was removed.
  std::string fetch(std::uint64_t phys, std::uint32_t bytes);
  std::string message_at(std::uint64_t phys);
  std::vector<std::uint64_t> query(std::string_view topic,
                                   std::string_view key,
                                   std::int64_t begin_ms = 0,
                                   std::int64_t end_ms = INT64_MAX,
                                   std::uint32_t max = 64);
  std::optional<std::int64_t> offset_by_time(std::string_view topic,
                                             std::uint32_t id,
                                             std::int64_t ms,
                                             std::uint32_t boundary = TENON_BOUNDARY_NEAREST);
  std::optional<std::int64_t> time_of(std::string_view topic, std::uint32_t id, std::int64_t at);
  tenon_status call_status = TENON_OK;  ///< of the last call of one of the above

 private:
  tenon_error* err();
  tenon_status keep(tenon_status status);

  FakeHost& host_;
  const tenon_plugin* plugin_ = nullptr;
  const tenon_storage* table_ = nullptr;
  bool active_ = false;
  tenon_recover_result recovered_{};
  std::string error_{};
  tenon_error raw_error_{};
  char error_text_[512] = {};
};

}  // namespace tenon::test
