#include "mapped_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tenon::store_file {

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
    data_ = nullptr;
    fd_ = Fd{};
    if (count_ != nullptr) {
      count_->mapped.fetch_sub(1, std::memory_order_relaxed);
    }
    appending_.store(false, std::memory_order_relaxed);
  }
}

Result<> MappedFile::map(bool create) {
  if (data_ != nullptr) {
    return ok();
  }
  Fd fd(io().open(path_.c_str(), O_RDWR | (create ? O_CREAT : 0), 0644));
  if (fd.get() < 0) {
    return os_error((create ? "create " : "open ") + path_, errno);
  }
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) {
    return os_error("stat " + path_, errno);
  }
  if (static_cast<std::uint64_t>(st.st_size) != bytes_) {
    if (!create || st.st_size != 0) {
      return Error{Errc::kCorrupt,
                   fmt::format("{} has {} bytes, {} expected", path_, st.st_size, bytes_)};
    }
    // Sparse: the blocks come when the pages are reserved.
    if (io().ftruncate(fd.get(), static_cast<off_t>(bytes_)) != 0) {
      const int error = errno;
      static_cast<void>(io().unlink(path_.c_str()));
      return os_error("enlarge " + path_, error, error == ENOSPC ? Errc::kFull : Errc::kIo);
    }
  }
  void* at = io().mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) {
    return os_error("map " + path_, errno);
  }
  data_ = static_cast<std::uint8_t*>(at);
  if (count_ == nullptr) {
    fd_ = std::move(fd);
  } else {
    count_->mapped.fetch_add(1, std::memory_order_relaxed);
  }
  if (create) {
    expect_appends();
  }
  return ok();
}

void MappedFile::expect_appends() noexcept {
  if (data_ != nullptr && !appending_.exchange(true, std::memory_order_relaxed)) {
    static_cast<void>(::madvise(data_, bytes_, MADV_RANDOM));
  }
}

void MappedFile::expect_reads() noexcept {
  if (data_ != nullptr && appending_.exchange(false, std::memory_order_relaxed)) {
    static_cast<void>(::madvise(data_, bytes_, MADV_NORMAL));
  }
}

Result<> MappedFile::sync(std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t begin = page_down(std::max(from, base_) - base_);
  const std::uint64_t stop = std::min(to, end()) - base_;
  if (begin < stop && io().msync(data_ + begin, stop - begin, MS_SYNC) != 0) {
    return os_error("sync " + path_, errno);
  }
  return ok();
}

Result<> MappedFile::reserve(std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t begin = page_down(std::max(from, base_) - base_);
  const std::uint64_t stop = std::min(to, end()) - base_;
  if (begin >= stop) {
    return ok();
  }
  if (io().populate(data_ + begin, stop - begin) != 0) {
    // The kernel reports a failed block allocation of a mapping as a bad address.
    const int error = errno == EFAULT ? ENOSPC : errno;
    return os_error("reserve space in " + path_, error, error == ENOSPC ? Errc::kFull : Errc::kIo);
  }
  return ok();
}

Result<> MappedFile::allocate(std::uint64_t from, std::uint64_t to) const {
  if (io().fallocate(fd_.get(),
                     0,
                     static_cast<off_t>(from - base_),
                     static_cast<off_t>(std::min(to, end()) - from)) == 0) {
    return ok();
  }
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    return reserve(from, to);
  }
  const int error = errno;
  return os_error("allocate space in " + path_, error, error == ENOSPC ? Errc::kFull : Errc::kIo);
}

Result<> MappedFile::erase_from(std::uint64_t from) const {
  if (fd_.get() >= 0) {
    return erase_range(fd_.get(), data_, from - base_, bytes_);
  }
  const Fd fd(io().open(path_.c_str(), O_RDWR, 0));
  if (fd.get() < 0) {
    return os_error("open " + path_, errno);
  }
  return erase_range(fd.get(), data_, from - base_, bytes_);
}

void MappedFile::forget(std::uint64_t from, std::uint64_t to) const noexcept {
  if (from < base_) {
    from = base_;
  }
  const std::uint64_t begin = page_up(from - base_);
  const std::uint64_t stop = page_down(std::min(to, end()) - base_);
  if (data_ != nullptr && begin < stop) {
    static_cast<void>(::madvise(data_ + begin, stop - begin, MADV_DONTNEED));
  }
}

void FileSet::adopt(std::uint64_t base, const std::string& folder) {
  const std::scoped_lock lock(mutex_);
  files_.push_back(
      std::make_unique<MappedFile>(folder + "/" + file_name_of(base), base, file_bytes_, count_));
}

/// The name and size of a new file reach the disk, where that is not settled by their order.
Result<> FileSet::keep_name(const MappedFile& file) const {
  if (spread_ == nullptr) {
    return ok();
  }
  if (io().fdatasync(file.fd()) != 0) {
    const int error = errno;
    static_cast<void>(io().unlink(file.path().c_str()));
    return os_error("sync " + file.path(), error, error == ENOSPC ? Errc::kFull : Errc::kIo);
  }
  sync_directory(store_format::folder_of_file(file.path()));
  return ok();
}

Result<MappedFile*> FileSet::ensure(std::uint64_t base) {
  {
    const std::scoped_lock lock(mutex_);
    if (MappedFile* existing = find_locked(base)) {
      TENON_TRY(existing->map(false));
      return existing;
    }
  }
  // Trap: one at a time. Who fails to make a file removes its name, and another thread's file of that
  // name would lose it.
  const std::scoped_lock making(making_);
  std::unique_ptr<MappedFile> created;
  const std::string& folder = folder_of(base);
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    if (MappedFile* existing = find_locked(base)) {
      TENON_TRY(existing->map(false));
      return existing;
    }
    if (!files_.empty() && files_.back()->end() != base) {
      return Error{Errc::kInternal,
                   fmt::format("{} would get a hole before {}", folder, file_name_of(base))};
    }
    first = files_.empty();
    created =
        std::make_unique<MappedFile>(folder + "/" + file_name_of(base), base, file_bytes_, count_);
  }
  if (first || spread_ != nullptr) {
    TENON_TRY(make_directories(folder));
  }
  TENON_TRY(created->map(true));
  TENON_TRY(keep_name(*created));
  const std::scoped_lock lock(mutex_);
  struct stat st {};
  const bool unlinked = created->fd() < 0 ? ::stat(created->path().c_str(), &st) != 0
                                          : ::fstat(created->fd(), &st) != 0 || st.st_nlink == 0;
  if (unlinked || (!files_.empty() && files_.back()->end() != base)) {
    // The set was cut meanwhile: a file beyond its end would leave a hole.
    if (!unlinked) {
      static_cast<void>(io().unlink(created->path().c_str()));
    }
    return Error{Errc::kBusy, "the files were cut while " + created->path() + " was made"};
  }
  files_.push_back(std::move(created));
  used_.store(true, std::memory_order_relaxed);
  return files_.back().get();
}

MappedFile* FileSet::find_locked(std::uint64_t pos) {
  used_.store(true, std::memory_order_relaxed);
  if (files_.empty() || pos < files_.front()->base() || pos >= files_.back()->end()) {
    return nullptr;
  }
  return files_[(pos - files_.front()->base()) / file_bytes_].get();
}

FilePin FileSet::pin_locked(MappedFile* file) {
  if (file == nullptr || !file->map(false)) {
    return FilePin{};
  }
  file->pin();
  return FilePin{file};
}

FilePin FileSet::pin(std::uint64_t pos) {
  const std::scoped_lock lock(mutex_);
  return pin_locked(find_locked(pos));
}

FilePin FileSet::pin_first() {
  const std::scoped_lock lock(mutex_);
  return pin_locked(files_.empty() ? nullptr : files_.front().get());
}

FilePin FileSet::pin_last() {
  const std::scoped_lock lock(mutex_);
  return pin_locked(files_.empty() ? nullptr : files_.back().get());
}

MappedFile* FileSet::find(std::uint64_t pos) {
  const std::scoped_lock lock(mutex_);
  MappedFile* file = find_locked(pos);
  return file != nullptr && file->map(false) ? file : nullptr;
}

bool FileSet::empty() const {
  const std::scoped_lock lock(mutex_);
  return files_.empty();
}

std::size_t FileSet::count() const {
  const std::scoped_lock lock(mutex_);
  return files_.size();
}

std::uint64_t FileSet::first_base() const {
  const std::scoped_lock lock(mutex_);
  return files_.empty() ? 0 : files_.front()->base();
}

std::uint64_t FileSet::last_end() const {
  const std::scoped_lock lock(mutex_);
  return files_.empty() ? 0 : files_.back()->end();
}

std::vector<std::uint64_t> FileSet::bases() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint64_t> all;
  all.reserve(files_.size());
  for (const auto& f : files_) {
    all.push_back(f->base());
  }
  return all;
}

std::uint64_t FileSet::next_base(std::uint64_t pos) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& f : files_) {
    if (f->base() > pos) {
      return f->base();
    }
  }
  return 0;
}

bool FileSet::remove_first() {
  std::string path;
  {
    const std::scoped_lock lock(mutex_);
    if (files_.size() < 2) {
      return false;
    }
    path = files_.front()->path();
  }
  // A name that stays would leave a hole behind it once the next file goes.
  if (io().unlink(path.c_str()) != 0 && errno != ENOENT) {
    return false;
  }
  if (spread_ != nullptr) {
    sync_directory(store_format::folder_of_file(path));
  }
  std::unique_ptr<MappedFile> gone;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  gone = std::move(files_.front());
  files_.erase(files_.begin());
  if (gone->is_pinned()) {
    removed_.push_back(std::move(gone));
  }
  return true;
}

std::size_t FileSet::reap() {
  std::vector<std::unique_ptr<MappedFile>> gone;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  for (auto& file : removed_) {
    if (!file->is_pinned()) {
      gone.push_back(std::move(file));
    }
  }
  std::erase(removed_, nullptr);
  return removed_.size();
}

bool FileSet::remove_from(std::uint64_t pos) {
  std::vector<std::unique_ptr<MappedFile>> gone;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  for (const auto& f : files_) {
    if (f->base() >= pos && f->is_pinned()) {
      return false;
    }
  }
  // Newest first: a crash in between leaves no hole. Trap: the names go with the lock held, else
  // ensure() adopts a file by the name that is about to go.
  while (!files_.empty() && files_.back()->base() >= pos) {
    static_cast<void>(io().unlink(files_.back()->path().c_str()));
    gone.push_back(std::move(files_.back()));
    files_.pop_back();
    if (spread_ != nullptr && !files_.empty() && files_.back()->base() >= pos) {
      sync_directory(store_format::folder_of_file(gone.back()->path()));
    }
  }
  return true;
}

void FileSet::unmap_unheld() {
  const std::scoped_lock lock(mutex_);
  for (const auto& f : files_) {
    if (!f->is_pinned()) {
      f->unmap();
    }
  }
}

bool FileSet::clear() {
  const std::scoped_lock lock(mutex_);
  if (has_pins_locked()) {
    return false;
  }
  files_.clear();
  removed_.clear();
  return true;
}

bool FileSet::has_pins() const {
  const std::scoped_lock lock(mutex_);
  return has_pins_locked();
}

bool FileSet::has_pins_locked() const {
  const auto pinned = [](const auto& f) { return f->is_pinned(); };
  return std::any_of(files_.begin(), files_.end(), pinned) ||
         std::any_of(removed_.begin(), removed_.end(), pinned);
}

}  // namespace tenon::store_file
