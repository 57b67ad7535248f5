// The log of a DLedger broker as a plain store (spec: store §14, replication §3.1, §3.2).
#include "tenon/base/endian.h"
#include "tenon/store/record.h"
#include "tenon/store_format/dledger.h"
#include "tenon/store_format/names.h"
#include "tenon/store_tool/build.h"
#include "tenon/store_tool/exchange.h"
#include "tenon/store_tool/log_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

namespace tenon::store_tool {

namespace fs = std::filesystem;
using store_format::DledgerEntry;

namespace {

constexpr std::uint64_t kProgressEntries = 4096;

Result<Sequence> list_files(const std::string& folder) {
  Sequence sequence(folder);
  std::vector<SequenceFile> files;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const auto base = store_format::base_of_name(it->path().filename().string());
    if (base && it->is_regular_file(ec)) {
      files.push_back({*base, it->file_size(ec)});
    }
  }
  std::sort(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.base < b.base; });
  for (const SequenceFile& f : files) {
    if (f.bytes == 0 && &f == &files.back()) {
      continue;
    }
    if (f.bytes != files.front().bytes ||
        f.base != files.front().base + static_cast<std::uint64_t>(&f - files.data()) * f.bytes) {
      return Error{Errc::kCorrupt,
                   fmt::format("{}/{} does not continue the file before it, or has another size",
                               folder,
                               store_format::file_name_of(f.base))};
    }
    sequence.add(f);
  }
  sequence.set_file_bytes(files.empty() ? 0 : files.front().bytes);
  return sequence;
}

/// Entries in order, up to the first that is none.
class EntryWalk {
 public:
  explicit EntryWalk(const Sequence& data)
      : data_(data),
        pos_(data.first_base()) {}

  bool next(DledgerEntry& entry) {
    while (true) {
      const auto rest = data_.at(pos_);
      if (rest.empty()) {
        return false;
      }
      if (store_format::is_dledger_file_end(rest)) {
        pos_ = data_.file_of(pos_)->base + data_.file_bytes();
        continue;
      }
      const auto found = store_format::parse_dledger_entry(rest);
      // Every entry follows the one before: position, index, and a term that does not go back.
      if (!found || found->pos != pos_ || (index_ >= 0 && found->index != index_ + 1) ||
          found->index < 0 || found->term < term_) {
        return false;
      }
      entry = *found;
      pos_ += entry.bytes();
      index_ = entry.index;
      term_ = entry.term;
      return true;
    }
  }
  std::uint64_t pos() const { return pos_; }
  std::int64_t index() const { return index_; }
  std::int64_t term() const { return term_; }

 private:
  const Sequence& data_;
  std::uint64_t pos_;
  std::int64_t index_ = -1;
  std::int64_t term_ = -1;
};

struct Source {
  std::string root{};
  std::string folder{};
  Sequence old_log{};  ///< from before the broker was one of a group
  Sequence data{};
  std::int64_t term = -1;
  std::int64_t index = -1;
};

Result<std::vector<Source>> find_sources(const std::string& root) {
  std::error_code ec;
  std::vector<Source> sources;
  if (!fs::is_directory(root, ec)) {
    return Error{Errc::kNotFound, fmt::format("there is no store folder {}", root)};
  }
  if (is_locked(root)) {
    return Error{Errc::kConflict,
                 fmt::format("store folder {} is in use by a broker; stop it first", root)};
  }
  for (fs::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    if (!it->path().filename().string().starts_with("dledger-")) {
      continue;
    }
    Source source;
    source.root = root;
    source.folder = it->path().string();
    TENON_TRY(source.data, list_files(source.folder + "/data"));
    TENON_TRY(source.old_log, list_files(store_format::log_folder(root)));
    EntryWalk walk(source.data);
    DledgerEntry entry;
    while (walk.next(entry)) {
    }
    source.term = walk.term();
    source.index = walk.index();
    sources.push_back(std::move(source));
  }
  if (sources.empty()) {
    return Error{Errc::kNotFound,
                 fmt::format("{} has no folder dledger-*: its log is no DLedger log", root)};
  }
  return sources;
}

class LogImport {
 public:
  LogImport(const Source& source, std::string to, const DledgerOptions& options)
      : source_(source),
        to_(std::move(to)),
        options_(options),
        log_({{store_format::log_folder(to_)}, {}},
             options.log_file_bytes != 0 ? options.log_file_bytes : source.data.file_bytes(),
             0) {}

  Result<> run(DledgerResult& result) {
    TENON_TRY(write_file(to_ + "/abort", {}));
    TENON_TRY(old_records(result));
    TENON_TRY(entries(result));
    TENON_TRY(log_.finish());
    TENON_TRY(empty_queues());
    return copy_config();
  }

 private:
  Result<> take(const proto::MessageView& m,
                std::span<const std::uint8_t> record,
                DledgerResult& result) {
    result.topics.emplace(m.topic);
    seen_.emplace(std::string(m.topic), static_cast<std::uint32_t>(m.queue_id));
    record_.assign(record.begin(), record.end());
    TENON_TRY(const std::uint64_t at, log_.append(record_));
    static_cast<void>(at);
    ++result.records;
    result.bytes += record.size();
    return ok();
  }

  void tell(std::string_view kind,
            const Sequence& files,
            std::uint64_t pos,
            std::string text) const {
    if (!options_.sink) {
      return;
    }
    Finding f;
    f.severity = Severity::kWarning;
    f.kind = kind;
    f.file = files.path_of(pos);
    f.position = files.file_of(pos) == nullptr ? 0 : pos - files.file_of(pos)->base;
    f.phys = static_cast<std::int64_t>(pos);
    f.text = std::move(text);
    options_.sink(f);
  }

  Result<> old_records(DledgerResult& result) {
    if (source_.old_log.empty()) {
      return ok();
    }
    LogWalk walk(source_.old_log, source_.old_log.first_base(), true);
    Frame frame;
    while (walk.next(frame)) {
      if (frame.kind == Frame::Kind::kRecord) {
        TENON_TRY(take(frame.record, source_.old_log.at(frame.at, frame.bytes), result));
      } else if (frame.kind != Frame::Kind::kBlank) {
        tell("log-damage", source_.old_log, frame.at, "left out: " + frame.text);
      }
    }
    return ok();
  }

  Result<> entries(DledgerResult& result) {
    EntryWalk walk(source_.data);
    DledgerEntry entry;
    std::uint64_t seen = 0;
    const std::uint64_t first = source_.data.first_base();
    const std::uint64_t total = source_.data.last_end() - first;
    while (walk.next(entry)) {
      if (entry.kind != store_format::kDledgerMessage) {
        continue;
      }
      proto::MessageView m;
      if (!read_record(entry.body, entry.pos + store_format::kDledgerHeadBytes, m)) {
        tell("record-damage",
             source_.data,
             entry.pos,
             fmt::format("entry {} holds no record; left out", entry.index));
        continue;
      }
      if (!store::parse_record(entry.body, true)) {
        tell("record-crc",
             source_.data,
             entry.pos,
             fmt::format("the body of entry {} does not fit its CRC; taken over as it is",
                         entry.index));
      }
      TENON_TRY(take(m, entry.body.first(static_cast<std::size_t>(m.total_bytes)), result));
      if (++seen % kProgressEntries == 0 && options_.progress &&
          !options_.progress(entry.pos - first, total)) {
        return Error{Errc::kCancelled, "stopped"};
      }
    }
    result.end_term = walk.term();
    result.end_index = walk.index();
    const std::uint64_t data = source_.data.data_end(walk.pos());
    if (data > walk.pos()) {
      tell("entry-tail",
           source_.data,
           walk.pos(),
           fmt::format("{} bytes behind entry {} are no entry", data - walk.pos(), walk.index()));
    }
    return ok();
  }

  /// Queues whose messages have all expired: filler keeps their position, or they would begin at 0 again.
  Result<> empty_queues() const {
    std::error_code ec;
    const std::string top = source_.root + "/consumequeue";
    for (fs::directory_iterator topic(top, ec), none; !ec && topic != none; topic.increment(ec)) {
      std::error_code inner;
      for (fs::directory_iterator id(topic->path(), inner); !inner && id != none;
           id.increment(inner)) {
        const auto number = store_format::number_of(id->path().filename().string());
        if (!number || *number > 0x7fff'ffffu) {
          continue;
        }
        const QueueKey key(topic->path().filename().string(), static_cast<std::uint32_t>(*number));
        auto units = list_files(id->path().string());
        if (!units || units.value().empty() || seen_.contains(key)) {
          continue;
        }
        QueueFiles files;
        files.units = std::move(units).value();
        const std::uint64_t file_bytes = files.units.file_bytes();
        const std::int64_t end = queue_end(files);
        if (end == 0 || file_bytes % store_format::kUnitBytes != 0) {
          continue;
        }
        QueueBuilder builder(store_format::queue_folder(to_, key.first, key.second), file_bytes);
        TENON_TRY(builder.put(end - 1, store_format::kFillerUnit));
        TENON_TRY(builder.finish());
      }
    }
    return ok();
  }

  /// Topics, groups and offsets hold no positions of the log: they stay right.
  Result<> copy_config() const {
    std::error_code ec;
    TENON_TRY(make_folders(to_ + "/config"));
    for (fs::directory_iterator it(source_.root + "/config", ec), end; !ec && it != end;
         it.increment(ec)) {
      if (it->path().extension() != ".json") {
        continue;
      }
      const auto file = ReadFile::open(it->path().string());
      if (!file) {
        return file.error();
      }
      const auto bytes = file.value()->bytes();
      TENON_TRY(write_file(to_ + "/config/" + it->path().filename().string(),
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    return sync_folder(to_ + "/config");
  }

  const Source& source_;
  std::string to_;
  const DledgerOptions& options_;
  LogWriter log_;
  std::vector<std::uint8_t> record_{};
  std::set<QueueKey> seen_{};
};

/// Size of the source's queue files, which the new ones get too.
std::uint64_t queue_file_bytes_of(const std::string& root, std::uint64_t otherwise) {
  std::error_code ec;
  for (fs::recursive_directory_iterator it(root + "/consumequeue", ec), end; !ec && it != end;
       it.increment(ec)) {
    if (it->is_regular_file(ec) && store_format::base_of_name(it->path().filename().string()) &&
        it->file_size(ec) > 0 && it->file_size(ec) % store_format::kUnitBytes == 0) {
      return it->file_size(ec);
    }
  }
  return otherwise;
}

/// The shape of the source's index files.
store_format::IndexShape shape_of(const std::string& root, store_format::IndexShape otherwise) {
  std::error_code ec;
  for (fs::directory_iterator it(store_format::index_folder(root), ec), end; !ec && it != end;
       it.increment(ec)) {
    if (const auto file = ReadFile::open(it->path().string())) {
      if (const auto shape = store_format::find_index_shape(file.value()->bytes(), otherwise)) {
        return *shape;
      }
    }
  }
  return otherwise;
}

}  // namespace

Result<DledgerResult> import_dledger(const std::vector<std::string>& roots,
                                     const std::string& to,
                                     const DledgerOptions& options) {
  std::optional<Source> best;
  for (const std::string& root : roots) {
    TENON_TRY(std::vector<Source> sources, find_sources(root));
    for (Source& source : sources) {
      // The saved committed index lags and says nothing about the end (spec: replication D1).
      if (!best || std::pair(source.term, source.index) > std::pair(best->term, best->index)) {
        best = std::move(source);
      }
    }
  }
  if (!best || (best->data.empty() && best->old_log.empty())) {
    return Error{Errc::kNotFound, "there is no entry in any of the folders"};
  }
  std::error_code ec;
  if (fs::exists(to, ec) && !(fs::is_directory(to, ec) && fs::is_empty(to, ec))) {
    return Error{Errc::kConflict, fmt::format("{} is there and not empty", to)};
  }
  DledgerResult result;
  result.source = best->folder;
  TENON_TRY(make_folders(to + "/commitlog"));
  {
    TENON_TRY(const auto lock, WriteLock::take(to));
    LogImport import(*best, to, options);
    TENON_TRY(import.run(result));
  }
  RepairOptions settle;
  settle.apply = settle.all = true;
  settle.keep = false;
  settle.wall_ms = options.wall_ms;
  settle.inspect.delays = options.delays;
  settle.inspect.progress = options.progress;
  settle.open.index_shape = shape_of(best->root, options.index_shape);
  settle.open.queue_file_bytes = queue_file_bytes_of(best->root, settle.open.queue_file_bytes);
  TENON_TRY(const RepairPlan plan, repair(to, settle));
  static_cast<void>(plan);
  return result;
}

}  // namespace tenon::store_tool
