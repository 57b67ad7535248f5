// The key index: index files in order of their creation (spec: store §6, §17).
#pragma once

#include "index_file.h"
#include "markers.h"

#include "tenon/base/result.h"
#include "tenon/proto/message.h"
#include "tenon/store/host_services.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::store_file {

/// Thread: any; one lock, held over page faults, so not for I/O threads. Records are inserted by
/// one thread in log order.
class KeyIndex {
 public:
  explicit KeyIndex(const store::HostServices& host)
      : host_(host) {}

  /// Finds slots and items of the files of a folder: as configured, else one slot for four items,
  /// else the first shape that fits the content.
  /// @return kIncompatible if none does; names the options to set
  static Result<IndexShape> find_shape(const std::string& folder,
                                       const std::vector<std::string>& names,
                                       std::uint64_t file_bytes,
                                       IndexShape configured);

  /// Opens the files. After a crash, files that are newer than the checkpoint are deleted: they are
  /// made again from the log (spec: store §13.5).
  Result<> load(std::string folder,
                IndexShape shape,
                const std::vector<std::string>& names,
                bool crashed,
                const Checkpoint& checkpoint);
  /// Log position of the last record with an entry; 0 without any.
  std::uint64_t last_phys() const;
  /// Adds the keys of a record, unless they are there. kFull, kIo: try again later, nothing is
  /// lost as long as the caller keeps its position.
  Result<> insert(const proto::MessageView& record);
  /// Physical offsets for a key, newest first, at most max.
  std::vector<std::uint64_t> query(std::string_view topic,
                                   std::string_view key,
                                   std::int64_t begin_ms,
                                   std::int64_t end_ms,
                                   std::size_t max) const;
  struct LastUpdate {
    std::int64_t ms = 0;
    std::uint64_t phys = 0;
  };
  LastUpdate last_update() const;

  /// Removes the entries of records at or behind phys. @return whether there were any
  bool cut(std::uint64_t phys);
  std::uint32_t remove_expired(std::uint64_t log_min);
  void clear(bool delete_files);
  Result<> sync() const;
  void forget_pages() const;
  std::size_t count() const;

  /// Called with the header of a file that became full, after it was synced.
  std::function<void(const IndexHeader& full)> on_complete{};

 private:
  Result<> add_file();
  std::string new_name() const;

  const store::HostServices& host_;
  mutable std::mutex mutex_{};
  std::string folder_{};
  IndexShape shape_{};
  std::vector<std::unique_ptr<IndexFile>> files_{};
  std::string scratch_{};
};

}  // namespace tenon::store_file
