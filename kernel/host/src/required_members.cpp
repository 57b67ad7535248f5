#include "required_members.h"

#include "tenon/abi/plugin.h"
#include "tenon/draft/entry_log.h"
#include "tenon/draft/event_sink.h"
#include "tenon/draft/interceptor.h"
#include "tenon/draft/service.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

namespace tenon::host {
namespace {

struct Member {
  const char* name;
  std::size_t offset;
};

struct KnownInterface {
  std::string_view iid;
  std::span<const Member> required;
};

#define TENON_MEMBER(type, member)  \
  Member {                          \
#member, offsetof(type, member) \
  }

constexpr Member kStorage[] = {TENON_MEMBER(tenon_storage, recover),
                               TENON_MEMBER(tenon_storage, append),
                               TENON_MEMBER(tenon_storage, open_queue),
                               TENON_MEMBER(tenon_storage, queue_bounds),
                               TENON_MEMBER(tenon_storage, index_read),
                               TENON_MEMBER(tenon_storage, fetch),
                               TENON_MEMBER(tenon_storage, message_at),
                               TENON_MEMBER(tenon_storage, read_log),
                               TENON_MEMBER(tenon_storage, log_bounds),
                               TENON_MEMBER(tenon_storage, request_flush),
                               TENON_MEMBER(tenon_storage, retention),
                               TENON_MEMBER(tenon_storage, stats)};
constexpr Member kReplication[] = {TENON_MEMBER(tenon_replication, bind),
                                   TENON_MEMBER(tenon_replication, recovered),
                                   TENON_MEMBER(tenon_replication, set_role),
                                   TENON_MEMBER(tenon_replication, notify),
                                   TENON_MEMBER(tenon_replication, ready),
                                   TENON_MEMBER(tenon_replication, peers)};
constexpr Member kSelector[] = {TENON_MEMBER(tenon_selector, select)};
constexpr Member kAllocator[] = {TENON_MEMBER(tenon_allocator, wire_name),
                                 TENON_MEMBER(tenon_allocator, allocate)};
constexpr Member kFilter[] = {TENON_MEMBER(tenon_filter, types),
                              TENON_MEMBER(tenon_filter, compile),
                              TENON_MEMBER(tenon_filter, release),
                              TENON_MEMBER(tenon_filter, match_index),
                              TENON_MEMBER(tenon_filter, match_properties)};
constexpr Member kTxnCheck[] = {TENON_MEMBER(tenon_txn_check, next_round),
                                TENON_MEMBER(tenon_txn_check, decide),
                                TENON_MEMBER(tenon_txn_check, exhausted)};
constexpr Member kInterceptor[] = {TENON_MEMBER(tenon_interceptor, interests)};
constexpr Member kEventSink[] = {TENON_MEMBER(tenon_event_sink, events)};
constexpr Member kService[] = {TENON_MEMBER(tenon_service, listen),
                               TENON_MEMBER(tenon_service, stop_accepting)};
constexpr Member kEntryLog[] = {TENON_MEMBER(tenon_entry_log, bounds),
                                TENON_MEMBER(tenon_entry_log, append),
                                TENON_MEMBER(tenon_entry_log, entry_at),
                                TENON_MEMBER(tenon_entry_log, commit)};

#undef TENON_MEMBER

constexpr KnownInterface kKnown[] = {{TENON_STORAGE_IID, kStorage},
                                     {TENON_REPLICATION_IID, kReplication},
                                     {TENON_QUEUE_SELECTOR_IID, kSelector},
                                     {TENON_QUEUE_ALLOCATOR_IID, kAllocator},
                                     {TENON_FILTER_IID, kFilter},
                                     {TENON_TXN_CHECK_IID, kTxnCheck},
                                     {TENON_INTERCEPTOR_IID, kInterceptor},
                                     {TENON_EVENT_SINK_IID, kEventSink},
                                     {TENON_SERVICE_IID, kService},
                                     {TENON_ENTRY_LOG_IID, kEntryLog}};

const KnownInterface* find(std::string_view iid) {
  for (const KnownInterface& k : kKnown) {
    if (k.iid == iid) {
      return &k;
    }
  }
  return nullptr;
}

}  // namespace

bool knows_interface(std::string_view iid) {
  return find(iid) != nullptr;
}

Result<> check_required_members(std::string_view iid, const void* table, std::size_t table_bytes) {
  const KnownInterface* known = find(iid);
  if (known == nullptr) {
    return ok();
  }
  for (const Member& m : known->required) {
    if (m.offset + sizeof(void*) > table_bytes) {
      return Error{Errc::kInvalid,
                   fmt::format("{}: table of {} bytes is too short for the required member {}",
                               iid,
                               table_bytes,
                               m.name)};
    }
    const void* value = nullptr;
    std::memcpy(&value, static_cast<const std::byte*>(table) + m.offset, sizeof value);
    if (value == nullptr) {
      return Error{Errc::kInvalid, fmt::format("{}: member {} is null", iid, m.name)};
    }
  }
  return ok();
}

}  // namespace tenon::host
