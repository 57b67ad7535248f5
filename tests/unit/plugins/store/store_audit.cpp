#include "store_audit.h"

#include "tenon/proto/properties.h"
#include "tenon/store/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tenon::test {

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void read_queue(StoreInstance& store, std::string_view topic, std::uint32_t id, Audit& audit) {
  const Bounds bounds = store.bounds(topic, id);
  std::int64_t expected = bounds.min;
  std::uint64_t last = 0;
  for (const Entry& e : store.entries(topic, id, bounds.min)) {
    if (e.offset != expected) {
      audit.problems.push_back(
          fmt::format("queue {}: offset {} after {}", id, e.offset, expected - 1));
    }
    expected = e.offset + 1;
    const std::string record = store.fetch(e.phys, e.bytes);
    const auto m = proto::decode_message(bytes_of(record));
    if (!m || m.value().queue_offset != e.offset ||
        m.value().queue_id != static_cast<std::int32_t>(id) || m.value().topic != topic ||
        m.value().phys_offset != static_cast<std::int64_t>(e.phys)) {
      audit.problems.push_back(
          fmt::format("queue {}: offset {} at {} is no record", id, e.offset, e.phys));
      continue;
    }
    if (!audit.messages.empty() && e.offset > bounds.min && e.phys <= last) {
      audit.problems.push_back(fmt::format("queue {}: offset {} goes back", id, e.offset));
    }
    last = e.phys;
    const auto body = m.value().body;
    audit.messages.push_back(
        {id,
         e.offset,
         e.phys,
         {reinterpret_cast<const char*>(body.data()), body.size()},
         std::string(proto::find_property(m.value().properties, "KEYS").value_or(""))});
  }
  if (expected != bounds.max) {
    audit.problems.push_back(
        fmt::format("queue {}: ends at {}, not at {}", id, expected, bounds.max));
  }
}

/// Positions of the records in the log.
std::set<std::uint64_t> walk_log(StoreInstance& store, Audit& audit) {
  std::set<std::uint64_t> found;
  const tenon_log_bounds log = store.log();
  std::uint64_t pos = log.min_phys;
  while (pos < log.end) {
    tenon_view view{};
    tenon_hold hold{};
    if (store.table().read_log(
            store.self(), pos, UINT32_MAX, TENON_READ_TO_END, &view, &hold, nullptr) < 0) {
      audit.problems.push_back(fmt::format("log: nothing at {}", pos));
      return found;
    }
    std::uint64_t at = 0;
    while (at < view.len) {
      const store::FrameHead head = store::peek_frame({view.ptr + at, view.len - at});
      if (head.kind == store::FrameKind::kBlank) {
        at = view.len;
      } else if (head.kind == store::FrameKind::kRecord) {
        found.insert(pos + at);
        at += head.bytes;
      } else {
        audit.problems.push_back(fmt::format("log: no frame at {}", pos + at));
        at = view.len;
      }
    }
    pos += view.len;
    hold.release(hold.owner, hold.id);
  }
  return found;
}

}  // namespace

std::vector<std::string> Audit::bodies() const {
  std::vector<std::string> all;
  for (const Audited& m : messages) {
    all.push_back(m.body);
  }
  return all;
}

Audit audit_store(StoreInstance& store, std::string_view topic, std::uint32_t queues, bool keys) {
  Audit audit;
  for (std::uint32_t id = 0; id < queues; ++id) {
    read_queue(store, topic, id, audit);
  }
  std::set<std::uint64_t> in_log = walk_log(store, audit);
  for (const Audited& m : audit.messages) {
    if (in_log.erase(m.phys) == 0) {
      audit.problems.push_back(fmt::format("entry of {} points beside the log's records", m.phys));
    }
  }
  for (const std::uint64_t phys : in_log) {
    audit.problems.push_back(fmt::format("record at {} is in no queue", phys));
  }
  for (const Audited& m : audit.messages) {
    if (keys && !m.key.empty()) {
      const auto hits = store.query(topic, m.key);
      if (std::count(hits.begin(), hits.end(), m.phys) != 1) {
        audit.problems.push_back(
            fmt::format("key {} finds its record {} times", m.key, hits.size()));
      }
    }
  }
  std::sort(audit.messages.begin(), audit.messages.end(), [](const Audited& a, const Audited& b) {
    return a.phys < b.phys;
  });
  return audit;
}

}  // namespace tenon::test
