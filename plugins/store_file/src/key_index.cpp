#include "key_index.h"

#include "tenon/store/record.h"
#include "tenon/store_format/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_file {

Result<IndexShape> KeyIndex::find_shape(const std::string& folder,
                                        const std::vector<std::string>& names,
                                        std::uint64_t file_bytes,
                                        IndexShape configured) {
  if (names.empty()) {
    return configured;
  }
  MappedFile file(folder + "/" + names.front(), 0, file_bytes);
  TENON_TRY(file.map(false));
  if (const auto shape = store_format::find_index_shape(
          {file.data(), static_cast<std::size_t>(file.bytes())}, configured)) {
    return *shape;
  }
  return Error{
      Errc::kIncompatible,
      fmt::format("{} has {} bytes, which index_slots = {} and index_items = {} do not give; "
                  "set the options to maxHashSlotNum and maxIndexNum of the broker that "
                  "wrote it, or delete the folder index (it is rebuilt)",
                  file.path(),
                  file_bytes,
                  configured.slots,
                  configured.items)};
}

Result<> KeyIndex::load(std::string folder,
                        IndexShape shape,
                        const std::vector<std::string>& names,
                        bool crashed,
                        const Checkpoint& checkpoint) {
  // What was not full is on the disk in parts. Several files may be full in one millisecond, so
  // the time alone does not say which.
  const auto unsure = [&](const IndexFile& file) {
    return file.header().end_ms > checkpoint.index_ms || !file.is_full() ||
           (checkpoint.index_done != 0 && file.header().end_phys > checkpoint.index_done);
  };
  const std::scoped_lock lock(mutex_);
  folder_ = std::move(folder);
  shape_ = shape;
  files_.clear();
  for (const std::string& name : names) {
    auto file = std::make_unique<IndexFile>(folder_ + "/" + name, shape_);
    const auto opened = file->open();
    if (!opened && opened.error().code != Errc::kCorrupt) {
      return opened.error();
    }
    if (!opened || (crashed && unsure(*file))) {
      host_.log(LogLevel::kInfo, "index file is rebuilt file={}", file->path());
      static_cast<void>(io().unlink(file->path().c_str()));
      continue;
    }
    files_.push_back(std::move(file));
  }
  return ok();
}

std::uint64_t KeyIndex::last_phys() const {
  const std::scoped_lock lock(mutex_);
  return files_.empty() ? 0 : files_.back()->header().end_phys;
}

KeyIndex::LastUpdate KeyIndex::last_update() const {
  const std::scoped_lock lock(mutex_);
  if (files_.empty()) {
    return {};
  }
  return {files_.back()->header().end_ms, files_.back()->header().end_phys};
}

/// Always behind the newest file, also when the clock or the time zone went back.
std::string KeyIndex::new_name() const {
  const std::string last = files_.empty() ? std::string() : files_.back()->path();
  return store_format::index_name_of(host_.wall_ms(), last.substr(last.rfind('/') + 1));
}

Result<> KeyIndex::add_file() {
  if (files_.empty()) {
    TENON_TRY(make_directories(folder_));
  }
  auto file = std::make_unique<IndexFile>(folder_ + "/" + new_name(), shape_);
  const IndexHeader* before = files_.empty() ? nullptr : &files_.back()->header();
  if (auto created = file->create(before); !created) {
    static_cast<void>(io().unlink(file->path().c_str()));
    return created.error();
  }
  if (before != nullptr) {
    TENON_TRY(files_.back()->sync());
    if (on_complete) {
      on_complete(*before);
    }
  }
  files_.push_back(std::move(file));
  return ok();
}

Result<> KeyIndex::insert(const proto::MessageView& record) {
  const std::scoped_lock lock(mutex_);
  const auto phys = static_cast<std::uint64_t>(record.phys_offset);
  if (!files_.empty() && !files_.back()->is_empty()) {
    if (phys <= files_.back()->header().end_phys) {
      return ok();
    }
  }
  Result<> result = ok();
  std::uint32_t added = 0;
  const auto before = files_.size();
  store::for_each_key(record, [&](std::string_view key) {
    if (!result) {
      return;
    }
    if (files_.empty() || files_.back()->is_full()) {
      result = add_file();
    }
    if (result) {
      result = files_.back()->insert(
          store::key_hash(record.topic, key, scratch_), phys, record.store_ms);
      added += result ? 1 : 0;
    }
  });
  if (!result && added > 0 && files_.size() == before) {
    static_cast<void>(
        files_.back()->cut(phys));  // all keys of a record or none, so that it can be tried again
  }
  return result;
}

std::vector<std::uint64_t> KeyIndex::query(std::string_view topic,
                                           std::string_view key,
                                           std::int64_t begin_ms,
                                           std::int64_t end_ms,
                                           std::size_t max) const {
  std::string text;
  const std::int32_t hash = store::key_hash(topic, key, text);
  std::vector<std::uint64_t> hits;
  const std::scoped_lock lock(mutex_);
  for (auto it = files_.rbegin(); it != files_.rend() && hits.size() < max; ++it) {
    const IndexFile& file = **it;
    if (file.overlaps(begin_ms, end_ms)) {
      file.search(hash, begin_ms, end_ms, [&](std::uint64_t phys) {
        hits.push_back(phys);
        return hits.size() < max;
      });
    }
    if (file.header().begin_ms < begin_ms) {
      break;
    }
  }
  return hits;
}

bool KeyIndex::cut(std::uint64_t phys) {
  const std::scoped_lock lock(mutex_);
  bool changed = false;
  while (!files_.empty()) {
    changed = files_.back()->cut(phys) || changed;
    if (!files_.back()->is_empty()) {
      break;
    }
    static_cast<void>(io().unlink(files_.back()->path().c_str()));
    files_.pop_back();
    changed = true;
  }
  return changed;
}

std::uint32_t KeyIndex::remove_expired(std::uint64_t log_min) {
  const std::scoped_lock lock(mutex_);
  std::uint32_t removed = 0;
  while (files_.size() > 1 && files_.front()->header().end_phys < log_min) {
    static_cast<void>(io().unlink(files_.front()->path().c_str()));
    files_.erase(files_.begin());
    ++removed;
  }
  return removed;
}

void KeyIndex::clear(bool delete_files) {
  const std::scoped_lock lock(mutex_);
  for (const auto& file : files_) {
    if (delete_files) {
      static_cast<void>(io().unlink(file->path().c_str()));
    }
  }
  files_.clear();
}

Result<> KeyIndex::sync() const {
  const std::scoped_lock lock(mutex_);
  if (!files_.empty()) {
    return files_.back()->sync();
  }
  return ok();
}

void KeyIndex::forget_pages() const {
  const std::scoped_lock lock(mutex_);
  for (const auto& file : files_) {
    file->forget_items();
  }
}

std::size_t KeyIndex::count() const {
  const std::scoped_lock lock(mutex_);
  return files_.size();
}

}  // namespace tenon::store_file
