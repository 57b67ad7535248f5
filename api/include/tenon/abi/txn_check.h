/* Transactional check: when an undecided transaction is asked about again (broker). The host owns
 * the half topic, the op topic, the offsets and the scan; the plug-in decides. */
#ifndef TENON_ABI_TXN_CHECK_H
#define TENON_ABI_TXN_CHECK_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_TXN_CHECK_IID "tenon.txn-check/1"

enum { TENON_HALF_IS_COPY = 1, TENON_HALF_GROUP_CONNECTED = 2 };

/* An unresolved half message. */
typedef struct tenon_half {
  int64_t half_offset, op_newest_born_ms;
  int64_t born_ms, store_ms;
  int64_t immunity_s; /* -1 = absent */
  uint32_t checks_sent, visits;
  uint32_t flags; /* TENON_HALF_... */
  uint32_t body_bytes;
  tenon_str group, topic;
  tenon_bytes properties;
} tenon_half;

enum {
  TENON_TXN_STOP = 0,      /* not due, and nothing behind it can be: end of this queue's round */
  TENON_TXN_LATER = 1,     /* requeue without asking */
  TENON_TXN_CHECK = 2,     /* requeue and ask the producer */
  TENON_TXN_NEED_OP = 3,   /* read more op records first, then ask again */
  TENON_TXN_EXHAUSTED = 4, /* see exhausted */
  TENON_TXN_SKIP = 5       /* leave it, continue */
};

typedef struct tenon_half_verdict {
  uint32_t action; /* TENON_TXN_... */
  uint32_t reason;
  int64_t not_before_ms;
} tenon_half_verdict;

enum { TENON_ROUND_OP_EXHAUSTED = 1 };

typedef struct tenon_txn_round {
  uint32_t size;
  uint32_t flags; /* TENON_ROUND_... */
  int64_t now_ms, round_start_ms;
  uint32_t queue_id;
  uint32_t reserved0;
} tenon_txn_round;

enum {
  TENON_EXHAUSTED_TOPIC = 0, /* move to the topic for given-up transactions */
  TENON_EXHAUSTED_ROLLBACK = 1,
  TENON_EXHAUSTED_KEEP = 2,
  TENON_EXHAUSTED_DROP = 3,
  TENON_EXHAUSTED_COMMIT = 4 /* needs an explicit opt-in in the configuration */
};
enum { TENON_TXN_COMMITTED = 0, TENON_TXN_ROLLED_BACK = 1, TENON_TXN_EXPIRED = 2 };

/* Required: next_round, decide, exhausted. */
typedef struct tenon_txn_check {
  uint32_t size;
  uint32_t caps;
  /* [control] Wall time of the next scan, > now; the host clamps it to 1 s ... 1 h from now. */
  TENON_FN(int64_t, next_round, void* self, int64_t now_ms);
  /* [worker] One verdict per half message, in order. */
  TENON_FN(tenon_status,
           decide,
           void* self,
           const tenon_txn_round* round,
           const tenon_half* h,
           size_t stride,
           size_t n,
           tenon_half_verdict* out,
           size_t out_stride,
           tenon_error* err);
  /* [worker] TENON_EXHAUSTED_...: what to do after the last check. */
  TENON_FN(uint32_t, exhausted, void* self, const tenon_half* h);
  /* [worker] Optional: outcomes (TENON_TXN_COMMITTED ...), for adaptive schedules. */
  TENON_FN(void,
           resolved,
           void* self,
           const tenon_half* h,
           size_t stride,
           size_t n,
           const uint32_t* outcome);
} tenon_txn_check;

TENON_ASSERT_SIZE(tenon_half, 104);
TENON_ASSERT_SIZE(tenon_half_verdict, 16);
TENON_ASSERT_SIZE(tenon_txn_round, 32);
TENON_ASSERT_SIZE(tenon_txn_check, 40);

TENON_EXTERN_C_END

#endif
