// A store folder opened for reading: which files there are, and what is wrong with their names and
// sizes already (spec: store §1, §25). Nothing in it is changed.
#pragma once

#include "tenon/base/result.h"
#include "tenon/store_format/checkpoint.h"
#include "tenon/store_format/index.h"
#include "tenon/store_format/log_folders.h"
#include "tenon/store_format/unit.h"
#include "tenon/store_tool/finding.h"
#include "tenon/store_tool/read_files.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::store_tool {

using QueueKey = std::pair<std::string, std::uint32_t>;

struct QueueFiles {
  std::string topic{};
  std::uint32_t id = 0;
  Sequence units{};
  Sequence ext{};  ///< empty without an extension
};

struct IndexFileView {
  std::string name{};
  std::unique_ptr<ReadFile> file{};
  store_format::IndexHeader header{};
  std::uint32_t items() const noexcept { return header.next_item - 1; }
};

struct OpenOptions {
  bool snapshot = false;  ///< a broker may be running on the folder: what grows is no fault
  /// Tried first for index files; the sizes of RocketMQ's defaults.
  store_format::IndexShape index_shape{5'000'000, 20'000'000};
  /// Sizes for what the folder has no file of.
  std::uint64_t log_file_bytes = 1ull << 30;
  std::uint64_t queue_file_bytes = 6'000'000;
  /// Where the log lies; without growing folders: commitlog below the root.
  store_format::LogFolders log_folders{};
};

/// Thread: one at a time.
class Folder {
 public:
  /// @return kNotFound: no such folder, nothing of a store in it, or its log is not where it should
  /// be; kConflict: a broker uses it (and `snapshot` is not set); kIncompatible: the log is that of a
  /// DLedger broker, or there are two
  static Result<std::unique_ptr<Folder>> open(const std::string& root, const OpenOptions& options);

  const std::string& root() const noexcept { return root_; }
  const Sequence& log() const noexcept { return log_; }
  /// By topic and id.
  const std::vector<QueueFiles>& queues() const noexcept { return queues_; }
  const QueueFiles* find_queue(std::string_view topic, std::uint32_t id) const noexcept;
  /// Oldest first. Files that cannot be read as an index are left out (a finding says so).
  const std::vector<IndexFileView>& index() const noexcept { return index_; }
  store_format::IndexShape index_shape() const noexcept { return index_shape_; }
  bool has_index_files() const noexcept { return has_index_files_; }
  const store_format::Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  bool abort() const noexcept { return abort_; }
  bool snapshot() const noexcept { return snapshot_; }
  /// 5.x queues of whole batches: their topics have no units here.
  bool is_batch_queue(std::string_view topic) const noexcept;
  std::uint64_t queue_file_bytes() const noexcept { return queue_file_bytes_; }

  /// What was seen while opening.
  const std::vector<Finding>& findings() const noexcept { return findings_; }
  /// Whether a path, as findings have it, is that of a file of the log.
  bool is_of_log(const std::string& file) const;
  /// Path as findings have it: below the root.
  std::string relative(const std::string& path) const;

 private:
  explicit Folder(std::string root)
      : root_(std::move(root)) {}
  Result<> list_log(const OpenOptions& options);
  Result<> find_log(const store_format::LogFolders& folders);
  Result<> list_queues(const OpenOptions& options);
  Result<> list_index(const OpenOptions& options);
  void list_marks();
  Result<> refuse_dledger() const;
  Result<> list_sequence(Sequence& sequence);
  Result<> list_folder(Sequence& sequence, std::uint32_t folder);
  void judge_sizes(const Sequence& sequence, std::uint64_t unit);
  void note(Severity severity, std::string_view kind, const std::string& path, std::string text);

  std::string root_;
  Sequence log_{};
  std::vector<QueueFiles> queues_{};
  std::vector<IndexFileView> index_{};
  store_format::IndexShape index_shape_{};
  store_format::Checkpoint checkpoint_{};
  std::vector<std::string> batch_topics_{};
  std::vector<Finding> findings_{};
  std::uint64_t queue_file_bytes_ = 0;
  bool has_index_files_ = false;
  bool abort_ = false;
  bool snapshot_ = false;
};

/// End of a queue: offset behind its last unit. Looks at few pages.
std::int64_t queue_end(const QueueFiles& queue);
std::int64_t queue_begin(const QueueFiles& queue);
std::optional<store_format::Unit> unit_at(const QueueFiles& queue, std::int64_t offset);

/// Whether somebody holds the lock of a store folder: another process, which Java's brokers and
/// ours both are.
bool is_locked(const std::string& root);

/// The lock of a store folder, for changing it. Thread: one.
class WriteLock {
 public:
  static Result<std::unique_ptr<WriteLock>> take(const std::string& root);
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  explicit WriteLock(int fd)
      : fd_(fd) {}
  int fd_;
};

}  // namespace tenon::store_tool
