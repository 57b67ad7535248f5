#include "inspector.h"

#include "tenon/base/endian.h"
#include "tenon/store/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_tool {

using store_format::IndexItem;

IndexStream::IndexStream(const Folder& folder)
    : folder_(folder) {
  for (const IndexFileView& view : folder.index()) {
    if (view.items() > 0) {
      last_phys_ = std::max(last_phys_, view.header.end_phys);
    }
  }
  advance();
}

void IndexStream::advance() {
  ++number_;
  while (!done() && number_ >= file().header.next_item) {
    ++file_;
    number_ = 1;
  }
  load();
}

void IndexStream::load() {
  if (!done()) {
    item_ = store_format::load_index_item(file().file->bytes().data() +
                                          folder_.index_shape().item_at(number_));
  }
}

Finding Inspector::at_entry(std::string_view kind) const {
  Finding f;
  f.kind = kind;
  f.file = "index/" + stream_.file().name;
  f.position = folder_.index_shape().item_at(stream_.number());
  f.phys = static_cast<std::int64_t>(stream_.head().phys);
  return f;
}

/// Entries of records that are not there: everything before `below` that no record took.
void Inspector::foreign_entries(std::uint64_t below) {
  for (; !stream_.done() && stream_.head().phys < below; stream_.advance()) {
    ++result_.index_items;
    const std::uint64_t phys = stream_.head().phys;
    if (phys < result_.log_min || is_damaged(phys)) {
      continue;  // expired, or told already
    }
    Finding f = at_entry("index-foreign");
    f.text = fmt::format("entry {} points at {}, where no record begins", stream_.number(), phys);
    add(std::move(f));
    result_.index_wrong = true;
  }
}

/// The entry at the head of the stream belongs to this record: one of its keys must have that hash.
void Inspector::match_entry(const proto::MessageView& m) {
  const IndexItem& item = stream_.head();
  ++result_.index_items;
  const auto fits = [&](bool seen) {
    return std::find_if(expected_.begin(), expected_.end(), [&](const ExpectedKey& k) {
      return k.hash == item.hash && k.seen == seen;
    });
  };
  if (const auto key = fits(false); key != expected_.end()) {
    key->seen = true;
  } else if (fits(true) == expected_.end()) {
    Finding f = at_entry("index-foreign");
    f.topic = m.topic;
    f.text = fmt::format("entry {} has hash {:08x}, which no key of the record at {} has",
                         stream_.number(),
                         static_cast<std::uint32_t>(item.hash),
                         item.phys);
    add(std::move(f));
    result_.index_wrong = true;
    return;
  }
  const std::int32_t seconds =
      store_format::index_seconds(stream_.file().header.begin_ms, m.store_ms);
  // The first entry of a file is timed against the file before.
  if (stream_.number() > 1 && item.seconds != seconds) {
    Finding f = at_entry("index-time");
    f.topic = m.topic;
    f.text =
        fmt::format("entry {} says {} s after the file's begin, the record was stored {} s after",
                    stream_.number(),
                    item.seconds,
                    seconds);
    add(std::move(f));
    result_.index_wrong = true;
  }
}

void Inspector::match_index(const proto::MessageView& m) {
  const auto phys = static_cast<std::uint64_t>(m.phys_offset);
  foreign_entries(phys);
  expected_.clear();
  store::for_each_key(m, [&](std::string_view key) {
    expected_.push_back({store::key_hash(m.topic, key, scratch_), std::string(key), false});
  });
  while (!stream_.done() && stream_.head().phys == phys) {
    match_entry(m);
    stream_.advance();
  }
  if (!folder_.has_index_files()) {
    return;
  }
  for (const ExpectedKey& key : expected_) {
    if (key.seen) {
      continue;
    }
    if (!has_entries_ || phys > stream_.last_phys()) {
      unindexed_from_ = unindexed_ == 0 ? phys : unindexed_from_;
      ++unindexed_;
      continue;
    }
    if (phys < first_entry_) {
      continue;  // the index begins later: its oldest file was removed
    }
    Finding f = at_log(phys, "index-missing", Severity::kError);
    f.topic = m.topic;
    f.queue_id = m.queue_id;
    f.queue_offset = m.queue_offset;
    f.text = fmt::format("the index has no entry for key \"{}\"", key.key);
    add(std::move(f));
    result_.index_wrong = true;
  }
}

void Inspector::finish_index() {
  if (folder_.snapshot()) {
    while (!stream_.done()) {  // of records that came meanwhile
      ++result_.index_items;
      stream_.advance();
    }
  }
  foreign_entries(~std::uint64_t{0});
  if (unindexed_ > 0) {
    Finding f = at_log(unindexed_from_, "index-behind", lag());
    f.text = fmt::format("{} keys of records from here on are not in the index yet", unindexed_);
    add(std::move(f));
    result_.index_wrong = true;
  }
  if (!folder_.has_index_files() && result_.records > 0) {
    Finding f;
    f.severity = Severity::kNote;
    f.kind = "no-index";
    f.file = "index";
    f.text = "there is no key index";
    add(std::move(f));
  }
}

void Inspector::check_chains() {
  if (folder_.snapshot()) {
    return;  // header and slots change one after the other
  }
  for (const IndexFileView& view : folder_.index()) {
    check_chain(view);
  }
}

/// Each entry is linked to the one before it in its slot, and the slot has the newest.
void Inspector::check_chain(const IndexFileView& view) {
  const store_format::IndexShape shape = folder_.index_shape();
  const std::uint8_t* content = view.file->bytes().data();
  const auto wrong = [&](std::uint64_t position, std::string text) {
    Finding f;
    f.kind = "index-chain";
    f.file = "index/" + view.name;
    f.position = position;
    f.text = std::move(text);
    add(std::move(f));
    result_.index_wrong = true;
  };
  std::vector<std::uint32_t> newest(shape.slots, 0);
  std::uint64_t before = 0;
  for (std::uint32_t i = 1; i < view.header.next_item; ++i) {
    const IndexItem item = store_format::load_index_item(content + shape.item_at(i));
    if (item.hash < 0) {
      wrong(shape.item_at(i), fmt::format("entry {} has a negative hash", i));
      continue;
    }
    std::uint32_t& last = newest[shape.slot_of(item.hash)];
    if (item.previous != last) {
      wrong(shape.item_at(i),
            fmt::format("entry {} is linked to {}, the one before it in its slot is {}",
                        i,
                        item.previous,
                        last));
    }
    if (item.phys < before) {
      wrong(shape.item_at(i),
            fmt::format("entry {} is of an earlier record than the one before", i));
    }
    before = item.phys;
    last = i;
  }
  for (std::uint32_t slot = 0; slot < shape.slots; ++slot) {
    const auto value = load_be<std::uint32_t>(content + shape.slot_at(slot));
    // A value beyond the last entry counts as empty: a crash between slot and header.
    if (value != newest[slot] && !(value >= view.header.next_item && newest[slot] == 0)) {
      wrong(shape.slot_at(slot),
            fmt::format("slot {} has entry {}, its newest is {}", slot, value, newest[slot]));
    }
  }
  if (view.items() > 0) {
    const auto first = store_format::load_index_item(content + shape.item_at(1));
    if (view.header.begin_phys != first.phys || view.header.end_phys != before) {
      wrong(16,
            fmt::format("the header says records {} to {}, the entries are of {} to {}",
                        view.header.begin_phys,
                        view.header.end_phys,
                        first.phys,
                        before));
    }
  }
}

}  // namespace tenon::store_tool
