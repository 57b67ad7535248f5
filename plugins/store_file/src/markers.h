// The small files beside the log: lock, abort marker and checkpoint (spec: store §7).
#pragma once

#include "io.h"

#include "tenon/base/result.h"
#include "tenon/store_format/checkpoint.h"

#include <cstdint>
#include <string>

namespace tenon::store_file {

/// Exclusive use of a store folder: a POSIX record lock on byte 0 of `lock`, as Java's FileLock
/// takes it. Also excludes a second instance in the same process, which the system would not.
class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() { unlock(); }
  /// @return kConflict if another process or instance has it; the text names it and the remedy.
  /// With `create` false a missing file is not created and OK is returned without a lock.
  Result<> lock(const std::string& root, bool create);
  void unlock() noexcept;
  bool is_locked() const noexcept { return fd_.get() >= 0; }

 private:
  Fd fd_{};
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

using store_format::Checkpoint;
/// A missing or short file is all zero.
Result<Checkpoint> load_checkpoint(const std::string& root);
Result<> save_checkpoint(const std::string& root, const Checkpoint& c);

Result<> create_abort(const std::string& root);
void remove_abort(const std::string& root) noexcept;

}  // namespace tenon::store_file
