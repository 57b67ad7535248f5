#include "tenon/store_tool/folder.h"

#include "tenon/store_format/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::store_tool {

namespace fs = std::filesystem;
using store_format::file_name_of;

namespace {

/// The size that most files have; of equally frequent ones the largest.
class SizeVote {
 public:
  void add(const Sequence& sequence) {
    for (const SequenceFile& f : sequence.files()) {
      votes_[f.bytes] += f.bytes > 0 ? 1 : 0;
    }
  }
  std::uint64_t winner(std::uint64_t otherwise) const {
    std::uint64_t best = 0;
    std::uint64_t size = otherwise;
    for (const auto& vote : votes_) {
      if (vote.second >= best && vote.second > 0) {
        best = vote.second;
        size = vote.first;
      }
    }
    return size;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> votes_{};
};

Result<std::vector<fs::directory_entry>> list(const std::string& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code ec;
  fs::directory_iterator it(folder, ec);
  if (ec == std::errc::no_such_file_or_directory) {
    return entries;
  }
  for (; !ec && it != fs::directory_iterator(); it.increment(ec)) {
    entries.push_back(*it);
  }
  if (ec) {
    return os_error("read folder " + folder, ec.value());
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.path() < b.path();
  });
  return entries;
}

Error locked_error(const std::string& root) {
  return {Errc::kConflict,
          fmt::format("store folder {} is in use by a broker; stop it first", root)};
}

struct flock whole_lock() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = 0;
  range.l_len = 1;
  return range;
}

}  // namespace

bool is_locked(const std::string& root) {
  const int fd = ::open((root + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  struct flock range = whole_lock();
  const bool locked = ::fcntl(fd, F_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  ::close(fd);
  return locked;
}

Result<std::unique_ptr<WriteLock>> WriteLock::take(const std::string& root) {
  const std::string path = root + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return os_error("open " + path, errno, errno == EACCES ? Errc::kDenied : Errc::kIo);
  }
  struct flock range = whole_lock();
  if (::fcntl(fd, F_SETLK, &range) != 0) {
    const int error = errno;
    ::close(fd);
    return error == EACCES || error == EAGAIN ? locked_error(root)
                                              : os_error("lock " + path, error);
  }
  if (::lseek(fd, 0, SEEK_END) == 0 && ::pwrite(fd, "lock", 4, 0) != 4) {
    const int error = errno;
    ::close(fd);
    return os_error("write " + path, error);
  }
  return std::unique_ptr<WriteLock>(new WriteLock(fd));
}

WriteLock::~WriteLock() {
  ::close(fd_);
}

Result<std::unique_ptr<Folder>> Folder::open(const std::string& root, const OpenOptions& options) {
  std::error_code ec;
  if (!fs::is_directory(root, ec)) {
    return Error{Errc::kNotFound, fmt::format("there is no store folder {}", root)};
  }
  if (!options.snapshot && is_locked(root)) {
    Error busy = locked_error(root);
    busy.detail += ", or look at it as it is now with --snapshot";
    return busy;
  }
  std::unique_ptr<Folder> folder(new Folder(root));
  folder->snapshot_ = options.snapshot;
  TENON_TRY(folder->find_log(options.log_folders));
  TENON_TRY(folder->list_log(options));
  TENON_TRY(folder->list_queues(options));
  TENON_TRY(folder->list_index(options));
  folder->list_marks();
  if (folder->log_.empty() && folder->queues_.empty() && !folder->has_index_files_ &&
      !fs::exists(folder->log_.folders().front(), ec) && !fs::exists(root + "/checkpoint", ec)) {
    return Error{Errc::kNotFound,
                 fmt::format("{} holds no store: neither commitlog nor checkpoint", root)};
  }
  return folder;
}

void Folder::note(Severity severity,
                  std::string_view kind,
                  const std::string& path,
                  std::string text) {
  Finding f;
  f.severity = severity;
  f.kind = kind;
  f.file = relative(path);
  f.text = std::move(text);
  findings_.push_back(std::move(f));
}

bool Folder::is_of_log(const std::string& file) const {
  return std::any_of(log_.folders().begin(), log_.folders().end(), [&](const std::string& folder) {
    return file.starts_with(relative(folder) + "/");
  });
}

std::string Folder::relative(const std::string& path) const {
  return path.starts_with(root_ + "/") ? path.substr(root_.size() + 1) : path;
}

Result<> Folder::list_sequence(Sequence& sequence) {
  for (std::uint32_t at = 0; at < sequence.folders().size(); ++at) {
    TENON_TRY(list_folder(sequence, at));
  }
  const Sequence::Doubles doubles = sequence.settle();
  for (const std::string& path : doubles.blank) {
    note(Severity::kWarning, "double-file", path, "has no data: another file has the same name");
  }
  for (const std::string& path : doubles.other) {
    note(Severity::kError, "double-file", path, "another file has the same name");
  }
  return ok();
}

Result<> Folder::list_folder(Sequence& sequence, std::uint32_t folder) {
  TENON_TRY(const auto entries, list(sequence.folders()[folder]));
  for (const fs::directory_entry& e : entries) {
    std::error_code ec;
    if (e.is_directory(ec)) {
      continue;
    }
    const auto base = store_format::base_of_name(e.path().filename().string());
    if (!base) {
      note(Severity::kError,
           "foreign-file",
           e.path().string(),
           "does not belong here: names have 20 digits; a Java broker does not start with it");
      continue;
    }
    const std::uint64_t bytes = e.file_size(ec);
    if (ec == std::errc::no_such_file_or_directory) {
      continue;  // retention was faster
    }
    if (ec) {
      return os_error("stat " + e.path().string(), ec.value());
    }
    sequence.add({*base, bytes, folder});
  }
  return ok();
}

/// Sizes and positions against the size of all files of the kind.
void Folder::judge_sizes(const Sequence& sequence, std::uint64_t unit) {
  const std::uint64_t size = sequence.file_bytes();
  const SequenceFile* before = nullptr;
  for (const SequenceFile& f : sequence.files()) {
    const std::string path = sequence.path_of(f);
    const bool last = &f == &sequence.files().back();
    if (f.bytes == 0 && last) {
      note(Severity::kWarning, "empty-file", path, "has no bytes: a crash while it was made");
    } else if (f.bytes != size || f.bytes % unit != 0) {
      note(Severity::kError,
           "file-size",
           path,
           fmt::format("has {} bytes, files of {} bytes are expected", f.bytes, size));
    }
    if (size > 0 && f.base % size != 0) {
      note(Severity::kError,
           "file-name",
           path,
           fmt::format("is no start of a file: files have {} bytes", size));
    } else if (before != nullptr && f.base != before->base + size) {
      note(Severity::kError,
           "missing-file",
           sequence.folders().front() + "/" + file_name_of(before->base + size),
           fmt::format("is missing: the next file is {}", file_name_of(f.base)));
    }
    before = &f;
  }
}

/// A log that lies elsewhere must be named: without it all queues look wrong.
Result<> Folder::find_log(const store_format::LogFolders& folders) {
  std::error_code ec;
  const std::string usual = store_format::log_folder(root_);
  if (folders.growing.empty()) {
    log_ = Sequence(usual);
    if (!fs::is_directory(usual, ec) && fs::is_directory(root_ + "/consumequeue", ec) &&
        !fs::is_empty(root_ + "/consumequeue", ec)) {
      TENON_TRY(refuse_dledger());
      return Error{Errc::kNotFound,
                   fmt::format("{} has consume queues, but no folder commitlog: if its log lies "
                               "elsewhere, name the folder with --commitlog-folder",
                               root_)};
    }
    return ok();
  }
  bool named = false;
  log_ = Sequence(folders.all());
  for (const std::string& folder : log_.folders()) {
    if (!fs::is_directory(folder, ec)) {
      return Error{Errc::kNotFound, fmt::format("there is no log folder {}", folder)};
    }
    named = named || fs::equivalent(folder, usual, ec);
  }
  TENON_TRY(const auto also, list(usual));
  if (!named && !also.empty()) {
    return Error{Errc::kIncompatible,
                 fmt::format("{} has files too, and is not among the folders of the log", usual)};
  }
  return ok();
}

Result<> Folder::list_log(const OpenOptions& options) {
  TENON_TRY(list_sequence(log_));
  SizeVote vote;
  vote.add(log_);
  log_.set_file_bytes(vote.winner(options.log_file_bytes));
  judge_sizes(log_, 1);
  return log_.empty() ? refuse_dledger() : ok();
}

Result<> Folder::refuse_dledger() const {
  TENON_TRY(const auto entries, list(root_));
  for (const fs::directory_entry& e : entries) {
    if (e.path().filename().string().starts_with("dledger-")) {
      return Error{Errc::kIncompatible,
                   fmt::format("{} holds the log of a DLedger broker; tenon store import-dledger "
                               "makes a plain store of it",
                               e.path().string())};
    }
  }
  return ok();
}

Result<> Folder::list_queues(const OpenOptions& options) {
  SizeVote units;
  SizeVote exts;
  TENON_TRY(const auto topics, list(root_ + "/consumequeue"));
  for (const fs::directory_entry& topic : topics) {
    std::error_code ec;
    if (!topic.is_directory(ec)) {
      continue;  // RocksDB queues of 5.x
    }
    TENON_TRY(const auto ids, list(topic.path().string()));
    for (const fs::directory_entry& id : ids) {
      const auto number = store_format::number_of(id.path().filename().string());
      if (!id.is_directory(ec) || !number || *number > 0x7fff'ffffu) {
        continue;  // ignored by the brokers too
      }
      QueueFiles queue;
      queue.topic = topic.path().filename().string();
      queue.id = static_cast<std::uint32_t>(*number);
      queue.units = Sequence(id.path().string());
      queue.ext = Sequence(store_format::ext_folder(root_, queue.topic, queue.id));
      TENON_TRY(list_sequence(queue.units));
      TENON_TRY(list_sequence(queue.ext));
      units.add(queue.units);
      exts.add(queue.ext);
      queues_.push_back(std::move(queue));
    }
  }
  std::sort(queues_.begin(), queues_.end(), [](const QueueFiles& a, const QueueFiles& b) {
    return std::tie(a.topic, a.id) < std::tie(b.topic, b.id);
  });
  queue_file_bytes_ = units.winner(options.queue_file_bytes);
  for (QueueFiles& queue : queues_) {
    queue.units.set_file_bytes(queue_file_bytes_);
    queue.ext.set_file_bytes(exts.winner(48ull << 20));
    judge_sizes(queue.units, store_format::kUnitBytes);
    judge_sizes(queue.ext, 1);
  }
  TENON_TRY(const auto batches, list(root_ + "/batchconsumequeue"));
  for (const fs::directory_entry& topic : batches) {
    batch_topics_.push_back(topic.path().filename().string());
    note(Severity::kNote,
         "batch-queue",
         topic.path().string(),
         "queues of batches are not looked at");
  }
  return ok();
}

Result<> Folder::list_index(const OpenOptions& options) {
  const std::string folder = store_format::index_folder(root_);
  index_shape_ = options.index_shape;
  TENON_TRY(const auto entries, list(folder));
  bool shaped = false;
  for (const fs::directory_entry& e : entries) {
    std::error_code ec;
    const std::string path = e.path().string();
    if (e.is_directory(ec)) {
      continue;
    }
    if (!store_format::number_of(e.path().filename().string())) {
      note(Severity::kNote, "foreign-file", path, "is no index file: names are numbers");
      continue;
    }
    has_index_files_ = true;
    auto opened = ReadFile::open(path);
    if (!opened) {
      note(Severity::kError, "unreadable-file", path, opened.error().detail);
      continue;
    }
    IndexFileView view;
    view.name = e.path().filename().string();
    view.file = std::move(opened).value();
    const auto content = view.file->bytes();
    if (content.empty()) {
      note(Severity::kWarning, "empty-file", path, "has no bytes: a crash while it was made");
      continue;
    }
    if (!shaped) {
      const auto shape = store_format::find_index_shape(content, options.index_shape);
      if (!shape) {
        note(Severity::kError,
             "index-shape",
             path,
             fmt::format("has {} bytes and is no index file of any number of slots and items",
                         content.size()));
        continue;
      }
      index_shape_ = *shape;
      shaped = true;
    }
    if (content.size() != index_shape_.file_bytes()) {
      note(Severity::kError,
           "file-size",
           path,
           fmt::format("has {} bytes, files of {} bytes are expected",
                       content.size(),
                       index_shape_.file_bytes()));
      continue;
    }
    view.header = store_format::load_index_header(content.data());
    if (view.header.next_item > index_shape_.items) {
      note(Severity::kError,
           "index-header",
           path,
           fmt::format("counts {} entries, {} fit", view.header.next_item, index_shape_.items));
      continue;
    }
    index_.push_back(std::move(view));
  }
  return ok();
}

void Folder::list_marks() {
  std::error_code ec;
  abort_ = fs::exists(root_ + "/abort", ec);
  const std::string path = root_ + "/checkpoint";
  if (!fs::exists(path, ec)) {
    note(Severity::kNote,
         "no-checkpoint",
         path,
         "there is none: a start after a crash reads the whole log");
    return;
  }
  const auto file = ReadFile::open(path);
  if (!file) {
    note(Severity::kError, "unreadable-file", path, file.error().detail);
    return;
  }
  const auto content = file.value()->bytes();
  if (content.size() != store_format::kCheckpointBytes) {
    note(Severity::kError,
         "file-size",
         path,
         fmt::format(
             "has {} bytes, {} are expected", content.size(), store_format::kCheckpointBytes));
  }
  checkpoint_ = store_format::parse_checkpoint(content);
}

const QueueFiles* Folder::find_queue(std::string_view topic, std::uint32_t id) const noexcept {
  const auto it =
      std::lower_bound(queues_.begin(),
                       queues_.end(),
                       std::pair(topic, id),
                       [](const QueueFiles& q, const auto& key) {
                         return q.topic != key.first ? q.topic < key.first : q.id < key.second;
                       });
  return it != queues_.end() && it->topic == topic && it->id == id ? &*it : nullptr;
}

bool Folder::is_batch_queue(std::string_view topic) const noexcept {
  return std::find(batch_topics_.begin(), batch_topics_.end(), topic) != batch_topics_.end();
}

std::int64_t queue_begin(const QueueFiles& queue) {
  return static_cast<std::int64_t>(queue.units.first_base() / store_format::kUnitBytes);
}

std::optional<store_format::Unit> unit_at(const QueueFiles& queue, std::int64_t offset) {
  const auto bytes = queue.units.at(static_cast<std::uint64_t>(offset) * store_format::kUnitBytes,
                                    store_format::kUnitBytes);
  return bytes.empty() ? std::nullopt : std::optional(store_format::load_unit(bytes.data()));
}

std::int64_t queue_end(const QueueFiles& queue) {
  const auto& files = queue.units.files();
  for (auto f = files.rbegin(); f != files.rend(); ++f) {
    std::int64_t low = static_cast<std::int64_t>(f->base / store_format::kUnitBytes);
    const std::int64_t first = low;
    std::int64_t high = static_cast<std::int64_t>((f->base + f->bytes) / store_format::kUnitBytes);
    while (low < high) {  // units are followed by zeros
      const std::int64_t middle = low + (high - low) / 2;
      const auto unit = unit_at(queue, middle);
      if (unit && !unit->is_end()) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > first || f + 1 == files.rend()) {
      return low;
    }
  }
  return 0;
}

}  // namespace tenon::store_tool
