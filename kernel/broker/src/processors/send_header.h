// The header of a send, long names (10) or one-letter names (310, 320), and what the properties
// mean to the broker (spec: remoting §6.1, broker §5.3).
#pragma once

#include "timer/timer_rules.h"
#include "util/arena.h"

#include "tenon/base/result.h"
#include "tenon/proto/command.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::broker {

struct SendHeader {
  std::string_view group{};
  std::string_view topic{};
  std::string_view default_topic{};
  std::string_view properties{};
  std::int32_t default_queue_count = 0;
  std::int32_t queue_id = 0;
  std::int32_t sys_flag = 0;
  std::int32_t flag = 0;
  std::int32_t reconsume_times = 0;
  std::int64_t born_ms = 0;
  std::optional<std::int32_t> max_reconsume_times{};
  bool unit_mode = false;
  bool batch = false;
};
/// @return kInvalid with the remark. Does not allocate on success.
Result<> parse_send_header(const proto::CommandView& command, SendHeader& out);

/// Properties that change what happens to a message. All views into the text.
struct SendProperties {
  std::string_view tags{};
  std::string_view keys{};
  std::string_view uniq_key{};
  std::string_view delay{};
  std::string_view wait{};
  TimerWish timer{};
  bool transaction = false;

  std::int32_t delay_level = 0;
  bool delay_illegal = false;  ///< not a number
  bool wait_stored() const noexcept;
};
SendProperties scan_properties(std::string_view text) noexcept;

/// What is written instead of or in addition to the client's properties.
struct PropertyChanges {
  std::string_view cluster{};     ///< CLUSTER
  std::string_view real_topic{};  ///< REAL_TOPIC, with real_queue_id
  std::int32_t real_queue_id = 0;
  std::int64_t timer_out_ms = 0;  ///< TIMER_OUT_MS; 0 = none
  bool drop_timer = false;        ///< a delay level wins over the wishes for a time
  bool dead_letter = false;       ///< DELAY becomes -1: a dead letter is not delayed
  bool half = false;              ///< drops DELAY and what only the broker may write
};
/// The stored text: the client's without malformed items and, unless it has a real topic, without
/// WAIT; plus the changes. In the arena.
std::string_view rewrite_properties(std::string_view text,
                                    const PropertyChanges& changes,
                                    Arena& arena);

}  // namespace tenon::broker
