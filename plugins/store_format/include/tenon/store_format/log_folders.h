// Where the files of a log lie: one folder mostly, or several, as RocketMQ's storePathCommitLog and
// readOnlyCommitLogStorePaths name them (spec: store §2.6).
#pragma once

#include "tenon/base/result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::store_format {

inline constexpr std::size_t kLogFoldersMax = 64;

struct LogFolders {
  std::vector<std::string> growing{};    ///< sorted, at least one: new files are made here
  std::vector<std::string> read_only{};  ///< sorted: files are read and deleted here, none is made

  bool several() const noexcept { return growing.size() + read_only.size() > 1; }
  std::vector<std::string> all() const;  ///< sorted
};

/// Folders as an option has them: full paths between commas. `folders` empty: the one below the root.
/// A folder that is named in both is read only. @return kInvalid with what is wrong
Result<LogFolders> parse_log_folders(const std::string& root,
                                     std::string_view folders,
                                     std::string_view read_only);

/// Chooses the folder of each new file: file number i goes to the i-th of the folders with room,
/// modulo their number; with room nowhere, all count. Thread: any.
class FolderSpread {
 public:
  /// Sorted, from one to kLogFoldersMax.
  explicit FolderSpread(std::vector<std::string> folders);
  const std::vector<std::string>& folders() const noexcept { return folders_; }
  const std::string& folder_of(std::uint64_t number) const noexcept;
  /// Bit n: no new files in the n-th folder.
  void set_full(std::uint64_t folders) noexcept { full_.store(folders, std::memory_order_relaxed); }
  /// No new files where this file lies. @return whether there is room in another folder
  bool mark_full(const std::string& path) noexcept;

 private:
  bool is_full(std::size_t index, std::uint64_t full) const noexcept {
    return (full >> index & 1) != 0;
  }
  std::vector<std::string> folders_;
  std::atomic<std::uint64_t> full_{0};
};

/// Everything before the last slash.
std::string folder_of_file(const std::string& path);

}  // namespace tenon::store_format
