#include "io.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::store_file {

namespace {

int system_open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}

/// Without MADV_POPULATE_WRITE (kernels before 5.14): reserve the blocks, then touch the pages.
int populate_by_touch(void* at, std::size_t bytes) {
  auto* p = static_cast<volatile std::uint8_t*>(at);
  for (std::size_t i = 0; i < bytes; i += kPageBytes) {
    // An atomic add of nothing: a reader or writer of the page loses no byte.
    __atomic_fetch_add(const_cast<std::uint8_t*>(p) + i, std::uint8_t{0}, __ATOMIC_RELAXED);
  }
  return 0;
}

int system_populate(void* at, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) == 0) {
    return 0;
  }
  if (errno != EINVAL) {
    return -1;
  }
#endif
  return populate_by_touch(at, bytes);
}

int system_sync_names(const char* folder) {
  const Fd fd(::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.get() < 0 ? -1 : ::fsync(fd.get());
}

constexpr IoTable kSystem = {system_open,
                             ::ftruncate,
                             ::mmap,
                             ::msync,
                             ::fdatasync,
                             ::syncfs,
                             system_sync_names,
                             ::rename,
                             ::unlink,
                             ::pwrite,
                             system_populate,
                             ::fallocate,
                             ::mincore,
                             ::statvfs};

}  // namespace

IoTable& io() noexcept {
  static IoTable table = kSystem;
  return table;
}

const IoTable& system_io() noexcept {
  return kSystem;
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Result<> make_directories(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  if (ec) {
    return os_error("create folder " + path, ec.value());
  }
  return ok();
}

void sync_directory(const std::string& path) noexcept {
  static_cast<void>(io().sync_names(path.c_str()));
}

Result<> erase_range(int fd, std::uint8_t* data, std::uint64_t from, std::uint64_t to) {
  if (from >= to) {
    return ok();
  }
  const std::uint64_t first_page = std::min(page_up(from), to);
  if (std::any_of(data + from, data + first_page, [](std::uint8_t b) { return b != 0; })) {
    std::memset(data + from, 0, first_page - from);
  }
  if (first_page >= to) {
    return ok();
  }
  if (::lseek(fd, static_cast<off_t>(first_page), SEEK_DATA) < 0 && errno == ENXIO) {
    return ok();  // only a hole, as mostly
  }
#ifdef FALLOC_FL_PUNCH_HOLE
  if (io().fallocate(fd,
                     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(first_page),
                     static_cast<off_t>(to - first_page)) == 0) {
    return ok();
  }
  if (errno != EOPNOTSUPP && errno != ENOSYS) {
    return os_error("erase the end of a file", errno);
  }
#endif
  std::memset(data + first_page, 0, to - first_page);
  // Trap: stale bytes that come back after a power cut are whole records again (spec: store §13.3).
  if (io().msync(data + first_page, to - first_page, MS_SYNC) != 0) {
    return os_error("erase the end of a file", errno);
  }
  return ok();
}

std::uint64_t last_data_end(int fd,
                            const std::uint8_t* data,
                            std::uint64_t from,
                            std::uint64_t to) {
  std::uint64_t last = from;
  std::uint64_t at = from;
  while (at < to) {
    const off_t begin = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (begin < 0) {
      if (errno == ENXIO) {
        break;  // only a hole is left
      }
      at = to;  // not supported: look at everything
    }
    const std::uint64_t data_begin = begin < 0 ? from : static_cast<std::uint64_t>(begin);
    off_t hole = begin < 0 ? -1 : ::lseek(fd, begin, SEEK_HOLE);
    const std::uint64_t data_end = std::min(hole < 0 ? to : static_cast<std::uint64_t>(hole), to);
    for (std::uint64_t i = data_end; i > data_begin; --i) {
      if (data[i - 1] != 0) {
        last = std::max(last, i);
        break;
      }
    }
    at = begin < 0 ? to : std::max(data_end, data_begin + 1);
  }
  return last;
}

}  // namespace tenon::store_file
