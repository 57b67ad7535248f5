// Files of a store, mapped for reading only, of whatever size they have. Nothing here writes.
#pragma once

#include "tenon/base/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::store_tool {

/// One file. Thread: any, the mapping is immutable.
class ReadFile {
 public:
  /// An empty file has no bytes. @return kIo, kNotFound
  static Result<std::unique_ptr<ReadFile>> open(const std::string& path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  std::span<const std::uint8_t> bytes() const noexcept { return {data_, bytes_}; }
  /// End of the last byte in [from, to) that is not zero, or `from`. Skips holes.
  std::uint64_t data_end(std::uint64_t from, std::uint64_t to) const;

 private:
  ReadFile(std::string path, const std::uint8_t* data, std::size_t bytes)
      : path_(std::move(path)),
        data_(data),
        bytes_(bytes) {}
  std::string path_;
  const std::uint8_t* data_;
  std::size_t bytes_;
};

struct SequenceFile {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;   ///< as found; may be wrong
  std::uint32_t folder = 0;  ///< which of the sequence
};

/// Files named by the position of their first byte. Holes and short files are possible: positions
/// there have no bytes. Thread: one at a time (files are mapped when they are needed).
class Sequence {
 public:
  Sequence() = default;
  explicit Sequence(std::string folder) { folders_.push_back(std::move(folder)); }
  /// Files lie in any of the folders. At least one.
  explicit Sequence(std::vector<std::string> folders)
      : folders_(std::move(folders)) {}

  const std::vector<std::string>& folders() const noexcept { return folders_; }
  const std::vector<SequenceFile>& files() const noexcept { return files_; }
  bool empty() const noexcept { return files_.empty(); }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::uint64_t first_base() const noexcept { return files_.empty() ? 0 : files_.front().base; }
  std::uint64_t last_end() const noexcept {
    return files_.empty() ? 0 : files_.back().base + file_bytes_;
  }
  void add(SequenceFile file) { files_.push_back(file); }
  /// Files that go because another one of the same position stays.
  struct Doubles {
    std::vector<std::string> blank{};
    std::vector<std::string> other{};
  };
  /// Sorts by position, once all are added. Of two files of one position one stays that is not blank.
  Doubles settle();
  void set_file_bytes(std::uint64_t bytes) noexcept { file_bytes_ = bytes; }

  /// From pos to the end of what its file has; empty if there is nothing.
  std::span<const std::uint8_t> at(std::uint64_t pos) const;
  /// Exactly [pos, pos + bytes); empty if that is not all there in one file.
  std::span<const std::uint8_t> at(std::uint64_t pos, std::uint64_t bytes) const;
  /// The file whose range contains pos; null if there is none.
  const SequenceFile* file_of(std::uint64_t pos) const noexcept;
  /// Start of the first file that begins behind pos; null if there is none.
  const SequenceFile* file_behind(std::uint64_t pos) const noexcept;
  /// End of the data in the file of pos, from pos on: last byte that is not zero, or pos.
  std::uint64_t data_end(std::uint64_t pos) const;
  std::string path_of(const SequenceFile& file) const;
  /// Path of the file that contains pos.
  std::string path_of(std::uint64_t pos) const;
  /// Unmaps all; spans become invalid.
  void unmap() const;

 private:
  const ReadFile* map(const SequenceFile& file) const;

  std::vector<std::string> folders_{};
  std::uint64_t file_bytes_ = 0;
  std::vector<SequenceFile> files_{};
  mutable std::vector<std::unique_ptr<ReadFile>> mapped_{};
};

}  // namespace tenon::store_tool
