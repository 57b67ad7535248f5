#include "tenon/store_tool/read_files.h"

#include "tenon/store_format/names.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::store_tool {

Result<std::unique_ptr<ReadFile>> ReadFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return os_error("open " + path, errno, errno == ENOENT ? Errc::kNotFound : Errc::kIo);
  }
  struct stat st {};
  void* at = nullptr;
  const bool known = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  const auto bytes = known ? static_cast<std::size_t>(st.st_size) : 0;
  if (bytes > 0) {
    at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  ::close(fd);
  if (!known) {
    return Error{Errc::kIo, path + " is no plain file"};
  }
  if (at == MAP_FAILED) {
    return os_error("map " + path, error);
  }
  return std::unique_ptr<ReadFile>(new ReadFile(path, static_cast<const std::uint8_t*>(at), bytes));
}

ReadFile::~ReadFile() {
  if (bytes_ > 0) {
    ::munmap(const_cast<std::uint8_t*>(data_), bytes_);
  }
}

std::uint64_t ReadFile::data_end(std::uint64_t from, std::uint64_t to) const {
  to = std::min<std::uint64_t>(to, bytes_);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  for (std::uint64_t at = from; fd >= 0 && at < to;) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) {
      break;
    }
    const off_t hole = ::lseek(fd, data, SEEK_HOLE);
    at = hole < 0 ? to : static_cast<std::uint64_t>(hole);
    extents.emplace_back(static_cast<std::uint64_t>(data), std::min(at, to));
  }
  if (fd >= 0) {
    ::close(fd);
  }
  for (auto it = extents.rbegin(); it != extents.rend(); ++it) {
    for (std::uint64_t end = it->second; end > std::max(it->first, from); --end) {
      if (data_[end - 1] != 0) {
        return end;
      }
    }
  }
  return from;
}

const SequenceFile* Sequence::file_of(std::uint64_t pos) const noexcept {
  const auto behind = std::upper_bound(
      files_.begin(), files_.end(), pos, [](std::uint64_t p, const SequenceFile& f) {
        return p < f.base;
      });
  if (behind == files_.begin()) {
    return nullptr;
  }
  const SequenceFile& file = *(behind - 1);
  return pos - file.base < std::max(file_bytes_, file.bytes) ? &file : nullptr;
}

const SequenceFile* Sequence::file_behind(std::uint64_t pos) const noexcept {
  const auto behind = std::upper_bound(
      files_.begin(), files_.end(), pos, [](std::uint64_t p, const SequenceFile& f) {
        return p < f.base;
      });
  return behind == files_.end() ? nullptr : &*behind;
}

const ReadFile* Sequence::map(const SequenceFile& file) const {
  mapped_.resize(files_.size());
  auto& mapped = mapped_[static_cast<std::size_t>(&file - files_.data())];
  if (!mapped) {
    auto opened = ReadFile::open(path_of(file));
    if (!opened) {
      return nullptr;
    }
    mapped = std::move(opened).value();
  }
  return mapped.get();
}

std::span<const std::uint8_t> Sequence::at(std::uint64_t pos) const {
  const SequenceFile* file = file_of(pos);
  const ReadFile* mapped = file == nullptr ? nullptr : map(*file);
  if (mapped == nullptr || pos - file->base >= mapped->bytes().size()) {
    return {};
  }
  std::uint64_t end = mapped->bytes().size();
  if (file_bytes_ > 0) {
    end = std::min(end, file_bytes_);
  }
  return pos - file->base >= end
             ? std::span<const std::uint8_t>{}
             : mapped->bytes().subspan(pos - file->base, end - (pos - file->base));
}

std::span<const std::uint8_t> Sequence::at(std::uint64_t pos, std::uint64_t bytes) const {
  const auto rest = at(pos);
  return rest.size() < bytes ? std::span<const std::uint8_t>{} : rest.first(bytes);
}

std::uint64_t Sequence::data_end(std::uint64_t pos) const {
  const SequenceFile* file = file_of(pos);
  const ReadFile* mapped = file == nullptr ? nullptr : map(*file);
  return mapped == nullptr
             ? pos
             : file->base + mapped->data_end(pos - file->base, mapped->bytes().size());
}

Sequence::Doubles Sequence::settle() {
  std::stable_sort(
      files_.begin(), files_.end(), [](const auto& a, const auto& b) { return a.base < b.base; });
  const auto is_blank = [this](const SequenceFile& f) {
    const auto file = ReadFile::open(path_of(f));
    return file && file.value()->data_end(0, f.bytes) == 0;
  };
  Doubles gone;
  for (std::size_t i = 1; i < files_.size();) {
    if (files_[i - 1].base != files_[i].base) {
      ++i;
      continue;
    }
    const bool second = is_blank(files_[i]);
    const bool first = !second && is_blank(files_[i - 1]);
    const std::size_t out = first ? i - 1 : i;
    (first || second ? gone.blank : gone.other).push_back(path_of(files_[out]));
    files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(out));
  }
  return gone;
}

std::string Sequence::path_of(const SequenceFile& file) const {
  return folders_[file.folder] + "/" + store_format::file_name_of(file.base);
}

std::string Sequence::path_of(std::uint64_t pos) const {
  if (const SequenceFile* file = file_of(pos)) {
    return path_of(*file);
  }
  return folders_.front() + "/" +
         store_format::file_name_of(file_bytes_ > 0 ? pos - pos % file_bytes_ : pos);
}

void Sequence::unmap() const {
  mapped_.clear();
}

}  // namespace tenon::store_tool
