#include "layout.h"

#include "mapped_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

namespace tenon::store_file {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRemedy =
    "move it out of the folder (or restore the original) and start again; nothing was changed";

using store_format::number_of;

Error list_error(const std::string& folder, const std::error_code& ec) {
  return os_error("read folder " + folder, ec.value());
}

struct Entry {
  std::string name{};
  std::uint64_t bytes = 0;
};

/// Names and sizes of the plain files of a folder; absent folder = none. Sub-folders are left
/// alone, as 5.x does.
Result<std::vector<Entry>> list_files(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code ec;
  fs::directory_iterator it(folder, ec);
  if (ec) {
    if (ec == std::errc::no_such_file_or_directory) {
      return entries;
    }
    return list_error(folder, ec);
  }
  for (; it != fs::directory_iterator(); it.increment(ec)) {
    if (ec) {
      return list_error(folder, ec);
    }
    if (it->is_directory(ec)) {
      continue;
    }
    const std::uint64_t bytes = it->is_regular_file(ec) ? it->file_size(ec) : 0;
    if (ec) {
      return list_error(it->path().string(), ec);
    }
    entries.push_back({it->path().filename().string(), bytes});
  }
  std::sort(
      entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

/// Whether a file was made but never written.
bool is_blank(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> part(1u << 20);
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto end = part.begin() + in.gcount();
    if (std::any_of(part.begin(), end, [](char c) { return c != 0; })) {
      return false;
    }
  }
  return in.eof();
}

/// Checks a folder of files named by position. `file_bytes` is 0 until the first file tells.
Result<std::vector<std::uint64_t>> scan_sequence(const std::string& folder,
                                                 std::uint64_t& file_bytes,
                                                 std::uint64_t unit,
                                                 std::vector<std::string>& empty_files) {
  TENON_TRY(const std::vector<Entry> entries, list_files(folder));
  std::vector<std::uint64_t> bases;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string path = folder + "/" + entries[i].name;
    const auto base = store_format::base_of_name(entries[i].name);
    if (!base) {
      return Error{
          Errc::kCorrupt,
          fmt::format("{} does not belong to the store: a name of 20 digits is expected; {}",
                      path,
                      kRemedy)};
    }
    if (entries[i].bytes == 0 && i + 1 == entries.size()) {
      empty_files.push_back(path);  // a crash between creating and enlarging it
      continue;
    }
    if (file_bytes == 0) {
      file_bytes = std::max<std::uint64_t>(entries[i].bytes, 1);
    }
    if (entries[i].bytes != file_bytes || entries[i].bytes % unit != 0) {
      return Error{Errc::kCorrupt,
                   fmt::format("{} has {} bytes, but files of {} bytes are expected; {}",
                               path,
                               entries[i].bytes,
                               file_bytes,
                               kRemedy)};
    }
    const bool is_last = i + 1 == entries.size();
    if (is_last && !bases.empty() && *base % file_bytes == 0 && *base > bases.back() + file_bytes &&
        is_blank(path)) {
      empty_files.push_back(path);  // made ahead while the log was cut, and then came the crash
      continue;
    }
    if (*base % file_bytes != 0 || (!bases.empty() && *base != bases.back() + file_bytes)) {
      return Error{
          Errc::kCorrupt,
          fmt::format("{} does not continue the file before it (files of {} bytes): a file "
                      "is missing or misplaced; {}",
                      path,
                      file_bytes,
                      kRemedy)};
    }
    bases.push_back(*base);
  }
  return bases;
}

Result<> scan_queues(const std::string& root, Layout& layout) {
  const std::string top = root + "/consumequeue";
  std::error_code ec;
  fs::directory_iterator topics(top, ec);
  if (ec) {
    return ec == std::errc::no_such_file_or_directory ? Result<>(ok())
                                                      : Result<>(list_error(top, ec));
  }
  const bool has_ext = fs::exists(root + "/consumequeue_ext", ec);
  for (const auto& topic : topics) {
    if (!topic.is_directory(ec)) {
      continue;  // a RocksDB store keeps its own files here
    }
    fs::directory_iterator ids(topic.path(), ec);
    if (ec) {
      return list_error(topic.path().string(), ec);
    }
    for (const auto& id : ids) {
      const auto number = number_of(id.path().filename().string());
      if (!id.is_directory(ec) || !number || *number > 0x7fff'ffffu) {
        continue;  // ignored by the Java broker too
      }
      QueueFolder queue;
      queue.topic = topic.path().filename().string();
      queue.id = static_cast<std::uint32_t>(*number);
      TENON_TRY(queue.bases,
                scan_sequence(id.path().string(), layout.queue_file_bytes, 20, layout.empty_files));
      if (has_ext) {
        TENON_TRY(queue.ext_bases,
                  scan_sequence(ext_folder(root, queue.topic, queue.id),
                                layout.ext_file_bytes,
                                1,
                                layout.empty_files));
      }
      layout.queues.push_back(std::move(queue));
    }
  }
  return ok();
}

Result<> scan_index(const std::string& root, Layout& layout) {
  const std::string folder = index_folder(root);
  TENON_TRY(const std::vector<Entry> entries, list_files(folder));
  for (const Entry& e : entries) {
    if (!number_of(e.name)) {
      layout.notes.push_back(fmt::format("ignoring {}/{}: no index file", folder, e.name));
      continue;
    }
    if (layout.index_file_bytes == 0) {
      layout.index_file_bytes = e.bytes;
    }
    if (e.bytes == 0 && &e == &entries.back()) {
      layout.empty_files.push_back(folder + "/" + e.name);
      continue;
    }
    if (e.bytes != layout.index_file_bytes || e.bytes <= 40) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}/{} has {} bytes, but index files of {} bytes are expected; "
                               "delete the folder index (it is rebuilt) or {}",
                               folder,
                               e.name,
                               e.bytes,
                               layout.index_file_bytes,
                               kRemedy)};
    }
    layout.index_names.push_back(e.name);
  }
  return ok();
}

/// A DLedger broker keeps its messages elsewhere; opening it as empty would hide them.
Result<> refuse_dledger(const std::string& root, const Layout& layout) {
  std::error_code ec;
  for (fs::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    if (!it->path().filename().string().starts_with("dledger-") || !layout.log_bases.empty()) {
      continue;
    }
    TENON_TRY(const std::vector<Entry> data, list_files((it->path() / "data").string()));
    if (!data.empty()) {
      return Error{Errc::kIncompatible,
                   fmt::format("{} holds the log of a DLedger broker; tenon store import-dledger "
                               "makes a folder of it that can be served",
                               it->path().string())};
    }
  }
  return ok();
}

/// A log outside of the root: a disk that is not mounted must not look like a log without messages,
/// which makes the queues start at 0, and of two logs none may be forgotten.
Result<> check_log_folder(const Options& options, const Layout& layout) {
  const std::string usual = log_folder(options.root);
  if (options.log_folder == usual) {
    return ok();
  }
  TENON_TRY(const std::vector<Entry> also, list_files(usual));
  std::error_code ec;
  if (!also.empty() && !fs::equivalent(usual, options.log_folder, ec)) {
    return Error{Errc::kIncompatible,
                 fmt::format("commitlog_folder is {}, but {} has files too; leave the files of one "
                             "log in one of the two folders and start again; nothing was changed",
                             options.log_folder,
                             usual)};
  }
  if (!layout.queues.empty() && !fs::is_directory(options.log_folder, ec)) {
    return Error{
        Errc::kNotFound,
        fmt::format("{} (commitlog_folder) is no folder, but {} has consume queues: is its "
                    "disk mounted? Nothing was changed",
                    options.log_folder,
                    options.root)};
  }
  return ok();
}

}  // namespace

Result<Layout> scan_layout(const Options& options) {
  Layout layout;
  std::error_code ec;
  if (fs::exists(options.root, ec) && !fs::is_directory(options.root, ec)) {
    return Error{Errc::kInvalid, fmt::format("store root {} is no folder", options.root)};
  }
  TENON_TRY(layout.log_bases,
            scan_sequence(options.log_folder, layout.log_file_bytes, 1, layout.empty_files));
  TENON_TRY(scan_queues(options.root, layout));
  TENON_TRY(check_log_folder(options, layout));
  TENON_TRY(scan_index(options.root, layout));
  TENON_TRY(refuse_dledger(options.root, layout));
  layout.abort = fs::exists(options.root + "/abort", ec);
  layout.has_lock_file = fs::exists(options.root + "/lock", ec);

  const auto settle = [&](std::uint64_t& found, std::uint64_t wanted, std::string_view what) {
    if (found == 0) {
      found = wanted;
    } else if (found != wanted) {
      layout.notes.push_back(fmt::format(
          "{} files of this store have {} bytes, not {} as configured: keeping the size",
          what,
          found,
          wanted));
    }
  };
  settle(layout.log_file_bytes, options.log_file_bytes, "commit log");
  settle(layout.queue_file_bytes, options.queue_file_bytes, "consume queue");
  settle(layout.ext_file_bytes, options.ext_file_bytes, "consume queue extension");
  return layout;
}

}  // namespace tenon::store_file
