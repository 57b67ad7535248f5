// The modes of store_bench beside the plain measure of appends.
#pragma once

#include "../support/store_harness.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace tenon::bench {

struct RollOptions {
  std::filesystem::path dir{};
  std::uint64_t rolls = 20;
  std::uint64_t file_bytes = 64u << 20;
  std::size_t body = 1024;
  std::size_t batch = 32;
  double mb_per_s = 100;  ///< 0 = as fast as it goes
  bool keys = false;
  bool sync = false;
  bool where = false;  ///< print the kernel stack of long appends
};

/// Exit code.
int run_roll(const RollOptions& options);

struct ScaleOptions {
  std::filesystem::path dir{};
  std::uint64_t mib = 1024;  ///< of messages
  std::uint64_t queues = 50'000;
  std::uint64_t per_topic = 8;  ///< queues
  std::size_t body = 1024;
  std::uint64_t messages = 2'000'000;
  bool checkpoint = true;  ///< false: recovery reads the whole log
};

/// Time to open a log of that size after SIGKILL and after a clean stop.
int run_recover(const ScaleOptions& options);
/// A message in each of many queues: time to make them, to stop, to open them after a clean stop and
/// after SIGKILL; memory and CPU time of the idle store.
int run_queues(const ScaleOptions& options);
/// Messages with a unique key and a shared one; queries a second and how long they take.
int run_keys(const ScaleOptions& options);

/// Records ready to be appended again and again. Thread: one.
class Batch {
 public:
  /// The messages stay as long as this; with `open`, each record names its open queue.
  Batch(test::StoreInstance& store, const std::vector<test::Message>& messages, bool open);
  /// @return false: failed, and said so on stderr
  bool append();
  std::size_t size() const { return records_.size(); }
  /// Bytes of the first record.
  std::size_t record_bytes() const { return results_[0].bytes; }

 private:
  test::StoreInstance& store_;
  std::vector<tenon_record> records_{};
  std::vector<tenon_append_result> results_{};
};

/// A figure of /proc/self/status in KiB, such as "RssAnon:".
long status_kib(const char* key);

}  // namespace tenon::bench
