#include "meta/offsets.h"

#include "meta/json_file.h"

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

}  // namespace

Offsets::Offsets(const std::filesystem::path& store_root)
    : file_(store_root / "config" / "consumerOffset.json") {}

Offsets::Shard& Offsets::shard(std::string_view key) const {
  return shards_[TextHash{}(key) % shards_.size()];
}

Result<> Offsets::load() {
  return file_.load([this](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_consumer_offset_table(text));
    for (auto& [key, queues] : table.offsets) {
      Shard& s = shard(key);
      const std::scoped_lock lock(s.mutex);
      s.offsets.insert_or_assign(key, std::move(queues));
    }
    extra_ = std::move(table.extra);
    return ok();
  });
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
  file_.changed();
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
  file_.changed();
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
  return file_.save_if_changed([this] { return proto::encode(table(), true); });
}

}  // namespace tenon::broker
