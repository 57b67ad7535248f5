// tenon store check|stat
#include "commands/store.h"

#include "tenon/base/units.h"
#include "tenon/store_tool/stat.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

namespace tenon::app {

namespace {

constexpr std::uint64_t kMiB = 1u << 20;

std::optional<std::int64_t> parse_time(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
      text.size() <= 18) {
    return std::stoll(text);
  }
  for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    std::tm local{};
    const char* end = ::strptime(text.c_str(), format, &local);
    if (end != nullptr && *end == '\0') {
      local.tm_isdst = -1;
      return static_cast<std::int64_t>(std::mktime(&local)) * 1000;
    }
  }
  return std::nullopt;
}

std::string size_text(std::uint64_t bytes) {
  return bytes < kMiB
             ? fmt::format("{} KiB", three_digits(static_cast<double>(bytes) / 1024))
             : fmt::format("{} MiB",
                           three_digits(static_cast<double>(bytes) / static_cast<double>(kMiB)));
}

void summary_json(const store_tool::Inspection& r) {
  Json json;
  json.begin_object().key("summary").begin_object();
  json.field("errors", r.errors).field("warnings", r.warnings);
  json.field("log_min", r.log_min).field("log_end", r.log_end).field("records", r.records);
  json.field("bad_records", r.bad_records).field("damages", r.damages);
  json.field("queues", r.queues.size()).field("units", r.units).field("index_items", r.index_items);
  if (r.cut) {
    json.key("cut").begin_object().field("at", r.cut->at).field("bytes", r.cut->bytes);
    json.field("records", r.cut->records).end_object();
  }
  print_line(json.end_object().end_object().text());
}

void summary_text(const store_tool::Inspection& r) {
  print_line(fmt::format("log {} to {}: {} records; {} queues with {} units; {} index entries",
                         r.log_min,
                         r.log_end,
                         r.records,
                         r.queues.size(),
                         r.units,
                         r.index_items));
  if (r.cut) {
    print_line(fmt::format("recovery cuts the log at {}: {} bytes with {} whole records go",
                           r.cut->at,
                           r.cut->bytes,
                           r.cut->records));
  }
  print_line(r.errors + r.warnings == 0 ? std::string("all is well")
                                        : fmt::format("{} error{}, {} warning{}",
                                                      r.errors,
                                                      r.errors == 1 ? "" : "s",
                                                      r.warnings,
                                                      r.warnings == 1 ? "" : "s"));
}

struct CheckOptions : StoreOptions {
  std::uint32_t per_place = 10;
};

int check(const Context& context, const CheckOptions& o) {
  const auto delays = store_tool::DelayTable::parse(o.delay_levels);
  if (!delays) {
    return failed(context, delays.error().detail, kExitUsage);
  }
  const auto folder = open_store(o);
  if (!folder) {
    return failed(context, folder.error().detail);
  }
  Progress bar("MiB of log", 0);
  store_tool::InspectOptions options;
  options.check_crc = !o.no_crc;
  options.delays = delays.value();
  options.per_place = o.per_place;
  options.sink = [&](const store_tool::Finding& f) {
    bar.clear();
    print_line(context.json ? finding_json(f) : finding_line(f));
  };
  options.progress = progress_of(context, bar);
  const auto done = store_tool::inspect(*folder.value(), options);
  bar.clear();
  if (!done) {
    return failed(context, done.error().detail);
  }
  context.json ? summary_json(done.value()) : summary_text(done.value());
  return done.value().errors == 0 ? kExitOk : kExitFailed;
}

void stat_json(const store_tool::Folder& folder, const store_tool::Stat& s) {
  Json json;
  json.begin_object().field("root", folder.root()).field("abort", folder.abort());
  json.key("log").begin_object().field("min", s.log_min).field("end", s.log_end);
  json.field("files", folder.log().files().size()).field("file_bytes", folder.log().file_bytes());
  json.field("first_store_ms", s.first_store_ms)
      .field("last_store_ms", s.last_store_ms)
      .end_object();
  json.field("queue_bytes", s.queue_bytes).field("queue_ext_bytes", s.ext_bytes);
  json.key("index").begin_object().field("files", folder.index().size());
  json.field("items", s.index_items).field("bytes", s.index_bytes);
  json.field("slots", folder.index_shape().slots).field("items_max", folder.index_shape().items);
  json.end_object().field("disk_bytes", s.disk_bytes);
  json.key("checkpoint").begin_object().field("physic_ms", folder.checkpoint().physic_ms);
  json.field("logics_ms", folder.checkpoint().logics_ms);
  json.field("index_ms", folder.checkpoint().index_ms).end_object();
  json.key("topics").begin_array();
  for (const store_tool::TopicStat& topic : s.topics) {
    json.begin_object().field("topic", topic.topic).field("messages", topic.messages());
    json.key("queues").begin_array();
    for (const store_tool::QueueStat& q : topic.queues) {
      json.begin_object().field("id", q.id).field("min", q.min_offset);
      json.field("max", q.max_offset).end_object();
    }
    json.end_array().end_object();
  }
  print_line(json.end_array().end_object().text());
}

int stat(const Context& context, const StoreOptions& o, bool with_queues) {
  const auto opened = open_store(o);
  if (!opened) {
    return failed(context, opened.error().detail);
  }
  const store_tool::Folder& folder = *opened.value();
  const store_tool::Stat s = store_tool::stat_of(folder);
  if (context.json) {
    stat_json(folder, s);
    return kExitOk;
  }
  print_line(
      fmt::format("last stop   {}", folder.abort() ? "a crash (or it is running)" : "clean"));
  print_line(fmt::format("log         {} to {} in {} files of {}",
                         s.log_min,
                         s.log_end,
                         folder.log().files().size(),
                         size_text(folder.log().file_bytes())));
  if (s.last_store_ms > 0) {
    print_line(fmt::format(
        "messages    from {} to {}", time_text(s.first_store_ms), time_text(s.last_store_ms)));
  }
  print_line(fmt::format("queues      {} in files of {}",
                         folder.queues().size(),
                         size_text(folder.queue_file_bytes())));
  print_line(
      fmt::format("index       {} entries in {} files", s.index_items, folder.index().size()));
  print_line(fmt::format("on disk     {}", size_text(s.disk_bytes)));
  print_line(fmt::format("{:<40} {:>7} {:>12}", "TOPIC", "QUEUES", "MESSAGES"));
  for (const store_tool::TopicStat& topic : s.topics) {
    print_line(
        fmt::format("{:<40} {:>7} {:>12}", topic.topic, topic.queues.size(), topic.messages()));
    for (std::size_t i = 0; with_queues && i < topic.queues.size(); ++i) {
      const store_tool::QueueStat& q = topic.queues[i];
      print_line(fmt::format("  queue {:<32} {:>7} {:>12}", q.id, q.min_offset, q.max_offset));
    }
  }
  return kExitOk;
}

}  // namespace

void add_store_options(CLI::App& command, StoreOptions& options, bool may_snapshot) {
  command.add_option("ROOT", options.root, "Store folder: the broker's store_root")->required();
  if (may_snapshot) {
    command.add_flag("--snapshot",
                     options.snapshot,
                     "Also while a broker runs on the folder: what grows meanwhile is no fault");
  }
  command.add_option("--commitlog-folder",
                     options.log_folder,
                     "Folder of the log if it is not commitlog in ROOT; several between commas");
  command.add_option("--commitlog-readonly-folders",
                     options.log_readonly_folders,
                     "Further folders with older files of the log, between commas");
  command.add_option("--index-slots", options.index_slots, "maxHashSlotNum of who wrote the index")
      ->capture_default_str();
  command.add_option("--index-items", options.index_items, "maxIndexNum of who wrote the index")
      ->capture_default_str();
}

std::string root_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

Result<store_format::LogFolders> log_folders_of(const StoreOptions& options) {
  if (options.log_folder.empty() && options.log_readonly_folders.empty()) {
    return store_format::LogFolders{};
  }
  return store_format::parse_log_folders(std::filesystem::absolute(root_of(options.root)).string(),
                                         options.log_folder,
                                         options.log_readonly_folders);
}

Result<store_tool::OpenOptions> open_options_of(const StoreOptions& options) {
  store_tool::OpenOptions o;
  o.snapshot = options.snapshot;
  o.index_shape = {options.index_slots, options.index_items};
  TENON_TRY(o.log_folders, log_folders_of(options));
  return o;
}

Result<std::unique_ptr<store_tool::Folder>> open_store(const StoreOptions& options) {
  TENON_TRY(const store_tool::OpenOptions o, open_options_of(options));
  return store_tool::Folder::open(root_of(options.root), o);
}

store_tool::ProgressSink progress_of(const Context& context, Progress& bar) {
  return [&context, &bar](std::uint64_t done, std::uint64_t total) {
    bar.show(done / kMiB, total / kMiB);
    return !context.stop.wait(std::chrono::milliseconds(0));
  };
}

std::string time_text(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
                     local.tm_year + 1900,
                     local.tm_mon + 1,
                     local.tm_mday,
                     local.tm_hour,
                     local.tm_min,
                     local.tm_sec,
                     ms % 1000);
}

std::string check_time(const std::string& text) {
  return parse_time(text) ? std::string()
                          : "\"" + text + "\" is no time: milliseconds, or 2026-11-30T06:59:14";
}

std::int64_t time_of(const std::string& text) {
  return parse_time(text).value_or(0);
}

std::string finding_line(const store_tool::Finding& f) {
  std::string line = fmt::format(
      "{:<7} {:<13} {}:{}", store_tool::to_string(f.severity), f.kind, f.file, f.position);
  if (!f.topic.empty() && f.queue_id >= 0) {
    line += fmt::format(" {}/{}", f.topic, f.queue_id);
    if (f.queue_offset >= 0) {
      line += fmt::format(" offset {}", f.queue_offset);
    }
  }
  return line + ": " + f.text;
}

std::string finding_json(const store_tool::Finding& f) {
  Json json;
  json.begin_object().field("severity", store_tool::to_string(f.severity)).field("kind", f.kind);
  json.field("file", f.file).field("position", f.position);
  if (!f.topic.empty()) {
    json.field("topic", f.topic);
  }
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::int64_t>{"queue_id", f.queue_id},
        {"queue_offset", f.queue_offset},
        {"phys", f.phys}}) {
    if (value >= 0) {
      json.field(name, value);
    }
  }
  return json.field("text", f.text).end_object().text();
}

void add_store_check(CLI::App& store, Context& context) {
  const auto o = std::make_shared<CheckOptions>();
  CLI::App* c = store.add_subcommand(
      "check",
      "Every record, unit and index entry against each other; exit code 1 if one is wrong");
  add_store_options(*c, *o, true);
  c->add_flag("--no-crc", o->no_crc, "Do not check bodies against their CRC");
  c->add_option("--delay-levels", o->delay_levels, "Delays of the broker, for the schedule topic")
      ->capture_default_str();
  c->add_option("--per-place", o->per_place, "Findings of one kind that are shown for one file")
      ->capture_default_str();
  c->callback([&context, o] { context.run = [&context, o] { return check(context, *o); }; });
}

void add_store_stat(CLI::App& store, Context& context) {
  const auto o = std::make_shared<StoreOptions>();
  const auto with_queues = std::make_shared<bool>(false);
  CLI::App* c = store.add_subcommand("stat", "What a store holds, without reading all of it");
  add_store_options(*c, *o, true);
  c->add_flag("--queues", *with_queues, "Minimum and maximum offset of every queue");
  c->callback([&context, o, with_queues] {
    context.run = [&context, o, with_queues] { return stat(context, *o, *with_queues); };
  });
}

void add_store(CLI::App& app, Context& context) {
  CLI::App* store =
      app.add_subcommand("store", "Look into store folders, repair them, move topics between them");
  store->require_subcommand(1);
  add_store_check(*store, context);
  add_store_stat(*store, context);
  add_store_dump(*store, context);
  add_store_repair(*store, context);
  add_store_exchange(*store, context);
}

}  // namespace tenon::app
