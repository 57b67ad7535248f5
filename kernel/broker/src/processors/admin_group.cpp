// Administration of consumer groups: 200, 201, 207, 352 (spec: broker §15.3, remoting §7.2).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

Reply update_group(const Services& s, const Request& request) {
  auto group = proto::decode_subscription_group(as_text(request.command.body));
  if (group.has_error()) {
    return system_error(group.error());
  }
  if (group.value().name.empty()) {
    return Reply::error(Code::kSystemError, "the group has no name");
  }
  if (auto written = s.groups.update(std::move(group).value()); written.has_error()) {
    return system_error(written.error());
  }
  return {};
}

Reply delete_group(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "groupName");
  if (name.has_error()) {
    return system_error(name.error());
  }
  if (auto removed = s.groups.remove(name.value()); removed.has_error()) {
    return system_error(removed.error());
  }
  // 4.9 and 5.x call it differently.
  if (request.command.field_bool("removeOffset").value_or(false) ||
      request.command.field_bool("cleanOffset").value_or(false)) {
    s.offsets.remove_group(name.value());
  }
  return {};
}

Reply get_group(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "group");
  if (name.has_error()) {
    return system_error(name.error());
  }
  const GroupPtr group = s.groups.find_or_create(name.value());
  if (group == nullptr) {
    return Reply::error(Code::kSubscriptionGroupNotExist,
                        fmt::format(remark::kGroupNotExist, name.value()));
  }
  return Reply::with_body(proto::encode(*group));
}

}  // namespace

void add_group_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kUpdateAndCreateSubscriptiongroup] = {
      Run::kAdmin, [&s](const Request& r) { return update_group(s, r); }};
  table[C::kGetAllSubscriptiongroupConfig] = {
      Run::kAdmin,
      [&s](const Request&) { return Reply::with_body(proto::encode(s.groups.table())); }};
  table[C::kDeleteSubscriptiongroup] = {Run::kAdmin,
                                        [&s](const Request& r) { return delete_group(s, r); }};
  table[C::kGetSubscriptiongroupConfig] = {Run::kAdmin,
                                           [&s](const Request& r) { return get_group(s, r); }};
}

}  // namespace tenon::broker
