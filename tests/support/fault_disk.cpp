#include "fault_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include <fcntl.h>

namespace tenon::test {

namespace fs = std::filesystem;

namespace {

FaultDisk* g_disk = nullptr;

std::vector<std::uint8_t> content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_content(const fs::path& file, const std::vector<std::uint8_t>& content) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
}

}  // namespace

struct FaultDisk::Hooks {
  static bool fails(Call call, const std::string& path) {
    const int error = g_disk->verdict(call, path);
    if (error > 0) {
      errno = error;
    }
    return error > 0;
  }
  static int open(const char* path, int flags, mode_t mode) {
    if (fails(Call::kOpen, path)) {
      return -1;
    }
    const int fd = store_file::system_io().open(path, flags, mode);
    if (fd >= 0) {
      g_disk->opened(fd, path, (flags & O_DIRECTORY) != 0);
    }
    return fd;
  }
  static int ftruncate(int fd, off_t bytes) {
    return fails(Call::kFtruncate, g_disk->path_of(fd))
               ? -1
               : store_file::system_io().ftruncate(fd, bytes);
  }
  static void* mmap(void* at, std::size_t bytes, int prot, int flags, int fd, off_t offset) {
    if (fails(Call::kMmap, g_disk->path_of(fd))) {
      return reinterpret_cast<void*>(-1);
    }
    void* mapped = store_file::system_io().mmap(at, bytes, prot, flags, fd, offset);
    g_disk->mapped(mapped, bytes, fd);
    return mapped;
  }
  static int msync(void* at, std::size_t bytes, int flags) {
    std::size_t offset = 0;
    if (fails(Call::kMsync, g_disk->path_at(at, offset))) {
      return -1;
    }
    g_disk->synced(at, bytes);
    static_cast<void>(flags);
    return 0;  // the page cache is all that a test needs
  }
  static int fdatasync(int fd) {
    if (fails(Call::kFdatasync, g_disk->path_of(fd))) {
      return -1;
    }
    g_disk->synced_file(fd);
    return 0;
  }
  static int syncfs(int fd) {
    if (fails(Call::kSyncfs, g_disk->path_of(fd))) {
      return -1;
    }
    g_disk->synced_disk(fd);
    return 0;
  }
  static int sync_names(const char* folder) {
    g_disk->synced_names(folder);
    return 0;
  }
  static int unlink(const char* path) {
    if (fails(Call::kUnlink, path)) {
      return -1;
    }
    std::error_code ec;
    const auto bytes = fs::file_size(path, ec);
    const int done = store_file::system_io().unlink(path);
    if (done == 0 && !ec) {
      g_disk->unlinked(path, bytes);
    }
    return done;
  }
  static ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
    const int error = g_disk->verdict(Call::kPwrite, g_disk->path_of(fd));
    if (error > 0) {
      errno = error;
      return -1;
    }
    return store_file::system_io().pwrite(fd, from, error == 0 ? bytes / 2 : bytes, offset);
  }
  static int populate(void* at, std::size_t bytes) {
    std::size_t offset = 0;
    return fails(Call::kPopulate, g_disk->path_at(at, offset))
               ? -1
               : store_file::system_io().populate(at, bytes);
  }
  static int fallocate(int fd, int mode, off_t from, off_t bytes) {
    if (fails(Call::kFallocate, g_disk->path_of(fd))) {
      return -1;
    }
    const int done = store_file::system_io().fallocate(fd, mode, from, bytes);
    if (done == 0 && (mode & FALLOC_FL_PUNCH_HOLE) != 0) {
      g_disk->punched(fd, from, bytes);
    }
    return done;
  }
};

FaultDisk::FaultDisk() {
  g_disk = this;
  store_file::IoTable& io = store_file::io();
  io.open = &Hooks::open;
  io.ftruncate = &Hooks::ftruncate;
  io.mmap = &Hooks::mmap;
  io.msync = &Hooks::msync;
  io.fdatasync = &Hooks::fdatasync;
  io.syncfs = &Hooks::syncfs;
  io.sync_names = &Hooks::sync_names;
  io.unlink = &Hooks::unlink;
  io.pwrite = &Hooks::pwrite;
  io.populate = &Hooks::populate;
  io.fallocate = &Hooks::fallocate;
}

FaultDisk::~FaultDisk() {
  store_file::io() = store_file::system_io();
  g_disk = nullptr;
}

void FaultDisk::fail(Call call, int error, std::string path_part) {
  const std::scoped_lock lock(mutex_);
  rules_.push_back({call, error, std::move(path_part)});
}

void FaultDisk::heal() {
  const std::scoped_lock lock(mutex_);
  rules_.clear();
}

int FaultDisk::verdict(Call call, const std::string& path) {
  ++calls_[static_cast<std::size_t>(call)];
  const std::scoped_lock lock(mutex_);
  for (const Rule& rule : rules_) {
    if (rule.call == call && path.find(rule.part) != std::string::npos) {
      ++failures_;
      return rule.error;
    }
  }
  return -1;
}

std::string FaultDisk::path_of(int fd) const {
  const std::scoped_lock lock(mutex_);
  const auto it = fds_.find(fd);
  return it == fds_.end() ? std::string{} : it->second;
}

std::string FaultDisk::path_at(const void* at, std::size_t& offset) const {
  const std::scoped_lock lock(mutex_);
  const auto* p = static_cast<const std::uint8_t*>(at);
  auto it = mappings_.upper_bound(p);
  if (it == mappings_.begin() || p >= std::prev(it)->first + std::prev(it)->second.bytes) {
    return {};
  }
  --it;
  offset = static_cast<std::size_t>(p - it->first);
  return it->second.path;
}

void FaultDisk::separate(const fs::path& folder) {
  const std::scoped_lock lock(mutex_);
  disks_.push_back(folder.string());
}

/// With the lock.
std::size_t FaultDisk::disk_of(const std::string& path) const {
  for (std::size_t n = disks_.size(); n > 0; --n) {
    if (path == disks_[n - 1] || path.starts_with(disks_[n - 1] + "/")) {
      return n;
    }
  }
  return 0;
}

void FaultDisk::opened(int fd, const std::string& path, bool folder) {
  const std::scoped_lock lock(mutex_);
  fds_[fd] = path;
  const auto same = [&](const Made& m) { return m.path == path; };
  if (!folder && std::find_if(made_.begin(), made_.end(), same) == made_.end()) {
    made_.push_back({path, disk_of(path)});
  }
}

void FaultDisk::mapped(void* at, std::size_t bytes, int fd) {
  const std::string path = path_of(fd);
  const std::scoped_lock lock(mutex_);
  const auto* p = static_cast<const std::uint8_t*>(at);
  std::erase_if(mappings_, [&](const auto& m) {  // unmapped meanwhile
    return m.first < p + bytes && p < m.first + m.second.bytes;
  });
  mappings_[p] = {bytes, path};
}

/// Bytes from there to the end of its mapping. With the lock.
std::size_t FaultDisk::mapped_behind(const void* at) const {
  const auto* p = static_cast<const std::uint8_t*>(at);
  const auto it = mappings_.upper_bound(p);
  if (it == mappings_.begin()) {
    return 0;
  }
  const auto& [begin, mapping] = *std::prev(it);
  return begin + mapping.bytes > p ? static_cast<std::size_t>(begin + mapping.bytes - p) : 0;
}

/// Read out of the file: its mapping is written meanwhile, as with a disk.
void FaultDisk::synced(const void* at, std::size_t bytes) {
  std::size_t offset = 0;
  const std::string path = path_at(at, offset);
  const std::scoped_lock lock(mutex_);
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return;  // removed
  }
  std::vector<std::uint8_t>& content = disk_[path];
  // Whole pages go to the disk, as far as the file reaches.
  const std::size_t end = store_file::page_up(offset + bytes);
  const std::size_t stop = offset + std::min(end - offset, mapped_behind(at));
  content.resize(std::max(content.size(), stop));
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(content.data() + offset),
          static_cast<std::streamsize>(stop - offset));
}

void FaultDisk::synced_file(int fd) {
  const std::string path = path_of(fd);
  const std::scoped_lock lock(mutex_);
  disk_[path] = content_of(path);
}

/// Files that nobody has opened are as they were.
void FaultDisk::synced_disk(int fd) {
  const std::string path = path_of(fd);
  const std::scoped_lock lock(mutex_);
  const std::size_t disk = disk_of(path);
  for (const Made& m : made_) {
    if (m.disk == disk && !m.path.empty()) {
      disk_[m.path] = content_of(m.path);
    }
  }
  std::erase_if(removed_, [&](const Removed& r) { return r.disk == disk; });
}

/// New names are there, with their size; those that were removed stay away.
void FaultDisk::synced_names(const std::string& folder) {
  const std::scoped_lock lock(mutex_);
  const auto is_in = [&](const std::string& path) {
    return fs::path(path).parent_path() == folder;
  };
  for (const Made& m : made_) {
    if (!m.path.empty() && is_in(m.path)) {
      disk_[m.path];
    }
  }
  std::erase_if(removed_, [&](const Removed& r) { return is_in(r.path); });
}

/// A hole is a change of the file system's journal: in order with every sync behind it.
void FaultDisk::punched(int fd, off_t from, off_t bytes) {
  const std::string path = path_of(fd);
  const std::scoped_lock lock(mutex_);
  const auto known = disk_.find(path);
  if (known != disk_.end()) {
    const auto begin = std::min(static_cast<std::size_t>(from), known->second.size());
    const auto end = std::min(static_cast<std::size_t>(from + bytes), known->second.size());
    std::fill(known->second.begin() + static_cast<std::ptrdiff_t>(begin),
              known->second.begin() + static_cast<std::ptrdiff_t>(end),
              std::uint8_t{0});
  }
}

/// A file that is made under the same name later has nothing of this one.
void FaultDisk::unlinked(const std::string& path, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = disk_.find(path); known != disk_.end()) {
    known->second.resize(bytes);
    removed_.push_back({path, disk_of(path), std::move(known->second), made_.size()});
    disk_.erase(known);
  }
  for (Made& m : made_) {
    if (m.path == path) {
      m.path.clear();
    }
  }
}

/// Removals reach the disk in their order, and before the names that were made after them.
void FaultDisk::bring_back(const fs::path& from,
                           const fs::path& to,
                           std::size_t disk,
                           std::size_t kept_names,
                           std::mt19937& random) {
  for (auto it = removed_.rbegin(); it != removed_.rend(); ++it) {
    if (it->disk != disk) {
      continue;
    }
    if (it->made_before < kept_names || fs::exists(it->path) || random() % 2 == 0) {
      return;
    }
    write_content(to / fs::relative(it->path, from), it->content);
  }
}

void FaultDisk::assume_synced(const fs::path& root) {
  const std::scoped_lock lock(mutex_);
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) {
      disk_[entry.path().string()] = content_of(entry.path());
    }
  }
}

/// Names from that number on, of those on the disk, did not reach it; the first of them may have,
/// without its size.
std::size_t FaultDisk::kept_names(std::size_t disk, std::mt19937& random) const {
  std::size_t kept = made_.size();
  for (std::size_t n = made_.size(); n > 0; --n) {
    const Made& m = made_[n - 1];
    if (m.disk != disk) {
      continue;
    }
    if (m.path.empty() || disk_.contains(m.path) || random() % 2 == 0) {
      break;
    }
    kept = n - 1;
  }
  return kept;
}

void FaultDisk::power_cut(const fs::path& from, const fs::path& to, std::mt19937& random) {
  const std::scoped_lock lock(mutex_);
  const auto chance = [&](int of) {
    return std::uniform_int_distribution<int>(1, of)(random) == 1;
  };
  const int luck = std::uniform_int_distribution<int>(1, 4)(random);  // of unsynced pages
  std::vector<std::size_t> kept;
  for (std::size_t disk = 0; disk <= disks_.size(); ++disk) {
    kept.push_back(kept_names(disk, random));
  }
  fs::create_directories(to);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const fs::path target = to / fs::relative(entry.path(), from);
    if (entry.is_directory()) {
      fs::create_directories(target);
      continue;
    }
    const std::vector<std::uint8_t> now = content_of(entry.path());
    const auto known = disk_.find(entry.path().string());
    const bool was_synced = known != disk_.end();
    const auto made = static_cast<std::size_t>(
        std::find_if(made_.begin(),
                     made_.end(),
                     [&](const Made& m) { return m.path == entry.path().string(); }) -
        made_.begin());
    const std::size_t until = kept[disk_of(entry.path().string())];
    if (!was_synced && made >= until) {  // one that is being made is the newest
      if (made == until && chance(2)) {
        write_content(target, {});
      }
      continue;
    }
    std::vector<std::uint8_t> after = was_synced ? known->second : std::vector<std::uint8_t>{};
    after.resize(now.size());
    for (std::size_t at = 0; at < now.size(); at += store_file::kPageBytes) {
      if (luck > 1 && chance(luck)) {
        const std::size_t stop = std::min(at + store_file::kPageBytes, now.size());
        std::copy(now.begin() + static_cast<std::ptrdiff_t>(at),
                  now.begin() + static_cast<std::ptrdiff_t>(stop),
                  after.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    write_content(target, after);
  }
  for (std::size_t disk = 0; disk < kept.size(); ++disk) {
    bring_back(from, to, disk, kept[disk], random);
  }
}

}  // namespace tenon::test
