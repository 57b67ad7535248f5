// What the commands of `tenon store` share.
#pragma once

#include "commands/context.h"
#include "support/progress.h"

#include "tenon/store_tool/folder.h"
#include "tenon/store_tool/inspect.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::app {

/// Options of all commands that look at a folder.
struct StoreOptions {
  std::string root{};
  std::string log_folder{};
  std::string log_readonly_folders{};
  bool snapshot = false;
  bool no_crc = false;
  std::uint32_t index_slots = 5'000'000;
  std::uint32_t index_items = 20'000'000;
  std::string delay_levels{store_tool::kDefaultDelayLevels};
};
/// Adds ROOT and the options of opening it.
void add_store_options(CLI::App& command, StoreOptions& options, bool may_snapshot);

/// Without slashes at the end.
std::string root_of(std::string path);
/// Where the log lies; nothing named: commitlog below the root. @return kInvalid
Result<store_format::LogFolders> log_folders_of(const StoreOptions& options);
Result<store_tool::OpenOptions> open_options_of(const StoreOptions& options);
Result<std::unique_ptr<store_tool::Folder>> open_store(const StoreOptions& options);
/// Draws progress in MiB; stops on Ctrl-C.
store_tool::ProgressSink progress_of(const Context& context, Progress& bar);

/// "2026-11-30 06:59:14.870" in local time.
std::string time_text(std::int64_t ms);
/// Milliseconds since the epoch, or local time "2026-11-30", "2026-11-30T06:59", "…:14". CLI11 checks
/// with check_time first.
std::string check_time(const std::string& text);
std::int64_t time_of(const std::string& text);

std::string finding_line(const store_tool::Finding& finding);
std::string finding_json(const store_tool::Finding& finding);

/// The commands, each in its file.
void add_store_check(CLI::App& store, Context& context);
void add_store_stat(CLI::App& store, Context& context);
void add_store_dump(CLI::App& store, Context& context);
void add_store_repair(CLI::App& store, Context& context);
void add_store_exchange(CLI::App& store, Context& context);

}  // namespace tenon::app
