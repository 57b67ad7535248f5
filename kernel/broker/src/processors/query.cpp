// Finding messages: QUERY_MESSAGE 12 and VIEW_MESSAGE_BY_ID 33 (spec: broker §15.2, store §17).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

struct Hold {
  tenon_hold raw{};
  Hold() = default;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (raw.release != nullptr) {
      raw.release(raw.owner, raw.id);
    }
  }
};

void append_view(std::string& out, const tenon_view& view) {
  if (view.ptr != nullptr) {
    out.append(reinterpret_cast<const char*>(view.ptr), view.len);
  }
}

Result<tenon_key_query> parse_query(const Services& s, const Request& request) {
  const proto::CommandView& c = request.command;
  tenon_key_query q{};
  q.size = sizeof q;
  TENON_TRY(const auto topic, need_text(c, "topic"));
  TENON_TRY(const auto key, need_text(c, "key"));
  TENON_TRY(const auto wanted, need_int(c, "maxNum"));
  TENON_TRY(q.begin_ms, need_long(c, "beginTimestamp"));
  TENON_TRY(q.end_ms, need_long(c, "endTimestamp"));
  q.topic = host::abi_str(topic);
  q.key = host::abi_str(key);
  const bool unique = c.field_bool("_UNIQUE_KEY_QUERY").value_or(false);
  q.max = static_cast<std::uint32_t>(unique ? s.config.unique_query_max
                                            : std::clamp(wanted, 0, s.config.query_max.get()));
  return q;
}

Reply query_message(const Services& s, const Request& request) {
  auto parsed = parse_query(s, request);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const tenon_key_query& query = parsed.value();
  const auto& storage = s.log.storage();
  std::vector<tenon_extent> extents(std::max(query.max, 1u));
  tenon_key_result found{};
  found.size = sizeof found;
  if (storage->query_keys == nullptr ||
      storage->query_keys(
          storage.self, &query, extents.data(), sizeof(tenon_extent), &found, nullptr) < 0) {
    found.count = 0;
  }
  extents.resize(std::min<std::size_t>(found.count, extents.size()));
  std::sort(
      extents.begin(), extents.end(), [](const auto& a, const auto& b) { return a.phys < b.phys; });

  Reply reply;
  if (!extents.empty()) {
    std::vector<tenon_view> views(extents.size());
    Hold hold;
    std::uint64_t next_file = 0;
    if (storage->fetch(storage.self,
                       extents.data(),
                       extents.size(),
                       0,
                       views.data(),
                       sizeof(tenon_view),
                       &next_file,
                       &hold.raw,
                       nullptr) >= 0) {
      for (const tenon_view& view : views) {
        append_view(reply.body, view);
      }
    }
  }
  // Trap: Java tells how far the index is only with something found, else 0.
  const bool any = !extents.empty();
  reply.field("indexLastUpdatePhyoffset",
              any ? static_cast<std::int64_t>(found.last_update_phys) : 0);
  reply.field("indexLastUpdateTimestamp", any ? found.last_update_ms : 0);
  if (reply.body.empty()) {
    reply.code = Code::kQueryNotFound;
    reply.remark = remark::kQueryNotFound;
  }
  return reply;
}

Reply view_message(const Services& s, const Request& request) {
  const auto offset = need_long(request.command, "offset");
  if (offset.has_error()) {
    return system_error(offset.error());
  }
  const auto& storage = s.log.storage();
  tenon_view view{};
  Hold hold;
  if (offset.value() < 0 ||
      storage->message_at(
          storage.self, static_cast<std::uint64_t>(offset.value()), &view, &hold.raw, nullptr) <
          0 ||
      view.ptr == nullptr) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kViewNotFound, offset.value()));
  }
  Reply reply;
  append_view(reply.body, view);
  return reply;
}

}  // namespace

void add_query_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kQueryMessage] = {Run::kQuery, [&s](const Request& r) { return query_message(s, r); }};
  table[C::kViewMessageById] = {Run::kQuery, [&s](const Request& r) { return view_message(s, r); }};
}

}  // namespace tenon::broker
