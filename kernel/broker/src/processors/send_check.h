// Checks 1 to 6 of a send, shared by sends and replies (spec: broker §5.1).
#pragma once

#include "meta/topics.h"
#include "processors/send_header.h"
#include "services.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon::broker {

struct Refusal {
  std::int32_t code = 0;
  std::string remark{};
};

/// Checks 1 to 4, in Java's order. @param topic  null if there is none of that name. Thread: any.
/// Does not allocate unless it refuses.
std::optional<Refusal> check_send(const Services& s, const SendHeader& header, const Topic* topic);
/// Check 6. @param peer  of the producer, for the remark
std::optional<Refusal> check_queue(const Topic& topic,
                                   std::int32_t queue_id,
                                   const proto::HostAddr& peer);
/// The answer of check 5.
Refusal topic_not_exist(std::string_view topic);

}  // namespace tenon::broker
