// What a processor gets and what it gives back. A processor answers exactly once: with a Reply that
// the router writes, or, where it says so, later on the connection itself.
#pragma once

#include "tenon/base/worker_pool.h"
#include "tenon/net/connection.h"
#include "tenon/proto/command.h"

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::broker {

/// Views that live during the call.
struct Request {
  const net::ConnectionPtr& connection;
  const proto::CommandView& command;
  const net::BufferRef& keep;
};

/// A request beyond its call, with the buffer behind its views.
struct HeldRequest {
  explicit HeldRequest(const Request& r)
      : connection(r.connection),
        command(r.command),
        keep(r.keep) {}
  Request view() const { return {connection, command, keep}; }

  net::ConnectionPtr connection;
  proto::CommandView command;
  net::BufferRef keep;
};

/// An answer without a hot path behind it.
struct Reply {
  std::int32_t code = proto::ResponseCode::kSuccess;
  std::string remark{};
  boost::container::small_vector<std::pair<std::string_view, std::string>, 4> fields{};
  bool empty_fields = false;  ///< write `"extFields":{}`
  std::string body{};
  bool later = false;  ///< no answer now: somebody else answers, or nobody ever does

  static Reply error(std::int32_t code, std::string remark) {
    Reply r;
    r.code = code;
    r.remark = std::move(remark);
    return r;
  }
  static Reply with_body(std::string body) {
    Reply r;
    r.body = std::move(body);
    return r;
  }
  static Reply nothing() {
    Reply r;
    r.later = true;
    return r;
  }
  Reply& field(std::string_view key, std::string value) {
    fields.emplace_back(key, std::move(value));
    return *this;
  }
  Reply& field(std::string_view key, std::int64_t value) {
    return field(key, std::to_string(value));
  }
};

/// Head of an answer to `request`: same opaque and header encoding.
inline proto::FrameWriter::Head answer_head(const proto::CommandView& request,
                                            std::int32_t code,
                                            std::string_view remark = {}) {
  proto::FrameWriter::Head head;
  head.code = code;
  head.opaque = request.opaque;
  head.flag = proto::kFlagResponse;
  head.kind = request.kind;
  head.remark = remark;
  return head;
}

/// Appends the answer unless the request is one-way.
void write_reply(std::string& out, const proto::CommandView& request, const Reply& reply);
/// The same from any thread.
void send_reply(const net::ConnectionPtr& connection,
                const proto::CommandView& request,
                const Reply& reply);

/// Of what waited too long for a worker.
std::string overdue_remark(const WorkerPool::Overdue& overdue);

/// A field that the handler cannot do without. @throws nothing; the error's text is Java's
Result<std::string_view> need_text(const proto::CommandView& c, std::string_view key);
Result<std::int32_t> need_int(const proto::CommandView& c, std::string_view key);
Result<std::int64_t> need_long(const proto::CommandView& c, std::string_view key);
/// Answer 1 with the error's text.
Reply system_error(const Error& error);

}  // namespace tenon::broker
