// tenon.allocator.machine-room-nearby: members consume the queues of their own room; a room without
// members is shared by all (spec: client §5.7, MACHINE_ROOM_NEARBY). Java asks a class of the
// application which room a broker or a member belongs to; here the configuration says it.
#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

using tenon::plugin::Config;
using tenon::plugin::text;

struct Room {
  std::string name;
  std::vector<std::string> brokers;  ///< prefixes of broker names
  std::vector<std::string> clients;  ///< prefixes of client ids, which begin with the IP address
};

std::vector<std::string> strings(const Config& table, std::string_view key) {
  std::vector<std::string> out;
  const auto list = table.array(key);
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    out.push_back(list->at(i).require<std::string>(""));
  }
  return out;
}

/// The room with the longest matching prefix; nullptr if none matches.
const Room* room_of(const std::vector<Room>& rooms,
                    std::vector<std::string> Room::*prefixes,
                    std::string_view name) {
  const Room* best = nullptr;
  std::size_t best_bytes = 0;
  for (const Room& room : rooms) {
    for (const std::string& prefix : room.*prefixes) {
      if (name.starts_with(prefix) && (best == nullptr || prefix.size() > best_bytes)) {
        best = &room;
        best_bytes = prefix.size();
      }
    }
  }
  return best;
}

/// Both inner strategies are one class each, because a strategy's wire name is constant.
template <bool kCircle>
struct Nearby {
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName =
      kCircle ? "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE" : "MACHINE_ROOM_NEARBY-AVG";
  static constexpr tenon_config_key kKeys[] = {tenon::plugin::key(
      "rooms",
      TENON_TYPE_ARRAY,
      "",
      "tables { name = \"r1\", brokers = [\"broker-a\"], clients = [\"10.1.\"] } of prefixes",
      TENON_KEY_REQUIRED)};

  explicit Nearby(tenon::plugin::Host& host) {
    const auto list = host.config().array("rooms");
    if (!list) {
      host.config().reject("rooms", "is required");
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Config one = list->at(i);
      rooms.push_back(
          {one.require<std::string>("name"), strings(one, "brokers"), strings(one, "clients")});
    }
  }

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(
        in, out, cap, n, err, [&](tenon::allocator::Indexes& to) { share(in, to); });
  }

  void share(const tenon_allocate* in, tenon::allocator::Indexes& to) const {
    std::map<std::string_view, std::vector<std::uint32_t>> queues_of, members_of;
    std::string_view own;
    const auto queues = tenon::allocator::queues(in);
    for (std::uint32_t k = 0; k < queues.size(); ++k) {
      queues_of[room(&Room::brokers, text(queues[k].broker), "broker")].push_back(k);
    }
    const auto clients = tenon::allocator::clients(in);
    for (std::uint32_t i = 0; i < clients.size(); ++i) {
      const std::string_view name = room(&Room::clients, text(clients[i]), "client");
      own = i == in->self_index ? name : own;
      members_of[name].push_back(i);
    }
    if (const auto mine = queues_of.find(own); mine != queues_of.end()) {
      const auto& members = members_of[own];
      std::size_t self = 0;
      while (members[self] != in->self_index) {
        ++self;
      }
      inner(mine->second, members.size(), self, to);
    }
    for (const auto& [name, list] : queues_of) {
      if (!members_of.contains(name)) {
        inner(list, in->client_count, in->self_index, to);
      }
    }
  }

  /// An unknown room is an error, as in Java: the topic keeps its owners.
  std::string_view room(std::vector<std::string> Room::*prefixes,
                        std::string_view name,
                        const char* what) const {
    if (const Room* found = room_of(rooms, prefixes, name)) {
      return found->name;
    }
    throw tenon::plugin::Failure(TENON_INVALID,
                                 std::string("no room for ") + what + " " + std::string(name));
  }

  static void inner(const std::vector<std::uint32_t>& list,
                    std::size_t members,
                    std::size_t self,
                    tenon::allocator::Indexes& to) {
    const auto n = static_cast<std::int64_t>(list.size());
    const auto c = static_cast<std::int64_t>(members);
    const auto i = static_cast<std::int64_t>(self);
    const auto take = [&](std::uint32_t k) { to.add(list[k]); };
    if constexpr (kCircle) {
      tenon::allocator::circle(n, c, i, take);
    } else {
      tenon::allocator::averagely(n, c, i, take);
    }
  }

  std::vector<Room> rooms;
};

struct NearbyAveragely : Nearby<false> {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.allocator.machine-room-nearby",
      .version = "1.0.0",
      .name = "MACHINE_ROOM_NEARBY-AVG",
      .vendor = "Tenon",
      .doc = "queues of the own room in consecutive shares, rooms without members shared by all"};
  using Nearby::Nearby;
};

struct NearbyCircle : Nearby<true> {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.allocator.machine-room-nearby-circle",
      .version = "1.0.0",
      .name = "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE",
      .vendor = "Tenon",
      .doc = "queues of the own room dealt out one by one, rooms without members shared by all"};
  using Nearby::Nearby;
};

}  // namespace

TENON_PLUGINS(NearbyAveragely, NearbyCircle);
