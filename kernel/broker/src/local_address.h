// Which address to tell clients when nobody says it.
#pragma once

#include "services.h"

#include "tenon/base/result.h"
#include "tenon/broker/config.h"

#include <cstdint>
#include <string>

namespace tenon::broker {

/// First IPv4 address of an interface that is up and not loopback; 127.0.0.1 if there is none.
std::string first_local_ipv4();
/// The machine's name, made usable as a topic name.
std::string host_name();
/// @return kInvalid if broker_ip1 is no address
Result<Advertised> advertise(const BrokerConfig& config, std::uint16_t port);

}  // namespace tenon::broker
