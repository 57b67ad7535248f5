// Files of equal size that together form one sequence of bytes, each mapped whole and writable
// (spec: store §2).
#pragma once

#include "io.h"

#include "tenon/base/result.h"
#include "tenon/store_format/log_folders.h"
#include "tenon/store_format/names.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::store_file {

using store_format::file_name_of;

/// How many files of many sets are mapped together. A file that is counted keeps no descriptor: a
/// process may have a thousand descriptors and 65 530 mappings, and a store more queues than that.
struct MappingCount {
  std::atomic<std::size_t> mapped{0};
};

/// One file of a sequence. The mapping exists from map() to unmap() or the destructor.
class MappedFile {
 public:
  MappedFile(std::string path,
             std::uint64_t base,
             std::uint64_t bytes,
             MappingCount* count = nullptr)
      : path_(std::move(path)),
        base_(base),
        bytes_(bytes),
        count_(count) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Maps an existing file of exactly bytes() bytes, or creates a sparse one.
  Result<> map(bool create);
  bool is_mapped() const noexcept { return data_ != nullptr; }
  /// Ends the mapping; map() makes another one. Nobody uses it any more.
  void unmap() noexcept;

  std::uint8_t* data() const noexcept { return data_; }
  std::uint8_t* at(std::uint64_t pos) const noexcept { return data_ + (pos - base_); }
  std::uint64_t base() const noexcept { return base_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t end() const noexcept { return base_ + bytes_; }
  const std::string& path() const noexcept { return path_; }
  /// -1 for a file that is counted.
  int fd() const noexcept { return fd_.get(); }

  /// The file grows at its end. Trap: without this a fault on a new page reads ahead: the system
  /// fills and zeroes as much as the read-ahead of the disk, 8 MiB on many, with the pages locked,
  /// and an append waits for that (spec: store §2.1). A file that was made starts like this.
  void expect_appends() noexcept;
  /// The file is complete: readers profit from read-ahead. Thread: any, not the appender.
  void expect_reads() noexcept;

  /// Writes the pages of [from, to) (positions in the sequence) to the disk.
  Result<> sync(std::uint64_t from, std::uint64_t to) const;
  /// Makes the pages of [from, to) writable without a fault; kFull when the disk is full.
  Result<> reserve(std::uint64_t from, std::uint64_t to) const;
  /// The same by allocating blocks only: no page becomes resident. For random access.
  Result<> allocate(std::uint64_t from, std::uint64_t to) const;
  /// Zeroes [from, end()), giving blocks back where the file system can.
  Result<> erase_from(std::uint64_t from) const;
  /// Gives the pages of [from, to) back to the page cache; their content stays. Thread: any.
  void forget(std::uint64_t from, std::uint64_t to) const noexcept;

  /// Readers that use the mapping. Pins are taken under the lock of the FileSet.
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_release); }
  bool is_pinned() const noexcept { return pins_.load(std::memory_order_acquire) != 0; }

 private:
  std::string path_;
  std::uint64_t base_;
  std::uint64_t bytes_;
  MappingCount* count_;
  std::uint8_t* data_ = nullptr;
  Fd fd_{};
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<bool> appending_{false};
};

/// What a sync of a whole file system would write of a sequence, to be marked as written afterwards.
struct Unflushed {
  std::uint64_t end = 0;   ///< position; 0 = nothing
  std::uint32_t cuts = 0;  ///< how often the sequence had been cut
};

/// Holds a file in its set for a scope.
class FilePin {
 public:
  explicit FilePin(MappedFile* file = nullptr) noexcept
      : file_(file) {}
  FilePin(FilePin&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)) {}
  FilePin& operator=(FilePin&& other) noexcept {
    if (this != &other) {
      drop();
      file_ = std::exchange(other.file_, nullptr);
    }
    return *this;
  }
  FilePin(const FilePin&) = delete;
  FilePin& operator=(const FilePin&) = delete;
  ~FilePin() { drop(); }
  explicit operator bool() const noexcept { return file_ != nullptr; }
  MappedFile* operator->() const noexcept { return file_; }
  MappedFile* get() const noexcept { return file_; }
  /// Hands the pin over: somebody else calls unpin().
  MappedFile* release() noexcept { return std::exchange(file_, nullptr); }

 private:
  void drop() noexcept {
    if (file_ != nullptr) {
      file_->unpin();
    }
  }
  MappedFile* file_;
};

/// The files of one sequence in order, without holes. Thread: any; one small lock, never held over
/// a system call that waits for a disk.
class FileSet {
 public:
  FileSet() = default;
  FileSet(std::string folder, std::uint64_t file_bytes, MappingCount* count = nullptr)
      : folder_(std::move(folder)),
        file_bytes_(file_bytes),
        count_(count) {}
  void configure(std::string folder, std::uint64_t file_bytes) {
    folder_ = std::move(folder);
    file_bytes_ = file_bytes;
  }
  /// New files go where this says. Trap: disks do not keep names in one order, and a file without the
  /// one before it is a hole: each name reaches its disk before the next one is made or removed.
  void spread_over(const store_format::FolderSpread* spread) noexcept { spread_ = spread; }

  const std::string& folder() const noexcept { return folder_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::uint64_t base_of(std::uint64_t pos) const noexcept { return pos - pos % file_bytes_; }

  /// Takes over an existing file that follows the last one. It is mapped at first use.
  void adopt(std::uint64_t base) { adopt(base, folder_); }
  void adopt(std::uint64_t base, const std::string& folder);
  /// The file that starts at base: the existing one, or a new one after the last. Creates the
  /// folder with the first file.
  Result<MappedFile*> ensure(std::uint64_t base);
  /// The file that contains pos, pinned; empty if there is none or it cannot be mapped.
  FilePin pin(std::uint64_t pos);
  FilePin pin_first();
  FilePin pin_last();
  /// Like pin, without pinning: for the thread that alone removes files.
  MappedFile* find(std::uint64_t pos);

  bool empty() const;
  std::size_t count() const;
  std::uint64_t first_base() const;  ///< 0 without files
  std::uint64_t last_end() const;    ///< end of the last file; 0 without files
  std::vector<std::uint64_t> bases() const;
  std::uint64_t next_base(std::uint64_t pos) const;  ///< start of the first file behind pos, or 0

  /// Removes and unlinks the first file unless it is the only one; false also if the system does
  /// not let go of the name. Thread: one at a time. One that readers hold loses its
  /// name too, so nobody else finds it; its memory and blocks stay until reap() after their release.
  /// Better than RocketMQ, where it stays as a hanging file and is unmapped under its readers after
  /// a while (redeleteHangedFileInterval, destroyMapedFileIntervalForcibly; spec: store §2.8, §11).
  bool remove_first();
  /// Unmaps removed files that no reader holds any more; how many are still held.
  std::size_t reap();
  /// Removes and unlinks all files that start at or behind pos. False if a reader holds one; then
  /// nothing is removed.
  bool remove_from(std::uint64_t pos);
  /// Ends the mappings that no reader holds. Thread: the one that alone removes files.
  void unmap_unheld();
  /// Whether the set was used since the last call.
  bool take_used() noexcept { return used_.exchange(false, std::memory_order_relaxed); }
  /// Unmaps everything and forgets it; files stay on the disk. False while readers hold files.
  bool clear();
  bool has_pins() const;
  /// Calls use(file) for every mapped file, under the lock.
  template <class Use>
  void for_each_mapped(Use&& use) {
    const std::scoped_lock lock(mutex_);
    for (const auto& f : files_) {
      if (f->is_mapped()) {
        use(*f);
      }
    }
  }

 private:
  const std::string& folder_of(std::uint64_t base) const noexcept {
    return spread_ == nullptr ? folder_ : spread_->folder_of(base / file_bytes_);
  }
  Result<> keep_name(const MappedFile& file) const;
  MappedFile* find_locked(std::uint64_t pos);
  FilePin pin_locked(MappedFile* file);
  bool has_pins_locked() const;

  std::string folder_{};
  std::uint64_t file_bytes_ = 0;
  MappingCount* count_ = nullptr;
  const store_format::FolderSpread* spread_ = nullptr;  ///< null: all files lie in folder_
  std::atomic<bool> used_{false};
  std::mutex making_{};  ///< held while a file is made; before mutex_
  mutable std::mutex mutex_{};
  std::vector<std::unique_ptr<MappedFile>> files_{};
  std::vector<std::unique_ptr<MappedFile>> removed_{};  ///< unlinked, a reader holds them
};

}  // namespace tenon::store_file
