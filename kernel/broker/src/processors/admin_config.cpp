// Settings at run time: UPDATE_BROKER_CONFIG 25 and GET_BROKER_CONFIG 26 (spec: broker §2.7,
// remoting §7.3).
#include "live_config.h"
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/endian.h"

namespace tenon::broker {
namespace {

Reply get_config(const Services& s) {
  Reply reply = Reply::with_body(s.live.text());
  reply.field("version", proto::encode(s.live.version()));
  return reply;
}

Reply update_config(const Services& s, const Request& request) {
  if (request.command.body.empty()) {
    return {};
  }
  const auto updated = s.live.update(as_text(request.command.body));
  if (updated.has_error()) {
    return system_error(updated.error());
  }
  if (updated.value().blacklisted) {
    return Reply::error(proto::ResponseCode::kNoPermission, std::string(remark::kBlackListed));
  }
  if (updated.value().permission_changed) {
    s.topics.permission_changed();
  }
  return {};
}

}  // namespace

void add_config_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kGetBrokerConfig] = {Run::kAdmin, [&s](const Request&) { return get_config(s); }};
  table[C::kUpdateBrokerConfig] = {Run::kAdmin,
                                   [&s](const Request& r) { return update_config(s, r); }};
}

}  // namespace tenon::broker
