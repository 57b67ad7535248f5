// END_TRANSACTION 37 and RESUME_CHECK_HALF_MESSAGE 323 (spec: broker §13.2, §13.5, remoting §6.8).
#include "processors/handlers.h"
#include "processors/send.h"
#include "remarks.h"

#include "tenon/base/log.h"
#include "tenon/proto/message.h"

#include <string>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

Reply answer(const Services& s, const EndAnswer& end) {
  switch (end.result) {
    case EndResult::kDone:
      return {};
    case EndResult::kNotFound:
      return Reply::error(Code::kSystemError, std::string(remark::kHalfNotFound));
    case EndResult::kGroupWrong:
      return Reply::error(Code::kSystemError, std::string(remark::kHalfGroupWrong));
    case EndResult::kTableOffsetWrong:
      return Reply::error(Code::kSystemError, std::string(remark::kHalfTableOffsetWrong));
    case EndResult::kLogOffsetWrong:
      return Reply::error(Code::kSystemError, std::string(remark::kHalfLogOffsetWrong));
    case EndResult::kPutFailed:
      break;
  }
  PutFailure failure = put_failure(end.status, s);
  return Reply::error(failure.code, std::move(failure.remark));
}

Reply end_transaction(const Services& s, const Request& request) {
  const proto::CommandView& c = request.command;
  EndTransaction end;
  const auto parse = [&]() -> Result<std::int32_t> {
    TENON_TRY(end.group, need_text(c, "producerGroup"));
    TENON_TRY(end.table_offset, need_long(c, "tranStateTableOffset"));
    TENON_TRY(end.log_offset, need_long(c, "commitLogOffset"));
    TENON_TRY(const auto state, need_int(c, "commitOrRollback"));
    TENON_TRY(const auto id, need_text(c, "msgId"));
    static_cast<void>(id);
    return state;
  };
  const auto state = parse();
  if (state.has_error()) {
    return system_error(state.error());
  }
  const bool known = state.value() == 0 || state.value() == proto::sys_flag::kTransactionCommit ||
                     state.value() == proto::sys_flag::kTransactionRollback;
  if (!known) {
    return Reply::error(Code::kSystemError, std::string(remark::kTransactionStateWrong));
  }
  if (s.config.id != 0) {
    return Reply::error(Code::kSlaveNotAvailable, std::string(remark::kTransactionOnSlave));
  }
  if (state.value() == 0) {
    // Trap: "unknown" gets no answer at all; the check asks again (broker §13.2).
    return Reply::nothing();
  }
  end.commit = state.value() == proto::sys_flag::kTransactionCommit;
  const EndAnswer done = s.txn.end(end);
  if (done.result != EndResult::kDone) {
    log_debug("broker",
              "decision about a transaction refused group={} half_offset={} phys={} result={}",
              end.group,
              end.table_offset,
              end.log_offset,
              static_cast<int>(done.result));
  }
  Reply reply = answer(s, done);
  if (done.result == EndResult::kDone && !end.commit) {
    reply.remark = remark::kNotSet;  // remoting §1.8
  }
  return reply;
}

Reply resume_check(const Services& s, const Request& request) {
  const auto text = need_text(request.command, "msgId");
  if (text.has_error()) {
    return system_error(text.error());
  }
  const auto id = proto::parse_offset_message_id(text.value());
  if (id.has_error()) {
    return system_error(id.error());
  }
  if (!s.txn.resume(id.value().phys_offset)) {
    return Reply::error(Code::kSystemError, std::string(remark::kResumeFailed));
  }
  return {};
}

}  // namespace

void add_transaction_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kEndTransaction] = {Run::kTransaction,
                               [&s](const Request& r) { return end_transaction(s, r); }};
  table[C::kResumeCheckHalfMessage] = {Run::kAdmin,
                                       [&s](const Request& r) { return resume_check(s, r); }};
}

}  // namespace tenon::broker
