// A disk that fails on demand, and that knows what it would still have after a power cut: the file
// store's system calls are routed through it for the length of a test.
#pragma once

#include "../../plugins/store_file/src/io.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace tenon::test {

/// One at a time in a process. Thread: any after construction.
class FaultDisk {
 public:
  enum class Call : std::uint8_t {
    kOpen,
    kFtruncate,
    kMmap,
    kMsync,
    kFdatasync,
    kSyncfs,
    kUnlink,
    kPwrite,
    kPopulate,
    kFallocate,
    kCount
  };

  FaultDisk();
  ~FaultDisk();
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  /// From now on the call fails with that error for files whose path contains the part. A pwrite
  /// that fails with 0 writes half of what it should.
  void fail(Call call, int error, std::string path_part = {});
  void heal();
  int calls(Call call) const { return calls_[static_cast<std::size_t>(call)].load(); }
  int failures() const { return failures_.load(); }

  /// The folder is a disk of its own: a sync of the disk above it does not write what is here, and its
  /// names do not keep an order with those of other disks. Before anything is in it.
  void separate(const std::filesystem::path& folder);
  /// What lies below `root` is on the disk.
  void assume_synced(const std::filesystem::path& root);
  /// Builds `to` as the folder `from` would be after a power cut now: of every file what was synced
  /// since the construction, and a random part of the pages that were not. Of the files of a disk that
  /// are newer than its newest synced one, the last may be missing and the first of these empty. Names
  /// that were removed last may be there again.
  void power_cut(const std::filesystem::path& from,
                 const std::filesystem::path& to,
                 std::mt19937& random);

 private:
  struct Hooks;
  struct Mapping {
    std::size_t bytes = 0;
    std::string path{};
  };
  struct Rule {
    Call call{};
    int error = 0;
    std::string part{};
  };

  struct Made {
    std::string path{};  ///< empty: removed
    std::size_t disk = 0;
  };
  struct Removed {
    std::string path{};
    std::size_t disk = 0;
    std::vector<std::uint8_t> content{};  ///< as far as it was synced
    std::size_t made_before = 0;          ///< names
  };

  /// Counts the call. @return the error it has to fail with, or -1
  int verdict(Call call, const std::string& path);
  std::string path_of(int fd) const;
  std::string path_at(const void* at, std::size_t& offset) const;
  std::size_t disk_of(const std::string& path) const;
  void opened(int fd, const std::string& path, bool folder);
  void mapped(void* at, std::size_t bytes, int fd);
  std::size_t mapped_behind(const void* at) const;
  void synced(const void* at, std::size_t bytes);
  void synced_file(int fd);
  void synced_disk(int fd);
  void synced_names(const std::string& folder);
  void punched(int fd, off_t from, off_t bytes);
  void unlinked(const std::string& path, std::size_t bytes);
  std::size_t kept_names(std::size_t disk, std::mt19937& random) const;
  void bring_back(const std::filesystem::path& from,
                  const std::filesystem::path& to,
                  std::size_t disk,
                  std::size_t kept_names,
                  std::mt19937& random);

  mutable std::mutex mutex_;
  std::vector<Rule> rules_{};
  std::map<int, std::string> fds_{};
  std::map<const std::uint8_t*, Mapping> mappings_{};
  std::map<std::string, std::vector<std::uint8_t>> disk_{};  ///< what was synced, by path
  std::vector<std::string>
      disks_{};               ///< folders that are disks of their own; disk n is disks_[n - 1]
  std::vector<Made> made_{};  ///< in order of their first opening: names reach their disk so
  std::vector<Removed> removed_{};  ///< in order: removals reach the disk so
  std::array<std::atomic<int>, static_cast<std::size_t>(Call::kCount)> calls_{};
  std::atomic<int> failures_{0};
};

}  // namespace tenon::test
