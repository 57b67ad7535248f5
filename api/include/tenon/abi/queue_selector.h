/* Queue selection: which queue of a topic a message is sent to (client SDK). */
#ifndef TENON_ABI_QUEUE_SELECTOR_H
#define TENON_ABI_QUEUE_SELECTOR_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_QUEUE_SELECTOR_IID "tenon.queue-selector/1"

typedef struct tenon_queue_ref {
  tenon_str broker;
  uint32_t queue_id;
  uint32_t flags;
} tenon_queue_ref;

/* The queues of one topic. Constant until drop_queues, except slot, a word for the plug-in's own
 * state. */
typedef struct tenon_queue_set {
  uint32_t size;
  uint32_t count;
  uint64_t generation;
  tenon_str topic;
  const tenon_queue_ref* queues;
  size_t stride;
  void* slot;
} tenon_queue_set;

enum { TENON_SELECT_ONE_WAY = 1, TENON_SELECT_HAS_HASH = 2 /* user_hash is filled */ };

typedef struct tenon_select {
  uint32_t size;
  uint32_t attempt;      /* 0 first */
  tenon_str last_broker; /* where the attempt before failed: avoid it; empty on the first */
  tenon_str sharding_key;
  tenon_bytes properties;
  uint64_t user_hash;
  uint32_t body_bytes;
  uint32_t flags; /* TENON_SELECT_... */
} tenon_select;

enum {
  TENON_SEND_OK = 0,
  TENON_SEND_TIMEOUT = 1,
  TENON_SEND_CONNECT_FAILED = 2,
  TENON_SEND_REFUSED = 3,
  TENON_SEND_ISOLATED = 4,
  TENON_SEND_REACHABLE = 5,
  TENON_SEND_UNREACHABLE = 6
};

/* Feedback of one finished attempt or probe. */
typedef struct tenon_send_report {
  tenon_str broker;
  uint32_t latency_ms;
  uint32_t outcome; /* TENON_SEND_... */
  uint32_t queue_id;
  uint32_t reserved0;
} tenon_send_report;

/* Required: select. */
typedef struct tenon_selector {
  uint32_t size;
  uint32_t caps;
  /* [any-thread, serial per set] New or changed route; the set stays valid until drop_queues. */
  TENON_FN(tenon_status, set_queues, void* self, tenon_queue_set* set);
  /* [any-thread] Free the slot; no select with this set is running any more. */
  TENON_FN(void, drop_queues, void* self, tenon_queue_set* set);
  /* [any-thread] Index 0 to count-1, or a negative status: the SDK then uses its own round robin.
   * Once per send: no allocation, no lock held for long. */
  TENON_FN(int32_t, select, void* self, const tenon_queue_set* set, const tenon_select* how);
  /* [any-thread] Feedback, at most 64 per call. */
  TENON_FN(void, report, void* self, const tenon_send_report* r, size_t stride, size_t n);
  /* [worker] Diagnostics. */
  TENON_FN(void, stats, void* self, const tenon_sink* out);
} tenon_selector;

TENON_ASSERT_SIZE(tenon_queue_ref, 24);
TENON_ASSERT_SIZE(tenon_queue_set, 56);
TENON_ASSERT_SIZE(tenon_select, 72);
TENON_ASSERT_SIZE(tenon_send_report, 32);
TENON_ASSERT_SIZE(tenon_selector, 48);

TENON_EXTERN_C_END

#endif
