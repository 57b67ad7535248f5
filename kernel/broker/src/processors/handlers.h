// The table of request codes: where a request runs and who answers it. One file per family adds its
// codes.
#pragma once

#include "processors/request.h"
#include "services.h"

#include <cstdint>
#include <functional>
#include <unordered_map>

namespace tenon::broker {

/// kInline: never blocks, on the I/O thread. kQuery: may read the disk. kAdmin: may write files.
/// kTransaction: may read the disk and appends.
enum class Run : std::uint8_t { kInline, kQuery, kAdmin, kTransaction };

/// The request's views live during the call. Thread: as `run` says.
using Handler = std::function<Reply(const Request&)>;
struct HandlerEntry {
  Run run = Run::kInline;
  Handler handler{};
};
using Handlers = std::unordered_map<std::int32_t, HandlerEntry>;

// Services must outlive the table.
void add_client_handlers(Handlers& table, const Services& s);           ///< 34 35 38 46
void add_lock_handlers(Handlers& table, const Services& s);             ///< 41 42
void add_consumer_offset_handlers(Handlers& table, const Services& s);  ///< 14 15 43
void add_queue_offset_handlers(Handlers& table, const Services& s);     ///< 29 30 31 32
void add_query_handlers(Handlers& table, const Services& s);            ///< 12 33
void add_send_back_handlers(Handlers& table, const Services& s);        ///< 36
void add_transaction_handlers(Handlers& table, const Services& s);      ///< 37 323
void add_recall_handlers(Handlers& table, const Services& s);           ///< 370
void add_topic_handlers(Handlers& table, const Services& s);            ///< 17 18 21 215 305 351
void add_group_handlers(Handlers& table, const Services& s);   ///< 200 201 207 225 343 345 352
void add_stats_handlers(Handlers& table, const Services& s);   ///< 202 203 204 208 300 315 317
void add_info_handlers(Handlers& table, const Services& s);    ///< 28 45
void add_config_handlers(Handlers& table, const Services& s);  ///< 25 26
void add_consumer_relay_handlers(Handlers& table, const Services& s);  ///< 223 307 309
void add_group_offset_handlers(Handlers& table, const Services& s);    ///< 222 303 308 314
void add_queue_admin_handlers(Handlers& table, const Services& s);     ///< 306 316 321 329

/// The topic %RETRY%group of a heartbeat or a send-back, created if absent (not persisted).
TopicPtr ensure_retry_topic(const Services& s,
                            const proto::SubscriptionGroupConfig& group,
                            bool unit_mode);

}  // namespace tenon::broker
