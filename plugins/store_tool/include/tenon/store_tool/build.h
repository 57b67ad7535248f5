// Writes the files of a store: log, queues, key index, checkpoint. Of folders that nobody uses.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/message.h"
#include "tenon/store_format/checkpoint.h"
#include "tenon/store_format/index.h"
#include "tenon/store_format/log_folders.h"
#include "tenon/store_format/unit.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::store_tool {

/// Closes a descriptor at the end of its scope.
class OpenFile {
 public:
  /// Opens for writing; makes the file, `bytes` long and without blocks, if it is not there.
  static Result<OpenFile> open(const std::string& path, std::uint64_t bytes);
  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();
  Result<> write(std::uint64_t at, std::span<const std::uint8_t> bytes) const;
  Result<> sync() const;
  int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  std::string path_{};
};

/// Makes a new file with that content, durable.
Result<> write_file(const std::string& path, std::string_view content);
Result<> make_folders(const std::string& path);
Result<> sync_folder(const std::string& path);

/// Appends records to the log. Thread: one.
class LogWriter {
 public:
  /// Goes on at `end`, the end of the log that lies in the folders; 0 for a new one.
  LogWriter(const store_format::LogFolders& folders, std::uint64_t file_bytes, std::uint64_t end);
  /// Gives the record its position (changes it in `record`) and writes it.
  /// @return the position; kLimit: no file has room for it
  Result<std::uint64_t> append(std::span<std::uint8_t> record);
  Result<> finish();  ///< makes all durable
  std::uint64_t end() const noexcept { return end_; }

 private:
  Result<> open_at_end();
  std::string path_of(std::uint64_t base) const;
  std::vector<std::string> folders_;
  store_format::FolderSpread spread_;
  std::uint64_t file_bytes_;
  std::uint64_t end_;
  std::uint64_t open_base_ = ~std::uint64_t{0};
  OpenFile file_{};
};

/// Writes the files of one queue from the front. Thread: one.
class QueueBuilder {
 public:
  QueueBuilder(std::string folder, std::uint64_t file_bytes)
      : folder_(std::move(folder)),
        file_bytes_(file_bytes) {}
  /// The unit of an offset. Before the first, filler from the start of its file on; a gap is filled.
  /// Offsets that are there already are left alone. @return kCorrupt for a jump over many files
  Result<> put(std::int64_t offset, const store_format::Unit& unit);
  /// Makes all durable.
  Result<> finish();
  std::int64_t end() const noexcept { return end_; }
  bool empty() const noexcept { return !begun_; }

 private:
  Result<> add(const store_format::Unit& unit);
  Result<> flush();
  std::string folder_;
  std::uint64_t file_bytes_;
  bool begun_ = false;
  std::int64_t end_ = 0;
  std::uint64_t flushed_ = 0;  ///< byte position up to which the files have it
  std::vector<std::uint8_t> buffer_{};
  std::vector<std::uint64_t> bases_{};
};

/// Writes index files for records in log order. Thread: one.
class IndexBuilder {
 public:
  IndexBuilder(std::string folder, store_format::IndexShape shape, std::int64_t wall_ms)
      : folder_(std::move(folder)),
        shape_(shape),
        wall_ms_(wall_ms) {}
  ~IndexBuilder();
  Result<> add(const proto::MessageView& m);
  Result<> finish();
  std::uint64_t last_phys() const noexcept { return last_phys_; }
  /// End time of the last file that is full; 0 without one.
  std::int64_t complete_ms() const noexcept { return complete_ms_; }
  /// Record of its last entry; 0 without one.
  std::uint64_t complete_phys() const noexcept { return complete_phys_; }

 private:
  Result<> next_file();
  Result<> close_file();
  std::string folder_;
  store_format::IndexShape shape_;
  std::int64_t wall_ms_;
  std::string name_{};
  OpenFile file_{};
  std::uint8_t* data_ = nullptr;
  std::uint64_t allocated_ = 0;
  store_format::IndexHeader header_{};
  std::uint64_t last_phys_ = 0;
  std::int64_t complete_ms_ = 0;
  std::uint64_t complete_phys_ = 0;
  std::string scratch_{};
};

/// Keeps what newer versions wrote into the file.
Result<> save_checkpoint(const std::string& root, const store_format::Checkpoint& c);

}  // namespace tenon::store_tool
