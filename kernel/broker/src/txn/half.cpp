#include "txn/half.h"

#include "tenon/proto/command.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <limits>

namespace tenon::broker {
namespace {

std::string without_history(std::string_view properties, bool checks_too) {
  std::string text;
  text.reserve(properties.size() + 64);
  for (proto::PropertyIterator it(properties); it.next();) {
    const bool drop =
        it.name() == txn_prop::kFirstOffset || (checks_too && it.name() == txn_prop::kCheckTimes);
    if (!drop) {
      proto::append_property(text, it.name(), it.value());
    }
  }
  return text;
}

}  // namespace

std::optional<Half> read_half(const proto::MessageView& record) noexcept {
  if (record.topic != kHalfTopic || record.queue_id != 0) {
    return std::nullopt;
  }
  Half half;
  half.record = record;
  half.root = record.queue_offset;
  std::optional<std::int32_t> queue_id;
  for (proto::PropertyIterator it(record.properties); it.next();) {
    const std::string_view name = it.name();
    const std::string_view value = it.value();
    if (name == proto::prop::kProducerGroup) {
      half.group = value;
    } else if (name == proto::prop::kRealTopic) {
      half.real_topic = value;
    } else if (name == proto::prop::kRealQueueId) {
      queue_id = proto::parse_int(value);
    } else if (name == proto::prop::kUniqKey) {
      half.uniq_key = value;
    } else if (name == txn_prop::kCheckTimes) {
      half.checks = static_cast<std::uint32_t>(std::max(proto::parse_int(value).value_or(0), 0));
    } else if (name == txn_prop::kFirstOffset) {
      const std::int64_t first = proto::parse_long(value).value_or(-1);
      half.root = first >= 0 && first < record.queue_offset ? first : record.queue_offset;
    } else if (name == txn_prop::kImmunity) {
      const auto seconds = proto::parse_long(value);
      // Trap: text that is no number means the ordinary time-out (broker §13.3).
      half.immunity_s = seconds ? std::max<std::int64_t>(*seconds, 0) : -1;
    }
  }
  if (half.real_topic.empty() || !queue_id || *queue_id < 0) {
    return std::nullopt;
  }
  half.real_queue_id = *queue_id;
  return half;
}

std::string copy_properties(const Half& half, std::uint32_t checks) {
  std::string text = without_history(half.record.properties, true);
  proto::append_property(text, txn_prop::kCheckTimes, std::to_string(checks));
  // Trap: Java links only immune copies, so an original's commit after a copy commits twice (§13.3).
  proto::append_property(text, txn_prop::kFirstOffset, std::to_string(half.root));
  return text;
}

std::string fresh_properties(std::string_view properties) {
  std::string text = without_history(properties, true);
  proto::append_property(text, txn_prop::kCheckTimes, "0");
  return text;
}

std::string commit_properties(const Half& half) {
  return without_history(half.record.properties, false);
}

proto::MessageRecord record_of(const proto::MessageView& view) noexcept {
  proto::MessageRecord m;
  m.flag = view.flag;
  m.sys_flag = view.sys_flag & ~proto::sys_flag::kTransactionMask;
  m.born_ms = view.born_ms;
  m.born_host = view.born_host;
  m.store_host = view.store_host;
  m.reconsume_times = view.reconsume_times;
  m.body = view.body;
  return m;
}

std::string op_body(std::span<const std::int64_t> offsets, bool batched) {
  std::string text;
  for (const std::int64_t offset : offsets) {
    text += std::to_string(offset);
    if (batched) {
      text.push_back(',');
    }
  }
  return text;
}

bool parse_op_body(std::string_view body, std::vector<std::int64_t>& out) {
  bool all = true;
  while (!body.empty()) {
    const std::size_t end = std::min(body.find(','), body.size());
    const std::string_view item = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
    if (item.empty()) {
      continue;
    }
    const auto offset = proto::parse_long(item);
    if (offset && *offset >= 0 && *offset < std::numeric_limits<std::int64_t>::max()) {
      out.push_back(*offset);
    } else {
      all = false;
    }
  }
  return all;
}

}  // namespace tenon::broker
