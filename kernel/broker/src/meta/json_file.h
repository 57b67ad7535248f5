// Configuration files in <store_root>/config: never a moment without a readable file, and the
// previous content in X.bak as RocketMQ leaves it (spec: store §8.1).
#pragma once

#include "tenon/base/result.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::broker {

/// Hands the text of `path` to `parse`; if the file is missing, empty or refused by `parse`, the
/// text of `path`.bak. Both missing is success without a call.
/// @return the error of the .bak file; the text names it
Result<> load_json_file(const std::filesystem::path& path,
                        const std::function<Result<>(std::string_view)>& parse);

/// Writes path.tmp, keeps the old file as path.bak, renames. Durable when it returns. Not for I/O
/// threads.
Result<> save_json_file(const std::filesystem::path& path, std::string_view text);

/// One such file, written only when its owner has changed since the last write. Thread: any.
class JsonFile {
 public:
  explicit JsonFile(std::filesystem::path path)
      : path_(std::move(path)) {}

  /// As load_json_file().
  Result<> load(const std::function<Result<>(std::string_view)>& parse) const;
  /// The owner's content differs now; in the critical section of the change, or after it.
  void changed() noexcept { changes_.fetch_add(1, std::memory_order_release); }
  /// Asks for the text and writes it, if changed() was called since the last successful write. What
  /// changes meanwhile is left for the next call. Blocks on the disk.
  Result<> save_if_changed(const std::function<std::string()>& text);

 private:
  const std::filesystem::path path_;
  std::atomic<std::uint64_t> changes_{0};
  std::mutex save_mutex_{};
  std::uint64_t saved_ = 0;  ///< value of changes_ that the file has; by save_mutex_
};

}  // namespace tenon::broker
