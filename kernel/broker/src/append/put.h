// Messages that the broker itself writes: delayed deliveries, retries, events.
#pragma once

#include "append/log.h"
#include "meta/topics.h"

#include "tenon/proto/message.h"

#include <string_view>

namespace tenon::broker {

/// The record to append; views into `m`. Tags code, keys and unique key come from its properties.
/// @param queue  0 = by topic and queue id
tenon_record to_record(std::string_view topic, tenon_queue queue, const proto::MessageRecord& m);

/// Appends one message to a topic in the table; tags code, keys and unique key come from its properties. Offsets and store
/// time of `m` are ignored. Thread: any; blocks while others append.
tenon_append_result put_message(Log& log, const Topic& topic, const proto::MessageRecord& m);
/// The same by m.topic, which need not be in the table.
tenon_append_result put_message(Log& log, const proto::MessageRecord& m);

}  // namespace tenon::broker
