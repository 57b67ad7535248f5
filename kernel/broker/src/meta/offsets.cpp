#include "meta/offsets.h"

#include "meta/json_file.h"
#include "meta/light_topics.h"

#include "tenon/proto/json.h"

#include <utility>

namespace tenon::broker {
namespace {

/// topic@group in memory of this thread, valid until the next call on it.
std::string_view key_of(std::string_view group, std::string_view topic) {
  thread_local std::string key;
  key.clear();
  key.append(topic).push_back('@');
  key.append(group);
  return key;
}

constexpr const char* kFile = "consumerOffset.json";
constexpr const char* kLightFile = "lmqConsumerOffset.json";
constexpr const char* kLightTable = "lmqOffsetTable";  ///< topic@group of groups %LMQ%: offset

/// Java puts the offsets of groups that are named like a light queue into a table of their own.
bool is_light_group(std::string_view key) {
  const auto at = key.find('@');
  return at != std::string_view::npos && is_light_name(key.substr(at + 1));
}

/// When the file was written; the first moment of all if it is not there.
std::filesystem::file_time_type written_at(const std::filesystem::path& path) {
  std::error_code ec;
  const auto time = std::filesystem::last_write_time(path, ec);
  return ec ? std::filesystem::file_time_type::min() : time;
}

}  // namespace

Offsets::Offsets(const std::filesystem::path& store_root)
    : config_(store_root / "config"),
      file_(config_ / kFile),
      light_file_(config_ / kLightFile) {}

void Offsets::changed() noexcept {
  file_.changed();
  light_file_.changed();
}

Offsets::Shard& Offsets::shard(std::string_view key) const {
  return shards_[TextHash{}(key) % shards_.size()];
}

Result<> Offsets::load() {
  TENON_TRY(file_.load([this](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_consumer_offset_table(text));
    for (auto& [key, queues] : table.offsets) {
      Shard& s = shard(key);
      const std::scoped_lock lock(s.mutex);
      s.offsets.insert_or_assign(key, std::move(queues));
    }
    extra_ = std::move(table.extra);
    return ok();
  }));
  return light_ ? load_light() : ok();
}

/// Of the two files the younger one counts: another broker, or this one without light queues, may
/// have gone on with one of them alone. What only the older one has is kept.
Result<> Offsets::load_light() {
  const bool younger = written_at(config_ / kLightFile) >= written_at(config_ / kFile);
  const auto take = [&](const std::string& key, QueueOffsets queues) {
    Shard& s = shard(key);
    const std::scoped_lock lock(s.mutex);
    if (younger) {
      s.offsets.insert_or_assign(key, std::move(queues));
    } else {
      s.offsets.try_emplace(key, std::move(queues));
    }
  };
  changed();  // so that either file is complete after the next write
  return light_file_.load([&](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_consumer_offset_table(text));
    if (const auto more = table.extra.find(kLightTable); more != table.extra.end()) {
      TENON_TRY(const auto document, proto::JsonDocument::parse(more->second));
      const proto::JsonNode root = document.root();
      for (std::size_t i = 0; i < root.size(); ++i) {
        const auto entry = root.member(i);
        table.offsets.try_emplace(std::string(entry.first),
                                  QueueOffsets{{0, entry.second.integer().value_or(0)}});
      }
    }
    for (auto& entry : table.offsets) {
      take(entry.first, std::move(entry.second));
    }
    return ok();
  });
}

std::string Offsets::light_text() const {
  proto::ConsumerOffsetTable t = table();
  std::string more;
  proto::JsonWriter w(more);
  w.begin_object();
  for (auto it = t.offsets.begin(); it != t.offsets.end();) {
    if (const auto at = it->second.find(0); is_light_group(it->first) && at != it->second.end()) {
      w.member(it->first, at->second);
      it = t.offsets.erase(it);
    } else {
      ++it;
    }
  }
  w.end_object();
  t.extra[kLightTable] = more;
  return proto::encode(t, true);
}

void Offsets::commit(std::string_view group,
                     std::string_view topic,
                     std::int32_t queue_id,
                     std::int64_t offset) {
  const std::string_view key = key_of(group, topic);
  Shard& s = shard(key);
  {
    const std::scoped_lock lock(s.mutex);
    auto it = s.offsets.find(key);
    if (it == s.offsets.end()) {
      it = s.offsets.emplace(std::string(key), QueueOffsets{}).first;
    }
    auto [at, added] = it->second.try_emplace(queue_id, offset);
    if (!added) {
      if (at->second == offset) {
        return;
      }
      at->second = offset;
    }
  }
  changed();
}

std::int64_t Offsets::query(std::string_view group,
                            std::string_view topic,
                            std::int32_t queue_id) const {
  const std::string_view key = key_of(group, topic);
  const Shard& s = shard(key);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.offsets.find(key);
  if (it == s.offsets.end()) {
    return -1;
  }
  const auto at = it->second.find(queue_id);
  return at == it->second.end() ? -1 : at->second;
}

std::map<std::int32_t, std::int64_t> Offsets::queues_of(std::string_view group,
                                                        std::string_view topic) const {
  const std::string_view key = key_of(group, topic);
  const Shard& s = shard(key);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.offsets.find(key);
  return it == s.offsets.end() ? QueueOffsets{} : it->second;
}

std::set<std::string> Offsets::topics_of(std::string_view group) const {
  std::set<std::string> out;
  for (const Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [key, queues] : s.offsets) {
      const auto at = key.find('@');
      if (at != std::string::npos && std::string_view(key).substr(at + 1) == group) {
        out.insert(key.substr(0, at));
      }
    }
  }
  return out;
}

std::set<std::string> Offsets::groups_of(std::string_view topic) const {
  std::set<std::string> out;
  for (const Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [key, queues] : s.offsets) {
      const auto at = key.find('@');
      if (at != std::string::npos && std::string_view(key).substr(0, at) == topic) {
        out.insert(key.substr(at + 1));
      }
    }
  }
  return out;
}

void Offsets::remove_group(std::string_view group) {
  for (Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    std::erase_if(s.offsets, [&](const auto& entry) {
      const auto at = entry.first.find('@');
      return at != std::string::npos && std::string_view(entry.first).substr(at + 1) == group;
    });
  }
  changed();
}

proto::ConsumerOffsetTable Offsets::table() const {
  proto::ConsumerOffsetTable t;
  for (const Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [key, queues] : s.offsets) {
      t.offsets.emplace(key, queues);
    }
  }
  t.extra = extra_;
  return t;
}

Result<> Offsets::persist() {
  TENON_TRY(file_.save_if_changed([this] { return proto::encode(table(), true); }));
  return light_ ? light_file_.save_if_changed([this] { return light_text(); }) : ok();
}

}  // namespace tenon::broker
