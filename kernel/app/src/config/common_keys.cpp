#include "config/common_keys.h"

#include <array>

namespace tenon::app {
namespace {

constexpr std::array<std::string_view, 7> kLevelWords = {
    "trace", "debug", "info", "warn", "error", "critical", "off"};

}  // namespace

logging::LogOptions LogConfig::options() const {
  logging::LogOptions out;
  out.level = level;
  out.console = console;
  out.file = file;
  out.file_max_bytes = file_max_bytes;
  out.file_count = file_count;
  out.queue_lines = queue_lines;
  for (const auto& [component, word] : levels) {
    out.levels.emplace_back(component, logging::level_of(word).value_or(level));
  }
  return out;
}

void describe(config::Visitor& v, LogConfig& c) {
  v.table("log", "What is logged and where to.", [&] {
    v.choice("level",
             c.level,
             {{"trace", LogLevel::kTrace},
              {"debug", LogLevel::kDebug},
              {"info", LogLevel::kInfo},
              {"warn", LogLevel::kWarn},
              {"error", LogLevel::kError},
              {"critical", LogLevel::kCritical},
              {"off", LogLevel::kOff}},
             {.doc = "Lines below this level are not written."});
    v.key("console", &c.console, {.doc = "Write to standard error."});
    v.key("file", &c.file, {.doc = "Also write to this file; empty: to none."});
    v.key("file_max_bytes",
          &c.file_max_bytes,
          {.doc = "A file of this size is renamed and a new one begun.", .min = 4096});
    v.key("file_count",
          &c.file_count,
          {.doc = "Renamed files that are kept.", .min = 1, .max = 1000});
    v.key("queue_lines",
          &c.queue_lines,
          {.doc = "Lines that wait for the writer; beyond, the oldest is dropped and counted.",
           .min = 16,
           .max = 1'000'000});
    v.words("levels",
            c.levels,
            kLevelWords,
            "Levels of single components: net, proto, host, broker, store, ns, \"plugin:<id>\".");
  });
}

void describe(config::Visitor& v, PluginConfig& c) {
  v.table("plugins", "Where plug-ins are looked for.", [&] {
    v.key("search_path",
          &c.search_path,
          {.doc = "Folders, the first that has a plug-in wins. After them come those of the "
                  "environment variable TENON_PLUGIN_PATH and of the installation."});
    v.key("insecure",
          &c.insecure,
          {.doc = "Accept files and folders that others than the owner and root may write."});
  });
}

}  // namespace tenon::app
