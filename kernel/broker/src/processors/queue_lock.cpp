// LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42 (spec: broker §10.4, remoting §6.9).
#include "processors/handlers.h"

#include "tenon/base/endian.h"

namespace tenon::broker {

void add_lock_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kLockBatchMq] = {
      Run::kInline, [&s](const Request& r) {
        auto wanted = proto::decode_lock_request(as_text(r.command.body));
        if (wanted.has_error()) {
          return system_error(wanted.error());
        }
        const auto online = [&s](std::string_view group, std::string_view id) {
          return s.consumers.channel(group, id).has_value();
        };
        return Reply::with_body(
            proto::encode_lock_answer(s.locks.lock(wanted.value(), s.clock.wall_ms(), online)));
      }};
  table[C::kUnlockBatchMq] = {Run::kInline, [&s](const Request& r) {
                                auto given = proto::decode_lock_request(as_text(r.command.body));
                                if (given.has_error()) {
                                  return system_error(given.error());
                                }
                                s.locks.unlock(given.value());
                                return Reply{};
                              }};
}

}  // namespace tenon::broker
