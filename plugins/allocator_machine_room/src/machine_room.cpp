// tenon.allocator.machine-room: only queues of the named rooms are consumed; the room of a queue is
// the part of its broker's name before '@' (spec: client §5.7, MACHINE_ROOM).
#include "tenon/allocator_rules/rules.h"
#include "tenon/plugin.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

using tenon::plugin::text;

/// The room of "room@name"; no room if the name has another number of parts. Trap: Java's split
/// drops empty parts at the end, so "room@name@" has two parts and "room@" has one.
std::string_view room_of(std::string_view broker) {
  while (broker.ends_with('@')) {
    broker.remove_suffix(1);
  }
  const std::size_t at = broker.find('@');
  return at == std::string_view::npos || broker.find('@', at + 1) != std::string_view::npos
             ? std::string_view{}
             : broker.substr(0, at);
}

struct MachineRoom {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.allocator.machine-room",
                                               .version = "1.0.0",
                                               .name = "MACHINE_ROOM",
                                               .vendor = "Tenon",
                                               .doc = "queues of the named rooms in equal shares"};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("rooms",
                         TENON_TYPE_ARRAY,
                         "",
                         "names of rooms: the part of the broker name before '@'",
                         TENON_KEY_REQUIRED)};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueAllocator>;
  static constexpr const char* kWireName = "MACHINE_ROOM";

  explicit MachineRoom(tenon::plugin::Host& host) {
    const auto list = host.config().array("rooms");
    if (!list) {
      host.config().reject("rooms", "is required");
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      rooms.push_back(list->at(i).require<std::string>(""));
    }
  }

  tenon_status allocate(const tenon_allocate* in,
                        std::uint32_t* out,
                        std::size_t cap,
                        std::size_t* n,
                        tenon_error* err) {
    return tenon::allocator::allocate(in, out, cap, n, err, [&](tenon::allocator::Indexes& to) {
      std::vector<std::uint32_t> in_rooms;
      const auto queues = tenon::allocator::queues(in);
      for (std::uint32_t k = 0; k < queues.size(); ++k) {
        const std::string_view broker = text(queues[k].broker);
        if (has_room(broker)) {
          in_rooms.push_back(k);
        }
      }
      const std::size_t share = in_rooms.size() / in->client_count;
      const std::size_t rest = in_rooms.size() % in->client_count;
      for (std::size_t k = share * in->self_index; k < share * (in->self_index + 1u); ++k) {
        to.add(in_rooms[k]);
      }
      if (in->self_index < rest) {
        to.add(in_rooms[in->self_index + share * in->client_count]);
      }
    });
  }

  bool has_room(std::string_view broker) const {
    const std::string_view room = room_of(broker);
    return room.data() != nullptr && std::find(rooms.begin(), rooms.end(), room) != rooms.end();
  }

  std::vector<std::string> rooms;
};

}  // namespace

TENON_PLUGINS(MachineRoom);
