// What lies in a store folder, looked at without changing anything: names and sizes of all files,
// each checked (spec: store §1, §25).
#pragma once

#include "options.h"

#include "tenon/base/result.h"
#include "tenon/store_format/names.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::store_file {

struct QueueFolder {
  std::string topic{};
  std::uint32_t id = 0;
  std::vector<std::uint64_t> bases{};      ///< ascending, without holes
  std::vector<std::uint64_t> ext_bases{};  ///< of its extension
};

struct Layout {
  std::uint64_t log_file_bytes = 0;
  std::uint64_t queue_file_bytes = 0;
  std::uint64_t ext_file_bytes = 0;
  std::vector<std::uint64_t> log_bases{};  ///< ascending, without holes
  std::vector<std::string> log_places{};   ///< the folder of each
  std::vector<QueueFolder> queues{};
  std::vector<std::string> index_names{};  ///< ascending
  std::uint64_t index_file_bytes = 0;      ///< 0 without files
  std::vector<std::string> empty_files{};  ///< left by a crash between two calls, to be removed
  bool abort = false;
  bool has_lock_file = false;
  std::vector<std::string> notes{};  ///< lines for the log
};

using store_format::ext_folder;
using store_format::index_folder;
using store_format::log_folder;
using store_format::queue_folder;

/// Reads the folder. File sizes come from the existing files, else from the options.
/// @return kCorrupt for a foreign or damaged file, kIncompatible for a store of another kind; the
/// text names the file and what to do. Nothing is changed.
Result<Layout> scan_layout(const Options& options);

}  // namespace tenon::store_file
