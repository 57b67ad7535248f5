#include "topic_file.h"

#include "tenon/proto/json.h"
#include "tenon/store_tool/build.h"
#include "tenon/store_tool/read_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace tenon::store_tool {

namespace fs = std::filesystem;
using proto::JsonDocument;
using proto::JsonNode;

namespace {

std::string path_of(const std::string& root) {
  return root + "/config/topics.json";
}

/// The file, or its .bak as the brokers do it; nothing if neither is there.
Result<std::optional<JsonDocument>> load(const std::string& root) {
  for (const std::string& path : {path_of(root), path_of(root) + ".bak"}) {
    const auto file = ReadFile::open(path);
    if (!file || file.value()->bytes().empty()) {
      continue;
    }
    const auto bytes = file.value()->bytes();
    auto parsed = JsonDocument::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (parsed) {
      return std::optional<JsonDocument>(std::move(parsed).value());
    }
    if (path.ends_with(".bak")) {
      return Error{Errc::kCorrupt, fmt::format("{}: {}", path, parsed.error().detail)};
    }
  }
  return std::optional<JsonDocument>{};
}

}  // namespace

Result<std::string> topic_settings(const std::string& root, const std::set<std::string>& topics) {
  TENON_TRY(const auto document, load(root));
  std::string text;
  proto::JsonWriter json(text);
  json.begin_object();
  for (const std::string& topic : topics) {
    const JsonNode node = document ? document->root()["topicConfigTable"][topic] : JsonNode();
    if (node.is_object()) {
      json.key(topic).value(node);
    }
  }
  json.end_object();
  return text;
}

Result<> add_topic_settings(const std::string& root,
                            std::string_view exported,
                            const std::set<std::string>& topics) {
  TENON_TRY(const JsonDocument arriving, JsonDocument::parse(exported));
  TENON_TRY(const auto document, load(root));
  const JsonNode old = document ? document->root() : JsonNode();
  const JsonNode table = old["topicConfigTable"];
  std::string text;
  proto::JsonWriter json(text, {proto::JsonLayout::kJava, true, false});
  json.begin_object();
  bool added = false;
  for (std::size_t i = 0; i < old.size(); ++i) {
    const auto member = old.member(i);
    if (member.first != "topicConfigTable") {
      json.key(member.first).value(member.second);
    }
  }
  json.key("topicConfigTable").begin_object();
  for (std::size_t i = 0; i < table.size(); ++i) {
    json.key(table.member(i).first).value(table.member(i).second);
  }
  for (const std::string& topic : topics) {
    const JsonNode node = arriving.root()["topics"][topic];
    if (node.is_object() && !table[topic].present()) {
      json.key(topic).value(node);
      added = true;
    }
  }
  json.end_object().end_object();
  if (!added) {
    return ok();
  }
  const std::string path = path_of(root);
  TENON_TRY(make_folders(root + "/config"));
  TENON_TRY(write_file(path + ".tmp", text));
  std::error_code ec;
  if (fs::exists(path, ec)) {
    fs::rename(path, path + ".bak", ec);
  }
  fs::rename(path + ".tmp", path, ec);
  return ec ? Result<>(os_error("write " + path, ec.value())) : sync_folder(root + "/config");
}

}  // namespace tenon::store_tool
