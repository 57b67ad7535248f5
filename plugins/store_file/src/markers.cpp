#include "markers.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::store_file {

namespace {

/// Folders locked by this process: record locks do not exclude their own process.
struct OwnLocks {
  std::mutex mutex{};
  std::set<std::pair<std::uint64_t, std::uint64_t>> taken{};
};
OwnLocks& own_locks() {
  static OwnLocks locks;
  return locks;
}

}  // namespace

Result<> FolderLock::lock(const std::string& root, bool create) {
  if (is_locked()) {
    return ok();
  }
  const std::string path = root + "/lock";
  const Error busy{
      Errc::kConflict,
      fmt::format("store folder {} is in use by another broker; stop it or choose another root",
                  root)};
  struct stat st {};
  const std::scoped_lock guard(own_locks().mutex);
  // Trap: closing any descriptor of the file drops the process's lock on it, so a file that this
  // process has locked is not even opened.
  if (::stat(path.c_str(), &st) == 0 && own_locks().taken.contains({st.st_dev, st.st_ino})) {
    return busy;
  }
  Fd fd(io().open(path.c_str(), O_RDWR | (create ? O_CREAT : 0), 0644));
  if (fd.get() < 0) {
    if (errno == ENOENT && !create) {
      return ok();
    }
    const int error = errno;
    return error == EACCES || error == EROFS
               ? os_error("store folder " + root +
                              " is not writable for this user (its file lock); change its owner or "
                              "choose another root",
                          error,
                          Errc::kDenied)
               : os_error("open " + path, error);
  }
  if (::fstat(fd.get(), &st) != 0) {
    return os_error("stat " + path, errno);
  }
  const std::pair<std::uint64_t, std::uint64_t> key{st.st_dev, st.st_ino};
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = 0;
  range.l_len = 1;
  if (::fcntl(fd.get(), F_SETLK, &range) != 0) {
    if (errno == EACCES || errno == EAGAIN) {
      return busy;
    }
    return os_error("lock " + path, errno);
  }
  if (st.st_size != 4) {
    static_cast<void>(io().pwrite(fd.get(), "lock", 4, 0));
  }
  own_locks().taken.insert(key);
  device_ = key.first;
  inode_ = key.second;
  fd_ = std::move(fd);
  return ok();
}

void FolderLock::unlock() noexcept {
  if (is_locked()) {
    const std::scoped_lock guard(own_locks().mutex);
    own_locks().taken.erase({device_, inode_});
    fd_ = Fd{};
  }
}

Result<Checkpoint> load_checkpoint(const std::string& root) {
  const std::string path = root + "/checkpoint";
  const Fd fd(io().open(path.c_str(), O_RDONLY, 0));
  if (fd.get() < 0) {
    return errno == ENOENT ? Result<Checkpoint>(Checkpoint{}) : os_error("open " + path, errno);
  }
  std::uint8_t bytes[store_format::kCheckpointBytes] = {};
  const ssize_t got = ::pread(fd.get(), bytes, sizeof bytes, 0);
  return store_format::parse_checkpoint({bytes, got < 0 ? 0 : static_cast<std::size_t>(got)});
}

Result<> save_checkpoint(const std::string& root, const Checkpoint& c) {
  const std::string path = root + "/checkpoint";
  const Fd fd(io().open(path.c_str(), O_RDWR | O_CREAT, 0644));
  if (fd.get() < 0) {
    return os_error("open " + path, errno);
  }
  std::uint8_t bytes[store_format::kCheckpointBytes] = {};
  static_cast<void>(::pread(fd.get(), bytes, sizeof bytes, 0));  // keep what newer versions wrote
  store_format::write_checkpoint(c, bytes);
  const ssize_t written = io().pwrite(fd.get(), bytes, sizeof bytes, 0);
  if (written != static_cast<ssize_t>(sizeof bytes)) {
    return os_error("write " + path, written < 0 ? errno : ENOSPC);
  }
  if (io().fdatasync(fd.get()) != 0) {
    return os_error("sync " + path, errno);
  }
  return ok();
}

Result<> create_abort(const std::string& root) {
  const std::string path = root + "/abort";
  const Fd fd(io().open(path.c_str(), O_RDWR | O_CREAT, 0644));
  if (fd.get() < 0) {
    return os_error("create " + path, errno);
  }
  sync_directory(root);
  return ok();
}

void remove_abort(const std::string& root) noexcept {
  static_cast<void>(io().unlink((root + "/abort").c_str()));
  sync_directory(root);
}

}  // namespace tenon::store_file
