// Keys that both servers have: the log and where plug-ins are looked for.
#pragma once

#include "tenon/config/visitor.h"
#include "tenon/logging/logging.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::app {

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  bool console = true;
  std::filesystem::path file{};
  std::uint64_t file_max_bytes = 64u * 1024 * 1024;
  std::uint32_t file_count = 10;
  std::uint32_t queue_lines = 1024;
  std::vector<std::pair<std::string, std::string>> levels{};

  logging::LogOptions options() const;
};

struct PluginConfig {
  std::vector<std::string> search_path{};
  bool insecure = false;
};

void describe(config::Visitor& v, LogConfig& c);
void describe(config::Visitor& v, PluginConfig& c);

}  // namespace tenon::app
