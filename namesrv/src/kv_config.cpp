#include "kv_config.h"

#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::namesrv {
namespace {

namespace fs = std::filesystem;

Result<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return os_error(fmt::format("open {}", path.string()), errno);
  }
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) {
    return os_error(fmt::format("read {}", path.string()), errno);
  }
  return text;
}

/// Writes a new file beside the old one, keeps the old one as .bak and puts the new one in place:
/// at every moment one of the three is whole.
Result<> replace_file(const fs::path& path, std::string_view text) {
  const fs::path fresh = path.string() + ".tmp";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return os_error(fmt::format("create {}", fresh.string()), errno);
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      const int error = errno;
      ::close(fd);
      return os_error(fmt::format("write {}", fresh.string()), error);
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  const int synced = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (synced != 0) {
    return os_error(fmt::format("sync {}", fresh.string()), error);
  }
  std::error_code code;
  if (fs::exists(path, code)) {
    fs::copy_file(path, path.string() + ".bak", fs::copy_options::overwrite_existing, code);
    if (code) {
      return os_error(fmt::format("copy {} to .bak", path.string()), code.value());
    }
  }
  fs::rename(fresh, path, code);
  if (code) {
    return os_error(fmt::format("rename {}", fresh.string()), code.value());
  }
  return ok();
}

}  // namespace

Result<> KvConfig::load() {
  if (path_.empty()) {
    return ok();
  }
  std::error_code code;
  fs::path from = path_;
  if (!fs::exists(from, code)) {
    from = path_.string() + ".bak";
    if (!fs::exists(from, code)) {
      return ok();
    }
  }
  TENON_TRY(const std::string text, read_file(from));
  auto document = proto::JsonDocument::parse(text);
  if (!document || !document.value().root().is_object()) {
    return Error{Errc::kCorrupt,
                 fmt::format("{} is no key-value configuration: {}",
                             from.string(),
                             document ? "no object" : document.error().detail)};
  }
  Table table;
  const proto::JsonNode spaces = document.value().root()["configTable"];
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const auto [space, entries] = spaces.member(i);
    for (std::size_t k = 0; k < entries.size(); ++k) {
      const auto [key, value] = entries.member(k);
      table[std::string(space)][std::string(key)] = value.text().value_or("");
    }
  }
  const std::scoped_lock lock(mutex_);
  table_ = std::move(table);
  return ok();
}

Result<> KvConfig::put(std::string_view space, std::string_view key, std::string_view value) {
  const std::scoped_lock lock(mutex_);
  table_[std::string(space)][std::string(key)] = std::string(value);
  return save_locked();
}

Result<> KvConfig::erase(std::string_view space, std::string_view key) {
  const std::scoped_lock lock(mutex_);
  const auto found = table_.find(space);
  if (found != table_.end()) {
    found->second.erase(std::string(key));  // an empty namespace stays, as in Java
  }
  return save_locked();
}

std::optional<std::string> KvConfig::get(std::string_view space, std::string_view key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = table_.find(space);
  if (found == table_.end()) {
    return std::nullopt;
  }
  const auto entry = found->second.find(std::string(key));
  if (entry == found->second.end()) {
    return std::nullopt;
  }
  return entry->second;
}

std::optional<proto::KvTable> KvConfig::list(std::string_view space) const {
  const std::scoped_lock lock(mutex_);
  const auto found = table_.find(space);
  if (found == table_.end()) {
    return std::nullopt;
  }
  return found->second;
}

Result<> KvConfig::save_locked() const {
  if (path_.empty()) {
    return ok();
  }
  std::string text;
  proto::JsonWriter json(text);
  json.begin_object().key("configTable").begin_object();
  for (const auto& [space, entries] : table_) {
    json.key(space).begin_object();
    for (const auto& [key, value] : entries) {
      json.member(key, value);
    }
    json.end_object();
  }
  json.end_object().end_object();
  return replace_file(path_, text);
}

}  // namespace tenon::namesrv
