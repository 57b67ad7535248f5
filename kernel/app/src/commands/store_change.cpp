// tenon store repair|export|import|import-dledger
#include "commands/store.h"

#include "tenon/store_tool/exchange.h"
#include "tenon/store_tool/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace tenon::app {

namespace {

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct RepairCommand : StoreOptions {
  bool dry_run = false;
  bool apply = false;
  bool all = false;
};

void plan_text(const store_tool::RepairPlan& plan, bool applied) {
  if (plan.nothing()) {
    print_line("nothing to do");
    return;
  }
  const char* done = applied ? "" : "would be ";
  if (plan.found.cut) {
    print_line(fmt::format("log {}cut at {}: {} bytes with {} whole records",
                           done,
                           plan.found.cut->at,
                           plan.found.cut->bytes,
                           plan.found.cut->records));
  }
  for (const store_tool::QueueKey& key : plan.queues) {
    print_line(fmt::format("queue {}/{} {}made anew", key.first, key.second, done));
  }
  if (plan.index) {
    print_line(fmt::format("index {}made anew", done));
  }
  if (!plan.side.empty()) {
    print_line(fmt::format("what was there before is in {}", plan.side));
  }
}

void plan_json(const store_tool::RepairPlan& plan, bool applied) {
  Json json;
  json.begin_object().field("applied", applied && !plan.nothing());
  json.field("errors", plan.found.errors).field("warnings", plan.found.warnings);
  json.key("queues").begin_array();
  for (const store_tool::QueueKey& key : plan.queues) {
    json.begin_object().field("topic", key.first).field("queue_id", key.second).end_object();
  }
  json.end_array().field("index", plan.index);
  if (plan.found.cut) {
    json.key("cut").begin_object().field("at", plan.found.cut->at);
    json.field("bytes", plan.found.cut->bytes);
    json.field("records", plan.found.cut->records).end_object();
  }
  if (!plan.side.empty()) {
    json.field("kept_in", plan.side);
  }
  print_line(json.end_object().text());
}

int repair(const Context& context, const RepairCommand& o) {
  if (o.dry_run == o.apply) {
    return failed(context, "repair needs either --dry-run or --apply", kExitUsage);
  }
  const auto delays = store_tool::DelayTable::parse(o.delay_levels);
  if (!delays) {
    return failed(context, delays.error().detail, kExitUsage);
  }
  const auto open = open_options_of(o);
  if (!open) {
    return failed(context, open.error().detail, kExitUsage);
  }
  Progress bar("MiB of log", 0);
  store_tool::RepairOptions options;
  options.apply = o.apply;
  options.all = o.all;
  options.wall_ms = now_ms();
  options.open = open.value();
  options.inspect.delays = delays.value();
  options.inspect.progress = progress_of(context, bar);
  if (!context.json) {
    options.inspect.sink = [&](const store_tool::Finding& f) {
      bar.clear();
      print_line(finding_line(f));
    };
  }
  const auto done = store_tool::repair(root_of(o.root), options);
  bar.clear();
  if (!done) {
    return failed(context, done.error().detail);
  }
  context.json ? plan_json(done.value(), o.apply) : plan_text(done.value(), o.apply);
  return kExitOk;
}

int show_exchanged(const Context& context,
                   const store_tool::Exchanged& done,
                   std::string_view what) {
  if (context.json) {
    Json json;
    json.begin_object().field("messages", done.records).field("bytes", done.bytes);
    json.key("topics").begin_array();
    for (const std::string& topic : done.topics) {
      json.value(topic);
    }
    return print_line(json.end_array().end_object().text());
  }
  return print_line(fmt::format("{} {} messages, {} bytes, of {}",
                                what,
                                done.records,
                                done.bytes,
                                fmt::join(done.topics, ", ")));
}

struct ExportCommand : StoreOptions {
  std::vector<std::string> topics{};
  std::string file{};
  std::string since{};
  std::string until{};
};

int export_topics(const Context& context, const ExportCommand& o) {
  const auto folder = open_store(o);
  if (!folder) {
    return failed(context, folder.error().detail);
  }
  store_tool::Filter filter;
  if (!o.since.empty()) {
    filter.from_ms = time_of(o.since);
  }
  if (!o.until.empty()) {
    filter.to_ms = time_of(o.until);
  }
  Progress bar("MiB of log", 0);
  const auto done = store_tool::export_topics(*folder.value(),
                                              {o.topics.begin(), o.topics.end()},
                                              filter,
                                              o.file,
                                              progress_of(context, bar));
  bar.clear();
  return done ? show_exchanged(context, done.value(), "exported")
              : failed(context, done.error().detail);
}

struct ImportCommand : StoreOptions {
  std::vector<std::string> topics{};
  std::vector<std::string> sources{};
  std::string file{};
  bool append = false;
};

int import_topics(const Context& context, const ImportCommand& o) {
  const auto delays = store_tool::DelayTable::parse(o.delay_levels);
  if (!delays) {
    return failed(context, delays.error().detail, kExitUsage);
  }
  const auto log_folders = log_folders_of(o);
  if (!log_folders) {
    return failed(context, log_folders.error().detail, kExitUsage);
  }
  Progress bar("MiB of log", 0);
  store_tool::ImportOptions options;
  options.log_folders = log_folders.value();
  options.append = o.append;
  options.topics = {o.topics.begin(), o.topics.end()};
  options.index_shape = {o.index_slots, o.index_items};
  options.delays = delays.value();
  options.wall_ms = now_ms();
  options.progress = progress_of(context, bar);
  const auto done = store_tool::import_topics(root_of(o.root), o.file, options);
  bar.clear();
  return done ? show_exchanged(context, done.value(), "imported")
              : failed(context, done.error().detail);
}

int import_dledger(const Context& context, const ImportCommand& o) {
  const auto delays = store_tool::DelayTable::parse(o.delay_levels);
  if (!delays) {
    return failed(context, delays.error().detail, kExitUsage);
  }
  Progress bar("MiB of log", 0);
  store_tool::DledgerOptions options;
  options.delays = delays.value();
  options.wall_ms = now_ms();
  options.index_shape = {o.index_slots, o.index_items};
  options.progress = progress_of(context, bar);
  options.sink = [&](const store_tool::Finding& f) {
    bar.clear();
    std::fprintf(stderr, "%s\n", finding_line(f).c_str());
  };
  std::vector<std::string> sources;
  for (const std::string& source : o.sources) {
    sources.push_back(root_of(source));
  }
  const auto done = store_tool::import_dledger(sources, root_of(o.root), options);
  bar.clear();
  if (!done) {
    return failed(context, done.error().detail);
  }
  if (!context.json) {
    print_line(fmt::format("read {} to term {} index {}",
                           done.value().source,
                           done.value().end_term,
                           done.value().end_index));
  }
  return show_exchanged(context, done.value(), "imported");
}

void add_delay_levels(CLI::App& command, StoreOptions& o) {
  command
      .add_option("--delay-levels", o.delay_levels, "Delays of the broker, for the schedule topic")
      ->capture_default_str();
}

}  // namespace

void add_store_repair(CLI::App& store, Context& context) {
  const auto o = std::make_shared<RepairCommand>();
  CLI::App* c = store.add_subcommand(
      "repair",
      "Make wrong queues and the index anew from the log; cut the log where recovery would");
  add_store_options(*c, *o, false);
  c->add_flag("--dry-run", o->dry_run, "Only say what is wrong and what would be done");
  c->add_flag("--apply", o->apply, "Do it; what goes is moved to ROOT/repair-TIME");
  c->add_flag("--all", o->all, "All queues and the index, not only what is wrong");
  add_delay_levels(*c, *o);
  c->callback([&context, o] { context.run = [&context, o] { return repair(context, *o); }; });
}

void add_store_exchange(CLI::App& store, Context& context) {
  const auto out = std::make_shared<ExportCommand>();
  CLI::App* c =
      store.add_subcommand("export", "Write the messages and settings of topics to a file");
  add_store_options(*c, *out, true);
  const CLI::Validator time(check_time, "TIME");
  c->add_option("--topic,-t", out->topics, "Topic; may be repeated")->required();
  c->add_option("--to", out->file, "File to make")->required();
  c->add_option("--since", out->since, "Stored at this time or later")->check(time);
  c->add_option("--until", out->until, "Stored at this time or before")->check(time);
  c->callback(
      [&context, out] { context.run = [&context, out] { return export_topics(context, *out); }; });

  const auto in = std::make_shared<ImportCommand>();
  c = store.add_subcommand("import",
                           "Add exported messages to a store, with their queue offsets and times");
  add_store_options(*c, *in, false);
  c->add_option("--from", in->file, "File that export made")->required();
  c->add_option("--topic,-t", in->topics, "Only this topic; may be repeated");
  c->add_flag(
      "--append", in->append, "Continue queues that have messages, with new offsets and times");
  add_delay_levels(*c, *in);
  c->callback(
      [&context, in] { context.run = [&context, in] { return import_topics(context, *in); }; });

  const auto dledger = std::make_shared<ImportCommand>();
  c = store.add_subcommand("import-dledger",
                           "Make a plain store of the folders of a stopped DLedger group");
  c->add_option(
       "SOURCE", dledger->sources, "Store folders of members; the one that is ahead is read")
      ->required();
  c->add_option("--to", dledger->root, "Folder to make")->required();
  c->add_option("--index-slots", dledger->index_slots, "Of the new index, if the source has none")
      ->capture_default_str();
  c->add_option("--index-items", dledger->index_items, "Of the new index, if the source has none")
      ->capture_default_str();
  add_delay_levels(*c, *dledger);
  c->callback([&context, dledger] {
    context.run = [&context, dledger] { return import_dledger(context, *dledger); };
  });
}

}  // namespace tenon::app
