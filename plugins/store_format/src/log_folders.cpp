#include "tenon/store_format/log_folders.h"

#include "tenon/store_format/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tenon::store_format {

namespace {

Result<std::vector<std::string>> split(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (part.size() > 1 && part.back() == '/') {
      part.remove_suffix(1);
    }
    if (part.empty()) {
      continue;  // Java drops what is empty at the end, and has no use for it elsewhere
    }
    // RocketMQ's rocketmq.broker.multiPathSplitter may name another separator.
    if (part.find_first_of(":;") != std::string_view::npos) {
      return Error{Errc::kInvalid, "several folders are separated by commas"};
    }
    if (part.front() != '/') {
      return Error{Errc::kInvalid, fmt::format("\"{}\" must be a full path", part)};
    }
    found.emplace_back(part);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

std::vector<std::string> LogFolders::all() const {
  std::vector<std::string> both;
  std::merge(
      growing.begin(), growing.end(), read_only.begin(), read_only.end(), std::back_inserter(both));
  return both;
}

Result<LogFolders> parse_log_folders(const std::string& root,
                                     std::string_view folders,
                                     std::string_view read_only) {
  LogFolders found;
  TENON_TRY(auto named, split(folders));
  TENON_TRY(found.read_only, split(read_only));
  if (named.empty()) {
    named.push_back(log_folder(root));
  }
  std::set_difference(named.begin(),
                      named.end(),
                      found.read_only.begin(),
                      found.read_only.end(),
                      std::back_inserter(found.growing));
  if (found.growing.empty()) {
    return Error{Errc::kInvalid, "all folders are read-only: one is needed for new files"};
  }
  if (found.growing.size() + found.read_only.size() > kLogFoldersMax) {
    return Error{Errc::kInvalid, fmt::format("at most {} folders are possible", kLogFoldersMax)};
  }
  return found;
}

FolderSpread::FolderSpread(std::vector<std::string> folders)
    : folders_(std::move(folders)) {}

const std::string& FolderSpread::folder_of(std::uint64_t number) const noexcept {
  std::uint64_t full = full_.load(std::memory_order_relaxed);
  std::size_t open = 0;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    open += is_full(i, full) ? 0 : 1;
  }
  if (open == 0) {
    full = 0;
    open = folders_.size();
  }
  std::uint64_t skip = number % open;
  std::size_t at = 0;
  for (; is_full(at, full) || skip > 0; ++at) {
    skip -= is_full(at, full) ? 0 : 1;
  }
  return folders_[at];
}

bool FolderSpread::mark_full(const std::string& path) noexcept {
  const std::string_view folder = std::string_view(path).substr(0, path.rfind('/'));
  bool room = false;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    if (folders_[i] == folder) {
      full_.fetch_or(std::uint64_t{1} << i, std::memory_order_relaxed);
    } else {
      room = room || !is_full(i, full_.load(std::memory_order_relaxed));
    }
  }
  return room;
}

std::string folder_of_file(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

}  // namespace tenon::store_format
