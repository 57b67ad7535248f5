#include "layout.h"

#include "mapped_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  const std::string* folder = nullptr;  ///< of the caller

  std::string path() const { return *folder + "/" + name; }
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
    entries.push_back({it->path().filename().string(), bytes, &folder});
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

/// Checks files named by position, in order. `file_bytes` is 0 until the first file tells. Each one that
/// belongs to the sequence is given to `take`.
template <class Take>
Result<> check_sequence(const std::vector<Entry>& entries,
                        std::uint64_t& file_bytes,
                        std::uint64_t unit,
                        std::vector<std::string>& empty_files,
                        Take&& take) {
  std::optional<std::uint64_t> before;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string path = entries[i].path();
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
    if (is_last && before && *base % file_bytes == 0 && *base > *before + file_bytes &&
        is_blank(path)) {
      empty_files.push_back(path);  // made ahead while the log was cut, and then came the crash
      continue;
    }
    if (*base % file_bytes != 0 || (before && *base != *before + file_bytes)) {
      return Error{
          Errc::kCorrupt,
          fmt::format("{} does not continue the file before it (files of {} bytes): a file "
                      "is missing or misplaced; {}",
                      path,
                      file_bytes,
                      kRemedy)};
    }
    before = *base;
    take(*base, entries[i]);
  }
  return ok();
}

/// Checks a folder of files named by position.
Result<std::vector<std::uint64_t>> scan_sequence(const std::string& folder,
                                                 std::uint64_t& file_bytes,
                                                 std::uint64_t unit,
                                                 std::vector<std::string>& empty_files) {
  TENON_TRY(const std::vector<Entry> entries, list_files(folder));
  std::vector<std::uint64_t> bases;
  TENON_TRY(
      check_sequence(entries, file_bytes, unit, empty_files, [&](std::uint64_t base, const Entry&) {
        bases.push_back(base);
      }));
  return bases;
}

/// Trap: a Java broker makes the next file ahead in the folder that has its turn then; when a disk fills
/// up meanwhile, it makes the file once more in another folder, and a crash leaves the first one blank.
Result<> drop_doubles(std::vector<Entry>& entries, std::vector<std::string>& empty_files) {
  for (std::size_t i = 1; i < entries.size();) {
    const Entry& a = entries[i - 1];
    const Entry& b = entries[i];
    if (a.name != b.name) {
      ++i;
      continue;
    }
    const bool second = is_blank(b.path());
    if (!second && !is_blank(a.path())) {
      return Error{
          Errc::kCorrupt,
          fmt::format("{} and {} have the same name: leave the one that belongs to this log; "
                      "nothing was changed",
                      a.path(),
                      b.path())};
    }
    empty_files.push_back(second ? b.path() : a.path());
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(second ? i : i - 1));
  }
  return ok();
}

/// The files of all folders of the log together are one sequence (spec: store §2.6).
Result<> scan_log(const std::vector<std::string>& folders, Layout& layout) {
  std::vector<Entry> all;
  for (const std::string& folder : folders) {
    std::error_code ec;
    for (const std::string& other : folders) {
      if (&other != &folder && fs::equivalent(folder, other, ec)) {
        return Error{Errc::kInvalid, fmt::format("{} and {} are one folder", folder, other)};
      }
    }
    TENON_TRY(const std::vector<Entry> entries, list_files(folder));
    all.insert(all.end(), entries.begin(), entries.end());
  }
  std::stable_sort(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  TENON_TRY(drop_doubles(all, layout.empty_files));
  return check_sequence(
      all, layout.log_file_bytes, 1, layout.empty_files, [&](std::uint64_t base, const Entry& e) {
        layout.log_bases.push_back(base);
        layout.log_places.push_back(*e.folder);
      });
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
Result<> check_log_folders(const Options& options, const Layout& layout) {
  const std::string usual = log_folder(options.root);
  const std::vector<std::string> folders = options.log_folders.all();
  if (folders == std::vector<std::string>{usual}) {
    return ok();
  }
  TENON_TRY(const std::vector<Entry> also, list_files(usual));
  std::error_code ec;
  const bool known = std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return fs::equivalent(usual, folder, ec);
  });
  if (!also.empty() && !known) {
    return Error{
        Errc::kIncompatible,
        fmt::format("commitlog_folder is {}, but {} has files too; leave the files of one "
                    "log in one of the two folders, or name both, and start again; nothing "
                    "was changed",
                    fmt::join(folders, ","),
                    usual)};
  }
  for (const std::string& folder : folders) {
    if (!layout.queues.empty() && !fs::is_directory(folder, ec)) {
      return Error{
          Errc::kNotFound,
          fmt::format("{} (commitlog_folder) is no folder, but {} has consume queues: is its "
                      "disk mounted? Nothing was changed",
                      folder,
                      options.root)};
    }
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
  const std::vector<std::string> log_folders = options.log_folders.all();
  TENON_TRY(scan_queues(options.root, layout));
  TENON_TRY(check_log_folders(options, layout));
  TENON_TRY(scan_log(log_folders, layout));
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
