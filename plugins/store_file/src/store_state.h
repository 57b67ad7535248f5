// What the parts of the store share: its files, all positions, what went wrong, and its threads.
#pragma once

#include "commit_log.h"
#include "consume_queue.h"
#include "key_index.h"
#include "markers.h"
#include "options.h"
#include "queue_table.h"
#include "waker.h"

#include "tenon/plugin.hpp"
#include "tenon/store/host_services.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tenon::store_file {

/// The base of Store, for nobody else. Who may touch what: see the threads in store.h.
class StoreState {
 protected:
  enum class Phase : std::uint8_t { kIdle, kRecovered, kActive, kClosing };

  struct LightTarget {
    ConsumeQueue* queue = nullptr;
    tenon_queue handle = 0;
    std::int64_t offset = 0;
  };

  explicit StoreState(plugin::Host& host)
      : host_(host),
        options_(read_options(host)),
        index_(host_) {}

  store::HostServices host_;
  Options options_;
  std::uint64_t memory_bytes_ = 0;  ///< distance from the end within which data counts as hot
  std::atomic<Phase> phase_{Phase::kIdle};
  FolderLock lock_{};
  CommitLog log_{};
  QueueTable queues_{};
  KeyIndex index_;

  std::mutex checkpoint_mutex_{};
  Checkpoint checkpoint_{};

  alignas(64) std::atomic<bool> dispatch_role_{false};
  std::atomic<std::uint64_t> dispatched_{0};
  std::atomic<std::int64_t> last_dispatch_ms_{0};
  std::array<tenon_arrival, 256> arrivals_{};  ///< dispatch role
  std::size_t arrival_count_ = 0;
  std::vector<std::uint8_t> bitmap_{};  ///< dispatch role
  bool after_crash_ = false;            ///< what recovery found

  std::atomic<std::uint64_t> visible_limit_{TENON_NO_LIMIT};
  std::atomic<std::uint64_t> floor_{TENON_NO_LIMIT};
  std::atomic<std::int64_t> last_append_ms_{0};
  std::atomic<std::int64_t> append_since_ms_{0};  ///< 0 = no append is running
  std::atomic<tenon_status> failed_{TENON_OK};    ///< a failed sync: no further appends
  std::atomic<bool> queue_error_{false};
  std::atomic<bool> index_error_{false};
  std::atomic<bool> ext_error_{false};
  std::atomic<bool> disk_full_{false};    ///< by the policy of retention
  std::atomic<bool> append_full_{false};  ///< the last append found no space
  std::uint64_t held_since_ns_ = 0;       ///< readers hold deleted files; retention
  std::atomic<bool> replica_{false};
  std::atomic<std::uint64_t> appended_records_{0};

  std::vector<LightTarget> light_targets_{};  ///< of the record that is appended
  std::string light_text_{};                  ///< its properties
  std::atomic<bool> light_full_{false};       ///< told that there are too many

  std::mutex index_step_mutex_{};  ///< one step of the key index, or a truncate
  std::atomic<std::uint64_t> indexed_{0};
  std::mutex indexed_mutex_{};
  std::condition_variable indexed_cv_{};

  std::mutex sync_mutex_{};  ///< one sync of the log, or a truncate
  std::mutex durable_mutex_{};
  std::condition_variable durable_cv_{};
  bool fault_told_ = false;  ///< failed_ is set and the host was told; guarded by durable_mutex_
  std::atomic<std::uint64_t> wanted_{0};  ///< somebody waits for this durable position
  std::uint64_t log_thorough_ns_ = 0;
  std::uint64_t log_round_ns_ = 0;
  std::uint64_t queue_thorough_ns_ = 0;
  std::uint64_t queue_round_ns_ = 0;

  std::atomic<std::uint64_t> window_{1u << 20};  ///< bytes that the helper keeps ready
  std::uint64_t given_back_ = 0;

  Waker follower_waker_{};
  Waker flusher_waker_{};
  Waker helper_waker_{};
  std::atomic<bool> stop_follower_{false};
  std::atomic<bool> stop_others_{false};
  std::thread follower_{};
  std::thread flusher_{};
  std::thread helper_{};
};

}  // namespace tenon::store_file
