// C interface: administration.
#include "c/c_message.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

struct tenon_admin {
  tenon::sdk::Admin admin;
};

namespace tenon::sdk::c {
namespace {

using Time = std::chrono::system_clock::time_point;

constexpr int kReadAndWrite = 6;

Time time_of(std::int64_t ms) noexcept {
  return Time(std::chrono::milliseconds(ms));
}

/// The result of an operation that gives nothing.
std::int32_t done(const Result<void>& r) noexcept {
  return r ? 0 : failed(r.error());
}

template <class T>
std::int32_t give_number(const Result<T>& r, std::int64_t* out) noexcept {
  if (!r) {
    return failed(r.error());
  }
  *out = *r;
  return 0;
}

/// Calls `tell` for every element.
template <class T, class F>
std::int32_t give_all(const Result<std::vector<T>>& r, F&& tell) {
  if (!r) {
    return failed(r.error());
  }
  for (const T& one : *r) {
    tell(one);
  }
  return 0;
}

void tell_broker(const BrokerInfo& broker, tenon_broker_fn each, void* arg) {
  for (const auto& [id, address] : broker.addresses) {
    tenon_broker_info out{};
    out.size = sizeof out;
    out.cluster = broker.cluster.c_str();
    out.broker = broker.name.c_str();
    out.address = address.c_str();
    out.id = id;
    each(arg, &out);
  }
}

tenon_group_settings shown_settings(const GroupSettings& s) noexcept {
  tenon_group_settings out{};
  out.size = sizeof out;
  out.name = s.name.c_str();
  out.no_consume = s.consume ? 0 : 1;
  out.no_broadcast = s.broadcast ? 0 : 1;
  out.retry_queues = s.retry_queues == 0 ? -1 : s.retry_queues;
  out.retry_max = s.retry_max == 0 ? -1 : s.retry_max;
  out.no_notify = s.notify_members ? 0 : 1;
  return out;
}

GroupSettings settings_of(const tenon_group_settings& in) {
  GroupSettings out;
  out.name = text(in.name);
  out.consume = in.no_consume == 0;
  out.broadcast = in.no_broadcast == 0;
  set(out.retry_queues, in.retry_queues);
  set(out.retry_max, in.retry_max);
  out.retry_queues = std::max(out.retry_queues, 0);
  out.retry_max = std::max(out.retry_max, 0);
  out.notify_members = in.no_notify == 0;
  return out;
}

void tell_subscriptions(const tenon_group_visitor& to,
                        const tenon_group_member* member,
                        const std::vector<SubscriptionInfo>& list) {
  if (to.subscription == nullptr) {
    return;
  }
  for (const SubscriptionInfo& s : list) {
    tenon_subscription out{};
    out.topic = s.topic.c_str();
    out.expression = s.expression.c_str();
    out.sql = s.kind == "TAG" ? 0 : 1;
    to.subscription(to.arg, member, &out);
  }
}

void tell_group(const GroupInfo& group, const tenon_group_visitor& to) {
  tenon_group_info info{};
  info.size = sizeof info;
  info.mode = group.mode.c_str();
  info.kind = group.kind.c_str();
  info.online = group.online ? 1 : 0;
  info.mismatch = group.mismatch ? 1 : 0;
  if (to.group != nullptr) {
    to.group(to.arg, &info);
  }
  tell_subscriptions(to, nullptr, group.subscriptions);
  for (const MemberInfo& m : group.members) {
    tenon_group_member member{};
    member.size = sizeof member;
    member.client_id = m.client_id.c_str();
    member.address = m.address.c_str();
    member.language = m.language.c_str();
    member.version = m.version;
    member.known = m.known ? 1 : 0;
    if (to.member != nullptr) {
      to.member(to.arg, &member);
    }
    tell_subscriptions(to, &member, m.subscriptions);
  }
}

}  // namespace

/// Runs one operation; arguments that may not be NULL are named `required`.
template <class F>
std::int32_t administer(tenon_admin* admin, bool required, F&& f) noexcept {
  return guarded([&]() -> std::int32_t {
    if (admin == nullptr || !required) {
      return failed(Errc::kInvalidArgument, "tenon_admin: an argument is NULL");
    }
    return f(admin->admin);
  });
}

}  // namespace tenon::sdk::c

using namespace tenon::sdk;

int32_t tenon_admin_open(tenon_client* client, tenon_admin** out) noexcept {
  return c::guarded([&] {
    if (client == nullptr || out == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_admin_open: client or out is NULL");
    }
    auto admin = Admin::open(client->client);
    if (!admin) {
      return c::failed(admin.error());
    }
    *out = new tenon_admin{std::move(*admin)};
    return 0;
  });
}
void tenon_admin_destroy(tenon_admin* admin) noexcept {
  delete admin;
}

int32_t tenon_admin_create_topic(tenon_admin* admin,
                                 const char* cluster,
                                 const char* topic,
                                 int32_t queues,
                                 int32_t permission) noexcept {
  return c::administer(admin, cluster != nullptr && topic != nullptr, [&](Admin& a) {
    return c::done(
        a.create_topic(cluster, topic, queues, permission == 0 ? c::kReadAndWrite : permission));
  });
}
int32_t tenon_admin_delete_topic(tenon_admin* admin,
                                 const char* cluster,
                                 const char* topic) noexcept {
  return c::administer(admin, cluster != nullptr && topic != nullptr, [&](Admin& a) {
    return c::done(a.delete_topic(cluster, topic));
  });
}
int32_t tenon_admin_topics(tenon_admin* admin, tenon_text_fn each, void* arg) noexcept {
  return c::administer(admin, each != nullptr, [&](Admin& a) {
    return c::give_all(a.topics(), [&](const std::string& t) { each(arg, t.c_str()); });
  });
}
int32_t tenon_admin_route(tenon_admin* admin,
                          const char* topic,
                          tenon_queue_info_fn each_queue,
                          tenon_broker_fn each_broker,
                          void* arg) noexcept {
  return c::administer(admin, topic != nullptr, [&](Admin& a) {
    const auto route = a.route(topic);
    if (!route) {
      return c::failed(route.error());
    }
    if (each_queue != nullptr) {
      for (const QueueInfo& q : route->queues) {
        tenon_queue_info out{};
        out.size = sizeof out;
        out.broker = q.broker.c_str();
        out.read_queues = q.read_queues;
        out.write_queues = q.write_queues;
        out.permission = q.permission;
        each_queue(arg, &out);
      }
    }
    if (each_broker != nullptr) {
      for (const BrokerInfo& b : route->brokers) {
        c::tell_broker(b, each_broker, arg);
      }
    }
    return 0;
  });
}
int32_t tenon_admin_brokers(tenon_admin* admin, tenon_broker_fn each, void* arg) noexcept {
  return c::administer(admin, each != nullptr, [&](Admin& a) {
    return c::give_all(a.brokers(), [&](const BrokerInfo& b) { c::tell_broker(b, each, arg); });
  });
}

int32_t tenon_admin_min_offset(tenon_admin* admin,
                               const tenon_message_queue* queue,
                               int64_t* out) noexcept {
  return c::administer(admin, queue != nullptr && out != nullptr, [&](Admin& a) {
    return c::give_number(a.min_offset(c::queue_of(*queue)), out);
  });
}
int32_t tenon_admin_max_offset(tenon_admin* admin,
                               const tenon_message_queue* queue,
                               int64_t* out) noexcept {
  return c::administer(admin, queue != nullptr && out != nullptr, [&](Admin& a) {
    return c::give_number(a.max_offset(c::queue_of(*queue)), out);
  });
}
int32_t tenon_admin_offset_at(tenon_admin* admin,
                              const tenon_message_queue* queue,
                              int64_t when_ms,
                              int64_t* out) noexcept {
  return c::administer(admin, queue != nullptr && out != nullptr, [&](Admin& a) {
    return c::give_number(a.offset_at(c::queue_of(*queue), c::time_of(when_ms)), out);
  });
}
int32_t tenon_admin_committed_offset(tenon_admin* admin,
                                     const char* group,
                                     const tenon_message_queue* queue,
                                     int64_t* out) noexcept {
  return c::administer(
      admin, group != nullptr && queue != nullptr && out != nullptr, [&](Admin& a) {
        return c::give_number(a.committed_offset(group, c::queue_of(*queue)), out);
      });
}
int32_t tenon_admin_reset_offset(tenon_admin* admin,
                                 const char* group,
                                 const char* topic,
                                 int64_t when_ms,
                                 tenon_offset_fn each,
                                 void* arg) noexcept {
  return c::administer(admin, group != nullptr && topic != nullptr, [&](Admin& a) {
    const auto offsets =
        a.reset_offset(group, topic, when_ms < 0 ? c::Time::max() : c::time_of(when_ms));
    if (!offsets) {
      return c::failed(offsets.error());
    }
    if (each != nullptr) {
      for (const auto& [queue, offset] : *offsets) {
        const tenon_message_queue view = c::shown(queue);
        each(arg, &view, offset);
      }
    }
    return 0;
  });
}
int32_t tenon_admin_progress(tenon_admin* admin,
                             const char* group,
                             tenon_progress_fn each,
                             void* arg) noexcept {
  return c::administer(admin, group != nullptr && each != nullptr, [&](Admin& a) {
    return c::give_all(a.progress(group), [&](const QueueProgress& p) {
      tenon_queue_progress out{};
      out.size = sizeof out;
      out.queue = c::shown(p.queue);
      out.broker_offset = p.broker_offset;
      out.consumer_offset = p.consumer_offset;
      out.last_ms = p.last_ms;
      each(arg, &out);
    });
  });
}

int32_t tenon_admin_message_by_id(tenon_admin* admin,
                                  const char* id,
                                  const char* topic,
                                  tenon_delivery** out) noexcept {
  return c::administer(admin, id != nullptr && out != nullptr, [&](Admin& a) {
    auto found = a.message_by_id(id, c::text(topic));
    if (!found) {
      return c::failed(found.error());
    }
    *out = tenon_delivery_copy(c::delivery(*found));
    return *out == nullptr ? c::failed(Errc::kInternal, "no memory") : 0;
  });
}
int32_t tenon_admin_messages_by_key(tenon_admin* admin,
                                    const char* topic,
                                    const char* key,
                                    int32_t max,
                                    int64_t begin_ms,
                                    int64_t end_ms,
                                    tenon_delivery_fn each,
                                    void* arg) noexcept {
  return c::administer(admin, topic != nullptr && key != nullptr && each != nullptr, [&](Admin& a) {
    constexpr int kMaxDefault = 32;
    return c::give_all(a.messages_by_key(topic,
                                         key,
                                         max > 0 ? max : kMaxDefault,
                                         c::time_of(begin_ms),
                                         end_ms == 0 ? c::Time::max() : c::time_of(end_ms)),
                       [&](const MessageView& m) { each(arg, c::delivery(m)); });
  });
}

int32_t tenon_admin_groups(tenon_admin* admin,
                           const char* cluster,
                           tenon_group_settings_fn each,
                           void* arg) noexcept {
  return c::administer(admin, cluster != nullptr && each != nullptr, [&](Admin& a) {
    return c::give_all(a.groups(cluster), [&](const GroupSettings& s) {
      const tenon_group_settings view = c::shown_settings(s);
      each(arg, &view);
    });
  });
}
int32_t tenon_admin_set_group(tenon_admin* admin,
                              const char* cluster,
                              const tenon_group_settings* settings) noexcept {
  return c::administer(admin, cluster != nullptr && settings != nullptr, [&](Admin& a) {
    tenon_group_settings in;
    if (!c::adopt(settings, in)) {
      return c::failed(Errc::kInvalidArgument, "settings.size is wrong");
    }
    return c::done(a.set_group(cluster, c::settings_of(in)));
  });
}
int32_t tenon_admin_delete_group(tenon_admin* admin,
                                 const char* cluster,
                                 const char* group,
                                 int32_t with_offsets) noexcept {
  return c::administer(admin, cluster != nullptr && group != nullptr, [&](Admin& a) {
    return c::done(a.delete_group(cluster, group, with_offsets != 0));
  });
}
int32_t tenon_admin_group(tenon_admin* admin,
                          const char* group,
                          const tenon_group_visitor* visitor) noexcept {
  return c::administer(admin, group != nullptr && visitor != nullptr, [&](Admin& a) {
    tenon_group_visitor to;
    if (!c::adopt(visitor, to)) {
      return c::failed(Errc::kInvalidArgument, "visitor.size is wrong");
    }
    const auto found = a.group(group);
    if (!found) {
      return c::failed(found.error());
    }
    c::tell_group(*found, to);
    return 0;
  });
}
int32_t tenon_admin_group_members(tenon_admin* admin,
                                  const char* group,
                                  tenon_text_fn each,
                                  void* arg) noexcept {
  return c::administer(admin, group != nullptr && each != nullptr, [&](Admin& a) {
    return c::give_all(a.group_members(group),
                       [&](const std::string& id) { each(arg, id.c_str()); });
  });
}
