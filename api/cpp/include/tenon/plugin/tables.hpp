// One class per interface: fills the table of the ABI from the member functions of a plug-in class.
// A member function has the name and the parameters of the ABI without `self`; required ones are
// checked at compile time, optional ones stay NULL when the class does not have them.
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/plugin/instance.hpp"

namespace tenon::plugin {

#define TENON_BIND_REQUIRED(member)                                                \
  static_assert(                                                                   \
      requires { &T::member; },                                                    \
      "the interface requires a public, not overloaded member function " #member); \
  t.member = detail::kThunk<T, &T::member>
#define TENON_BIND_OPTIONAL(member)           \
  if constexpr (requires { &T::member; }) {   \
    t.member = detail::kThunk<T, &T::member>; \
  }                                           \
  static_assert(true)
/// Interface capability bits: `static constexpr std::uint32_t kStorageCaps = ...;`, default 0.
#define TENON_BIND_CAPS(constant)            \
  if constexpr (requires { T::constant; }) { \
    t.caps = T::constant;                    \
  }                                          \
  static_assert(true)

/// tenon.storage/1. Statistics: `void stats(const tenon_sink* out)`.
struct Storage {
  static constexpr const char* kIid = TENON_STORAGE_IID;
  template <class T>
  static constexpr tenon_storage table() noexcept {
    tenon_storage t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kStorageCaps);
    TENON_BIND_REQUIRED(recover);
    TENON_BIND_REQUIRED(append);
    TENON_BIND_REQUIRED(open_queue);
    TENON_BIND_REQUIRED(queue_bounds);
    TENON_BIND_REQUIRED(index_read);
    TENON_BIND_REQUIRED(fetch);
    TENON_BIND_REQUIRED(message_at);
    TENON_BIND_REQUIRED(read_log);
    TENON_BIND_REQUIRED(log_bounds);
    TENON_BIND_OPTIONAL(offset_by_time);
    TENON_BIND_OPTIONAL(time_of);
    TENON_BIND_REQUIRED(request_flush);
    TENON_BIND_OPTIONAL(flush_now);
    TENON_BIND_OPTIONAL(query_keys);
    TENON_BIND_REQUIRED(retention);
    TENON_BIND_OPTIONAL(set_floor);
    TENON_BIND_OPTIONAL(drop_topics);
    TENON_BIND_OPTIONAL(append_raw);
    TENON_BIND_OPTIONAL(truncate);
    TENON_BIND_OPTIONAL(reset);
    TENON_BIND_OPTIONAL(set_visible_limit);
    TENON_BIND_OPTIONAL(rebuild_counters);
    TENON_BIND_REQUIRED(stats);
    TENON_BIND_OPTIONAL(set_role);
    return t;
  }
};

/// tenon.replication/1.
struct Replication {
  static constexpr const char* kIid = TENON_REPLICATION_IID;
  template <class T>
  static constexpr tenon_replication table() noexcept {
    tenon_replication t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kReplicationCaps);
    TENON_BIND_REQUIRED(bind);
    TENON_BIND_OPTIONAL(judge_frame);
    TENON_BIND_REQUIRED(recovered);
    TENON_BIND_REQUIRED(set_role);
    TENON_BIND_REQUIRED(notify);
    TENON_BIND_REQUIRED(ready);
    TENON_BIND_OPTIONAL(submit);
    TENON_BIND_REQUIRED(peers);
    TENON_BIND_OPTIONAL(change_member);
    TENON_BIND_OPTIONAL(transfer);
    TENON_BIND_OPTIONAL(metadata);
    return t;
  }
};

/// tenon.queue-selector/1.
struct QueueSelector {
  static constexpr const char* kIid = TENON_QUEUE_SELECTOR_IID;
  template <class T>
  static constexpr tenon_selector table() noexcept {
    tenon_selector t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kSelectorCaps);
    TENON_BIND_OPTIONAL(set_queues);
    TENON_BIND_OPTIONAL(drop_queues);
    TENON_BIND_REQUIRED(select);
    TENON_BIND_OPTIONAL(report);
    TENON_BIND_OPTIONAL(stats);
    return t;
  }
};

/// tenon.queue-allocator/1. The class says `static constexpr const char* kWireName = "AVG";`.
struct QueueAllocator {
  static constexpr const char* kIid = TENON_QUEUE_ALLOCATOR_IID;
  template <class T>
  static constexpr tenon_allocator table() noexcept {
    tenon_allocator t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kAllocatorCaps);
    t.wire_name = T::kWireName;
    TENON_BIND_REQUIRED(allocate);
    return t;
  }
};

/// tenon.filter/1. The class says `static constexpr const char* kTypes[] = {"TAG", nullptr};`. A
/// class with two interfaces that both have a member `release` cannot use the glue for both.
struct Filter {
  static constexpr const char* kIid = TENON_FILTER_IID;
  template <class T>
  static constexpr tenon_filter table() noexcept {
    tenon_filter t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kFilterCaps);
    t.types = T::kTypes;
    TENON_BIND_REQUIRED(compile);
    TENON_BIND_REQUIRED(release);
    TENON_BIND_OPTIONAL(validate);
    TENON_BIND_OPTIONAL(explain);
    TENON_BIND_REQUIRED(match_index);
    TENON_BIND_REQUIRED(match_properties);
    return t;
  }
};

/// tenon.txn-check/1.
struct TxnCheck {
  static constexpr const char* kIid = TENON_TXN_CHECK_IID;
  template <class T>
  static constexpr tenon_txn_check table() noexcept {
    tenon_txn_check t{};
    t.size = sizeof t;
    TENON_BIND_CAPS(kTxnCheckCaps);
    TENON_BIND_REQUIRED(next_round);
    TENON_BIND_REQUIRED(decide);
    TENON_BIND_REQUIRED(exhausted);
    TENON_BIND_OPTIONAL(resolved);
    return t;
  }
};

}  // namespace tenon::plugin
