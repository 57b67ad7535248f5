#include "tenon/store_tool/build.h"

#include "tenon/base/endian.h"
#include "tenon/store/record.h"
#include "tenon/store_format/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tenon::store_tool {

using store_format::file_name_of;
using store_format::kUnitBytes;

namespace {
constexpr std::size_t kBufferedUnits = 64;
/// A jump of the queue offset over more files than this is damage, not a gap.
constexpr std::uint64_t kGapFilesMax = 10;
constexpr std::uint64_t kAllocateStep = 1u << 20;
}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path, std::uint64_t bytes) {
  OpenFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file.fd_ < 0) {
    return os_error("open " + path, errno);
  }
  const off_t size = ::lseek(file.fd_, 0, SEEK_END);
  if (size == 0 && bytes > 0 && ::ftruncate(file.fd_, static_cast<off_t>(bytes)) != 0) {
    return os_error("enlarge " + path, errno);
  }
  return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Result<> OpenFile::write(std::uint64_t at, std::span<const std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      const int error = n == 0 ? ENOSPC : errno;
      return os_error("write " + path_, error, error == ENOSPC ? Errc::kFull : Errc::kIo);
    }
    at += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return ok();
}

Result<> OpenFile::sync() const {
  if (fd_ >= 0 && ::fdatasync(fd_) != 0) {
    return os_error("sync " + path_, errno);
  }
  return ok();
}

Result<> write_file(const std::string& path, std::string_view content) {
  TENON_TRY(const OpenFile file, OpenFile::open(path, 0));
  if (::ftruncate(file.fd(), 0) != 0) {
    return os_error("cut " + path, errno);
  }
  TENON_TRY(file.write(0, {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()}));
  return file.sync();
}

Result<> make_folders(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  return ec ? Result<>(os_error("make folder " + path, ec.value())) : Result<>(ok());
}

Result<> sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return os_error("open " + path, errno);
  }
  const int done = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Not every file system can.
  return done != 0 && error == EIO ? Result<>(os_error("sync " + path, error)) : Result<>(ok());
}

LogWriter::LogWriter(const store_format::LogFolders& folders,
                     std::uint64_t file_bytes,
                     std::uint64_t end)
    : folders_(folders.all()),
      spread_(folders.growing),
      file_bytes_(file_bytes),
      end_(end) {}

/// The file where it is, or where a new one belongs.
std::string LogWriter::path_of(std::uint64_t base) const {
  const std::string name = "/" + file_name_of(base);
  std::error_code ec;
  for (const std::string& folder : folders_) {
    if (std::filesystem::exists(folder + name, ec)) {
      return folder + name;
    }
  }
  return spread_.folder_of(base / file_bytes_) + name;
}

Result<> LogWriter::open_at_end() {
  const std::uint64_t base = end_ - end_ % file_bytes_;
  if (base == open_base_) {
    return ok();
  }
  TENON_TRY(file_.sync());
  const std::string path = path_of(base);
  TENON_TRY(make_folders(store_format::folder_of_file(path)));
  TENON_TRY(file_, OpenFile::open(path, file_bytes_));
  open_base_ = base;
  return ok();
}

Result<std::uint64_t> LogWriter::append(std::span<std::uint8_t> record) {
  if (record.size() + store::kBlankBytes > file_bytes_) {
    return Error{
        Errc::kLimit,
        fmt::format(
            "a record of {} bytes does not fit into log files of {}", record.size(), file_bytes_)};
  }
  TENON_TRY(open_at_end());
  const std::uint64_t left = open_base_ + file_bytes_ - end_;
  if (record.size() + store::kBlankBytes > left) {
    std::uint8_t blank[store::kBlankBytes];
    store_be(blank, static_cast<std::uint32_t>(left));
    store_be(blank + 4, proto::kBlankMagic);
    TENON_TRY(file_.write(end_ - open_base_, blank));
    end_ = open_base_ + file_bytes_;
    TENON_TRY(open_at_end());
  }
  store_be(record.data() + proto::kRecordPhysOffsetAt, end_);
  TENON_TRY(file_.write(end_ - open_base_, record));
  const std::uint64_t at = end_;
  end_ += record.size();
  return at;
}

Result<> LogWriter::finish() {
  TENON_TRY(file_.sync());
  for (const std::string& folder : folders_) {
    std::error_code ec;
    if (open_base_ != ~std::uint64_t{0} && std::filesystem::is_directory(folder, ec)) {
      TENON_TRY(sync_folder(folder));
    }
  }
  return ok();
}

Result<> QueueBuilder::put(std::int64_t offset, const store_format::Unit& unit) {
  const auto per_file = static_cast<std::int64_t>(file_bytes_ / kUnitBytes);
  if (!begun_) {
    begun_ = true;
    end_ = offset - offset % per_file;
    flushed_ = static_cast<std::uint64_t>(end_) * kUnitBytes;
  }
  if (offset < end_) {
    return ok();
  }
  if (offset - end_ > static_cast<std::int64_t>(kGapFilesMax) * per_file) {
    return Error{
        Errc::kCorrupt,
        fmt::format(
            "{}: queue offset {} is {} behind the one before", folder_, offset, offset - end_)};
  }
  while (end_ < offset) {
    TENON_TRY(add(store_format::kFillerUnit));
  }
  return add(unit);
}

Result<> QueueBuilder::add(const store_format::Unit& unit) {
  std::uint8_t bytes[kUnitBytes];
  store_format::store_unit(bytes, unit);
  buffer_.insert(buffer_.end(), bytes, bytes + kUnitBytes);
  ++end_;
  const bool file_full = static_cast<std::uint64_t>(end_) * kUnitBytes % file_bytes_ == 0;
  return file_full || buffer_.size() >= kBufferedUnits * kUnitBytes ? flush() : Result<>(ok());
}

/// What is buffered lies in one file.
Result<> QueueBuilder::flush() {
  if (buffer_.empty()) {
    return ok();
  }
  const std::uint64_t base = flushed_ - flushed_ % file_bytes_;
  if (bases_.empty() || bases_.back() != base) {
    TENON_TRY(make_folders(folder_));
    bases_.push_back(base);
  }
  TENON_TRY(const OpenFile file, OpenFile::open(folder_ + "/" + file_name_of(base), file_bytes_));
  TENON_TRY(file.write(flushed_ - base, buffer_));
  flushed_ += buffer_.size();
  buffer_.clear();
  return ok();
}

Result<> QueueBuilder::finish() {
  TENON_TRY(flush());
  for (const std::uint64_t base : bases_) {
    TENON_TRY(const OpenFile file, OpenFile::open(folder_ + "/" + file_name_of(base), file_bytes_));
    TENON_TRY(file.sync());
  }
  return bases_.empty() ? Result<>(ok()) : sync_folder(folder_);
}

IndexBuilder::~IndexBuilder() {
  if (data_ != nullptr) {
    ::munmap(data_, shape_.file_bytes());
  }
}

Result<> IndexBuilder::close_file() {
  if (data_ == nullptr) {
    return ok();
  }
  const int synced = ::msync(data_, shape_.file_bytes(), MS_SYNC);
  const int error = errno;
  ::munmap(data_, shape_.file_bytes());
  data_ = nullptr;
  return synced != 0 ? Result<>(os_error("sync " + folder_ + "/" + name_, error)) : file_.sync();
}

Result<> IndexBuilder::next_file() {
  const bool first = name_.empty();
  const store_format::IndexHeader before = header_;
  if (!first) {
    complete_ms_ = header_.end_ms;
    complete_phys_ = header_.end_phys;
  }
  TENON_TRY(close_file());
  TENON_TRY(make_folders(folder_));
  name_ = store_format::index_name_of(wall_ms_, name_);
  const std::string path = folder_ + "/" + name_;
  TENON_TRY(file_, OpenFile::open(path, shape_.file_bytes()));
  // Without blocks a full disk would be a SIGBUS.
  allocated_ = shape_.item_at(0);
  if (const int error = ::posix_fallocate(file_.fd(), 0, static_cast<off_t>(allocated_));
      error == ENOSPC) {
    return os_error("allocate " + path, error, Errc::kFull);
  }
  void* at =
      ::mmap(nullptr, shape_.file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (at == MAP_FAILED) {
    return os_error("map " + path, errno);
  }
  data_ = static_cast<std::uint8_t*>(at);
  header_ = store_format::first_index_header(first ? nullptr : &before);
  store_format::store_index_header(data_, header_);
  return ok();
}

Result<> IndexBuilder::add(const proto::MessageView& m) {
  Result<> result = ok();
  store::for_each_key(m, [&](std::string_view key) {
    if (result && (data_ == nullptr || header_.next_item >= shape_.items)) {
      result = next_file();
    }
    if (!result) {
      return;
    }
    if (const std::uint64_t stop = shape_.item_at(header_.next_item) + 20; stop > allocated_) {
      const std::uint64_t to = std::min(stop + kAllocateStep, shape_.file_bytes());
      if (::posix_fallocate(file_.fd(),
                            static_cast<off_t>(allocated_),
                            static_cast<off_t>(to - allocated_)) == ENOSPC) {
        result = os_error("allocate " + folder_ + "/" + name_, ENOSPC, Errc::kFull);
        return;
      }
      allocated_ = to;
    }
    last_phys_ = static_cast<std::uint64_t>(m.phys_offset);
    store_format::add_index_item(
        data_, shape_, header_, store::key_hash(m.topic, key, scratch_), last_phys_, m.store_ms);
  });
  return result;
}

Result<> IndexBuilder::finish() {
  TENON_TRY(close_file());
  return name_.empty() ? Result<>(ok()) : sync_folder(folder_);
}

Result<> save_checkpoint(const std::string& root, const store_format::Checkpoint& c) {
  const std::string path = root + "/checkpoint";
  TENON_TRY(const OpenFile file, OpenFile::open(path, store_format::kCheckpointBytes));
  std::uint8_t bytes[store_format::kCheckpointBytes] = {};
  static_cast<void>(::pread(file.fd(), bytes, sizeof bytes, 0));
  store_format::write_checkpoint(c, bytes);
  TENON_TRY(file.write(0, bytes));
  return file.sync();
}

}  // namespace tenon::store_tool
