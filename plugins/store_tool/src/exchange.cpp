#include "tenon/store_tool/exchange.h"

#include "topic_file.h"

#include "tenon/base/endian.h"
#include "tenon/proto/json.h"
#include "tenon/store/record.h"
#include "tenon/store_format/names.h"
#include "tenon/store_tool/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

namespace tenon::store_tool {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFormat = "tenon-store-export/1";
constexpr std::size_t kEndBytes = 16;
constexpr std::size_t kHeaderMax = 16u << 20;
constexpr std::size_t kWriteBytes = 1u << 20;

/// Collects small writes.
class Output {
 public:
  explicit Output(OpenFile file)
      : file_(std::move(file)) {}
  Result<> add(std::span<const std::uint8_t> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() >= kWriteBytes ? flush() : Result<>(ok());
  }
  Result<> flush() {
    TENON_TRY(file_.write(at_, buffer_));
    at_ += buffer_.size();
    buffer_.clear();
    return ok();
  }
  Result<> finish() {
    TENON_TRY(flush());
    return file_.sync();
  }
  std::uint64_t bytes() const { return at_ + buffer_.size(); }

 private:
  OpenFile file_;
  std::vector<std::uint8_t> buffer_{};
  std::uint64_t at_ = 0;
};

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// What the import finds in the file before it writes.
struct Arriving {
  std::set<QueueKey> queues{};
  std::set<std::string> topics{};
  std::uint64_t records = 0;
  std::uint64_t longest = 0;
};

Result<Arriving> look_through(ExportReader reader, const ImportOptions& options) {
  Arriving arriving;
  while (true) {
    TENON_TRY(const auto record, reader.next());
    if (record.empty()) {
      return arriving;
    }
    TENON_TRY(const proto::MessageView m, store::parse_record(record, true));
    if (!store::is_readable_topic(m.topic) || m.queue_id < 0 || m.queue_offset < 0) {
      return Error{
          Errc::kCorrupt,
          fmt::format(
              "a record of topic \"{}\" queue {} offset {}", m.topic, m.queue_id, m.queue_offset)};
    }
    if (!options.topics.empty() && !options.topics.contains(std::string(m.topic))) {
      continue;
    }
    ++arriving.records;
    arriving.longest = std::max<std::uint64_t>(arriving.longest, record.size());
    arriving.topics.emplace(m.topic);
    if (store::has_queue_entry(m.sys_flag)) {
      arriving.queues.emplace(std::string(m.topic), static_cast<std::uint32_t>(m.queue_id));
    }
  }
}

/// A store without messages, ready to be appended to.
Result<> make_store(const std::string& root, const store_format::LogFolders& log) {
  for (const std::string& folder : log.all()) {
    TENON_TRY(make_folders(folder));
  }
  return make_folders(root + "/consumequeue");
}

/// The import with everything checked.
class Import {
 public:
  Import(const std::string& root, const ImportOptions& options)
      : root_(root),
        options_(options),
        log_folders_(log_folders_of(root, options)) {}

  static store_format::LogFolders log_folders_of(const std::string& root,
                                                 const ImportOptions& options) {
    return options.log_folders.growing.empty()
               ? store_format::LogFolders{{store_format::log_folder(root)}, {}}
               : options.log_folders;
  }
  Result<> check(const Folder& folder, const Arriving& arriving);
  Result<Exchanged> write(ExportReader reader);

 private:
  Result<> copy(ExportReader& reader, Exchanged& done);
  Result<> patch(std::vector<std::uint8_t>& record);
  void take_back() const;

  const std::string& root_;
  const ImportOptions& options_;
  const store_format::LogFolders log_folders_;
  std::map<QueueKey, std::int64_t> next_{};  ///< of queues that are continued
  std::uint64_t file_bytes_ = 0;
  std::uint64_t end_ = 0;
};

Result<> Import::check(const Folder& folder, const Arriving& arriving) {
  InspectOptions inspect_options;
  inspect_options.delays = options_.delays;
  inspect_options.progress = options_.progress;
  TENON_TRY(const Inspection found, inspect(folder, inspect_options));
  if (found.errors > 0 || found.cut || folder.abort()) {
    return Error{
        Errc::kCorrupt,
        fmt::format("store {} is not in order ({} errors{}): start a broker on it once, or "
                    "tenon store repair",
                    root_,
                    found.errors,
                    folder.abort() ? ", not stopped cleanly" : "")};
  }
  for (const QueueKey& key : arriving.queues) {
    const QueueFiles* files = folder.find_queue(key.first, key.second);
    const std::int64_t end = files == nullptr ? 0 : queue_end(*files);
    if (end > 0 && !options_.append) {
      return Error{Errc::kConflict,
                   fmt::format("{}/{} has messages up to offset {} in {}; --append continues it",
                               key.first,
                               key.second,
                               end - 1,
                               root_)};
    }
    if (options_.append) {
      next_[key] = end;
    }
  }
  file_bytes_ = folder.log().empty() ? options_.log_file_bytes : folder.log().file_bytes();
  end_ = found.log_end;
  if (arriving.longest + store::kBlankBytes > file_bytes_) {
    return Error{Errc::kLimit,
                 fmt::format("a record of {} bytes does not fit into log files of {}",
                             arriving.longest,
                             file_bytes_)};
  }
  return ok();
}

/// A queue that goes on gets its next offset and a time that does not go back.
Result<> Import::patch(std::vector<std::uint8_t>& record) {
  TENON_TRY(const proto::MessageView m, store::parse_record(record, false));
  if (!options_.append || !store::has_queue_entry(m.sys_flag)) {
    return ok();
  }
  std::int64_t& next =
      next_[QueueKey(std::string(m.topic), static_cast<std::uint32_t>(m.queue_id))];
  store_be(record.data() + proto::kRecordQueueOffsetAt, next++);
  store_be(record.data() + proto::kRecordBornHostAt + m.born_host.encoded_bytes(),
           options_.wall_ms);
  return ok();
}

Result<Exchanged> Import::write(ExportReader reader) {
  // A death from here on is a crash: recovery takes what is whole.
  TENON_TRY(write_file(root_ + "/abort", {}));
  Exchanged done;
  auto written = copy(reader, done);
  if (written) {
    return done;
  }
  take_back();
  return written.error();
}

Result<> Import::copy(ExportReader& reader, Exchanged& done) {
  LogWriter log(log_folders_, file_bytes_, end_);
  std::vector<std::uint8_t> record;
  while (true) {
    TENON_TRY(const auto next, reader.next());
    if (next.empty()) {
      return log.finish();
    }
    TENON_TRY(const proto::MessageView m, store::parse_record(next, false));
    if (!options_.topics.empty() && !options_.topics.contains(std::string(m.topic))) {
      continue;
    }
    record.assign(next.begin(), next.end());
    TENON_TRY(patch(record));
    TENON_TRY(const std::uint64_t at, log.append(record));
    static_cast<void>(at);
    done.topics.emplace(m.topic);
    ++done.records;
    done.bytes += record.size();
  }
}

/// After a failure, usually a full disk: the log ends where it did.
void Import::take_back() const {
  OpenOptions open;
  open.snapshot = true;
  open.log_folders = options_.log_folders;
  const auto files = Folder::open(root_, open);
  if (!files) {
    return;
  }
  bool clean = true;
  const Sequence& log = files.value()->log();
  for (const SequenceFile& f : log.files()) {
    const std::string path = log.path_of(f);
    std::error_code ec;
    if (f.base >= end_ && f.base != log.first_base()) {
      fs::remove(path, ec);
    } else if (f.base + file_bytes_ > end_) {
      const std::uint64_t from = std::max(end_, f.base);
      const std::vector<std::uint8_t> zeros(log.data_end(from) - from, 0);
      const auto file = OpenFile::open(path, 0);
      clean = clean && file && file.value().write(from - f.base, zeros) && file.value().sync();
    }
    clean = clean && !ec;
  }
  if (clean) {
    std::error_code ec;
    fs::remove(root_ + "/abort", ec);
  }
}

}  // namespace

Result<Exchanged> export_topics(const Folder& folder,
                                const std::set<std::string>& topics,
                                const Filter& filter,
                                const std::string& file,
                                const ProgressSink& progress) {
  std::error_code ec;
  if (fs::exists(file, ec)) {
    return Error{Errc::kConflict, fmt::format("{} exists already", file)};
  }
  TENON_TRY(const std::string settings, topic_settings(folder.root(), topics));
  Filter all = filter;
  all.topic.clear();
  const std::string part = file + ".part";
  fs::remove(part, ec);
  TENON_TRY(OpenFile opened, OpenFile::open(part, 0));
  Output out(std::move(opened));
  TENON_TRY(
      out.add(bytes_of(fmt::format("{{\"format\":\"{}\",\"topics\":{}}}\n", kFormat, settings))));
  Exchanged done;
  Result<> written = ok();
  bool stopped = false;
  all.scan = true;
  dump_messages(
      folder,
      all,
      [&](const proto::MessageView& m) {
        if (!topics.contains(std::string(m.topic))) {
          return true;
        }
        const auto begin = static_cast<std::uint64_t>(m.phys_offset);
        written = out.add(folder.log().at(begin, static_cast<std::uint64_t>(m.total_bytes)));
        ++done.records;
        done.bytes += static_cast<std::uint64_t>(m.total_bytes);
        done.topics.emplace(m.topic);
        return written.has_value();
      },
      [&](std::uint64_t at, std::uint64_t total) {
        stopped = progress && !progress(at, total);
        return !stopped;
      });
  std::uint8_t end[kEndBytes];
  store_be(end, static_cast<std::uint32_t>(kEndBytes));
  store_be(end + 4, proto::kBlankMagic);
  store_be(end + 8, done.records);
  if (written && !stopped) {
    written = out.add(end);
  }
  if (written && !stopped) {
    written = out.finish();
  }
  if (written && !stopped && done.topics == topics) {
    fs::rename(part, file, ec);
    return ec ? Result<Exchanged>(os_error("make " + file, ec.value())) : Result<Exchanged>(done);
  }
  fs::remove(part, ec);
  if (!written) {
    return written.error();
  }
  if (stopped) {
    return Error{Errc::kCancelled, "stopped"};
  }
  std::string missing;
  for (const std::string& topic : topics) {
    missing += done.topics.contains(topic) ? "" : (missing.empty() ? "" : ", ") + topic;
  }
  return Error{Errc::kNotFound,
               fmt::format("no such messages of {} in {}", missing, folder.root())};
}

Result<ExportReader> ExportReader::open(std::span<const std::uint8_t> content) {
  const std::string_view text(reinterpret_cast<const char*>(content.data()),
                              std::min(content.size(), kHeaderMax));
  const std::size_t end = text.find('\n');
  const auto parsed = end == std::string_view::npos
                          ? Result<proto::JsonDocument>(Error{Errc::kInvalid, "no line"})
                          : proto::JsonDocument::parse(text.substr(0, end));
  if (!parsed || parsed.value().root()["format"].string() != kFormat) {
    return Error{Errc::kIncompatible, "this is no exported file of this version"};
  }
  return ExportReader(text.substr(0, end), content.subspan(end + 1));
}

Result<std::span<const std::uint8_t>> ExportReader::next() {
  const store::FrameHead head = store::peek_frame(rest_);
  if (head.kind == store::FrameKind::kRecord) {
    const auto record = rest_.first(head.bytes);
    const auto m = store::parse_record(record, false);
    if (!m || m.value().total_bytes != static_cast<std::int32_t>(head.bytes)) {
      return Error{Errc::kCorrupt, fmt::format("record {} is damaged", seen_)};
    }
    rest_ = rest_.subspan(head.bytes);
    ++seen_;
    return record;
  }
  const bool end = head.kind == store::FrameKind::kBlank && rest_.size() == kEndBytes &&
                   head.bytes == kEndBytes && load_be<std::uint64_t>(rest_.data() + 8) == seen_;
  if (!end) {
    return Error{Errc::kCorrupt, fmt::format("damaged or cut short behind {} records", seen_)};
  }
  return std::span<const std::uint8_t>{};
}

Result<Exchanged> import_topics(const std::string& root,
                                const std::string& file,
                                const ImportOptions& options) {
  TENON_TRY(const auto source, ReadFile::open(file));
  TENON_TRY(const ExportReader reader, ExportReader::open(source->bytes()));
  const auto arriving = look_through(reader, options);
  if (!arriving) {
    return Error{arriving.error().code, fmt::format("{}: {}", file, arriving.error().detail)};
  }
  std::error_code ec;
  const bool fresh = !fs::exists(root, ec) || fs::is_empty(root, ec);
  if (fresh) {
    TENON_TRY(make_store(root, Import::log_folders_of(root, options)));
  }
  RepairOptions settle;
  settle.open.index_shape = options.index_shape;
  settle.open.log_folders = options.log_folders;
  settle.open.log_file_bytes = options.log_file_bytes;
  settle.open.queue_file_bytes = options.queue_file_bytes;
  settle.inspect.delays = options.delays;
  settle.inspect.progress = options.progress;
  settle.wall_ms = options.wall_ms;
  settle.apply = true;
  settle.keep = false;
  Import import(root, options);
  {
    TENON_TRY(const auto folder, Folder::open(root, settle.open));
    TENON_TRY(import.check(*folder, arriving.value()));
    settle.index = fresh || folder->has_index_files();
  }
  Exchanged done;
  {
    TENON_TRY(const auto lock, WriteLock::take(root));
    TENON_TRY(done, import.write(reader));
  }
  TENON_TRY(add_topic_settings(root, reader.header(), done.topics));
  TENON_TRY(const RepairPlan plan, repair(root, settle));
  static_cast<void>(plan);
  return done;
}

}  // namespace tenon::store_tool
