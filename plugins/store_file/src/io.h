// The system calls of the store behind one small table, so that tests can make them fail.
#pragma once

#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/statvfs.h>
#include <sys/types.h>

namespace tenon::store_file {

struct IoTable {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*ftruncate)(int fd, off_t bytes);
  void* (*mmap)(void* at, std::size_t bytes, int prot, int flags, int fd, off_t offset);
  int (*msync)(void* at, std::size_t bytes, int flags);
  int (*fdatasync)(int fd);
  /// Everything of the file system that a descriptor is on.
  int (*syncfs)(int fd);
  /// The names in a folder. -1: not every file system can.
  int (*sync_names)(const char* folder);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
  ssize_t (*pwrite)(int fd, const void* from, std::size_t bytes, off_t offset);
  /// Makes pages of a shared mapping present and writable; -1 with ENOSPC or EFAULT when the disk
  /// is full, instead of the SIGBUS that a plain write would get (spec: store §2.1).
  int (*populate)(void* at, std::size_t bytes);
  /// Allocates blocks without touching them.
  int (*fallocate)(int fd, int mode, off_t from, off_t bytes);
  /// Which pages of a mapping are in memory.
  int (*mincore)(void* at, std::size_t bytes, unsigned char* present);
  /// How full the file system of a path is.
  int (*statvfs)(const char* path, struct statvfs* out);
};

/// The table of the process. Tests replace members while no store is active.
IoTable& io() noexcept;
/// The real calls.
const IoTable& system_io() noexcept;

inline constexpr std::size_t kPageBytes = 4096;
constexpr std::uint64_t page_down(std::uint64_t n) noexcept {
  return n & ~static_cast<std::uint64_t>(kPageBytes - 1);
}
constexpr std::uint64_t page_up(std::uint64_t n) noexcept {
  return page_down(n + kPageBytes - 1);
}

/// Closes a descriptor at the end of its scope.
class Fd {
 public:
  explicit Fd(int fd = -1) noexcept
      : fd_(fd) {}
  Fd(Fd&& other) noexcept
      : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  int get() const noexcept { return fd_; }
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

/// mkdir -p; OK if it exists.
Result<> make_directories(const std::string& path);
/// fsync of a directory, so that created and removed names survive a power cut. Errors are
/// ignored: not every file system can.
void sync_directory(const std::string& path) noexcept;
/// Zeroes [from, to) of a mapped file and gives its blocks back where the file system can.
/// `data` is the mapping from byte 0 of the file.
Result<> erase_range(int fd, std::uint8_t* data, std::uint64_t from, std::uint64_t to);
/// End of the last non-zero byte in [from, to), or `from` if all are zero. Skips holes.
std::uint64_t last_data_end(int fd, const std::uint8_t* data, std::uint64_t from, std::uint64_t to);

}  // namespace tenon::store_file
