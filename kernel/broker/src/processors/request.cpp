#include "processors/request.h"

#include "remarks.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

namespace tenon::broker {

void write_reply(std::string& out, const proto::CommandView& request, const Reply& reply) {
  if (reply.later || request.is_oneway()) {
    return;
  }
  proto::FrameWriter writer(out, answer_head(request, reply.code, reply.remark));
  for (const auto& [key, value] : reply.fields) {
    writer.field(key, std::string_view(value));
  }
  if (reply.empty_fields && reply.fields.empty()) {
    writer.empty_fields();
  }
  writer.finish(as_bytes(reply.body));
}

void send_reply(const net::ConnectionPtr& connection,
                const proto::CommandView& request,
                const Reply& reply) {
  std::string frame;
  write_reply(frame, request, reply);
  if (!frame.empty()) {
    connection->send(std::move(frame));
  }
}

Result<std::string_view> need_text(const proto::CommandView& c, std::string_view key) {
  const auto value = c.field(key);
  if (!value) {
    return Error{Errc::kInvalid, fmt::format("the custom field <{}> is null", key)};
  }
  return *value;
}

std::string overdue_remark(const WorkerPool::Overdue& overdue) {
  return fmt::format(remark::kTimeoutCleanQueue, overdue.waited_ns / 1'000'000, overdue.queued);
}

Result<std::int32_t> need_int(const proto::CommandView& c, std::string_view key) {
  const auto value = c.field_int(key);
  if (!value) {
    return Error{Errc::kInvalid, fmt::format("the custom field <{}> is null", key)};
  }
  return *value;
}

Result<std::int64_t> need_long(const proto::CommandView& c, std::string_view key) {
  const auto value = c.field_long(key);
  if (!value) {
    return Error{Errc::kInvalid, fmt::format("the custom field <{}> is null", key)};
  }
  return *value;
}

Reply system_error(const Error& error) {
  return Reply::error(proto::ResponseCode::kSystemError, error.detail);
}

}  // namespace tenon::broker
