/* Replication: moves log bytes between nodes and publishes two watermarks and role changes. It gets
 * the storage interface itself and uses its functions append, read_log, log_bounds, request_flush,
 * flush_now, set_floor, append_raw ... rebuild_counters. Exactly one party owns the append sequence
 * of the storage: the host while its gate is open, the replication plug-in while it is closed. */
#ifndef TENON_ABI_REPLICATION_H
#define TENON_ABI_REPLICATION_H

#include "tenon/abi/storage.h"

TENON_EXTERN_C_BEGIN

#define TENON_REPLICATION_IID "tenon.replication/1"
#define TENON_HOST_REPLICATION_IID "tenon.host.replication/1"

/* tenon_replication.caps */
enum {
  TENON_REPLICATION_ACKS = 1,    /* publishes replicated */
  TENON_REPLICATION_COMMITS = 2, /* publishes committed; the host sets the visible limit from it */
  TENON_REPLICATION_ELECTS = 4,
  TENON_REPLICATION_OWNS_APPEND = 8, /* has submit */
  TENON_REPLICATION_MEMBERSHIP = 16,
  TENON_REPLICATION_METADATA = 32
};

typedef struct tenon_role {
  uint32_t size;
  uint32_t role; /* TENON_ROLE_MASTER, TENON_ROLE_REPLICA */
  uint64_t epoch;
  tenon_str self_id, leader_id, leader_addr, ha_addr;
} tenon_role;

enum {
  TENON_PEER_CONNECTING = 1,
  TENON_PEER_CATCHING_UP = 2,
  TENON_PEER_IN_SYNC = 3,
  TENON_PEER_DIVERGED = 4,
  TENON_PEER_REFUSED = 5
};

/* Texts are valid until the next call of peers on the same thread. */
typedef struct tenon_peer {
  uint32_t size;
  uint32_t state; /* TENON_PEER_... */
  tenon_str id, addr;
  uint64_t acked, lag_bytes;
  int64_t last_seen_ms;
  uint64_t epoch;
} tenon_peer;

enum { TENON_MEMBER_ADD = 1, TENON_MEMBER_REMOVE = 2, TENON_MEMBER_PROMOTE = 3 };

typedef struct tenon_member_change {
  uint32_t size;
  uint32_t op; /* TENON_MEMBER_... */
  tenon_str id, addr;
  uint32_t flags;
  uint32_t reserved0;
} tenon_member_change;

enum {
  TENON_META_TOPICS = 1,
  TENON_META_GROUPS = 2,
  TENON_META_OFFSETS = 3,
  TENON_META_DELAY_OFFSETS = 4
};

/* Required: bind, recovered, set_role, notify, ready, peers. */
typedef struct tenon_replication {
  uint32_t size;
  uint32_t caps; /* TENON_REPLICATION_... */
  /* [control, not active] Before recover; both pointers are valid until destroy. */
  TENON_FN(
      tenon_status, bind, void* self, const tenon_storage* log, void* log_self, tenon_error* err);
  /* [control] Optional; forwarded from storage recovery: TENON_FRAME_KEEP or TENON_FRAME_CUT. */
  TENON_FN(int32_t, judge_frame, void* self, uint64_t phys, tenon_bytes frame);
  /* [control] After storage recovery; makes the surviving tail durable before it answers any peer.
   */
  TENON_FN(tenon_status, recovered, void* self, const tenon_recover_result* r, tenon_error* err);
  /* [control] Idempotent; UNCHANGED if nothing changes. An electing plug-in accepts only the echo
   * of its own role_changed, anything else is UNSUPPORTED. */
  TENON_FN(tenon_status, set_role, void* self, const tenon_role* r, tenon_error* err);
  /* [append and flush threads] Wait-free: set a flag, wake a thread. Once per append batch and
   * flush round. */
  TENON_FN(void, notify, void* self, const tenon_progress* p);
  /* [any-thread] May a put that ends at end wait for replicas? OK, NOT_READY, NOT_LEADER. */
  TENON_FN(tenon_status, ready, void* self, uint64_t end);
  /* [append] Only with OWNS_APPEND, else NULL: the plug-in appends itself and completes the token.
   */
  TENON_FN(tenon_status,
           submit,
           void* self,
           const tenon_record* recs,
           size_t stride,
           size_t n,
           tenon_token token,
           tenon_error* err);
  /* [any-thread] State of the peers. */
  TENON_FN(tenon_status, peers, void* self, tenon_peer* out, size_t stride, size_t cap, size_t* n);
  /* [control] Completes when the change is committed. */
  TENON_FN(tenon_status,
           change_member,
           void* self,
           const tenon_member_change* c,
           tenon_token token,
           tenon_error* err);
  /* [control] Planned move of the leader. */
  TENON_FN(tenon_status,
           transfer,
           void* self,
           tenon_str target,
           uint32_t timeout_ms,
           tenon_token token,
           tenon_error* err);
  /* [control] Leader: push metadata (TENON_META_...) to the peers. NULL where replicas pull it
   * themselves. */
  TENON_FN(tenon_status, metadata, void* self, uint32_t kind, tenon_bytes body, tenon_error* err);
} tenon_replication;

/* Host service for replication plug-ins. */
typedef struct tenon_host_replication {
  uint32_t size;
  uint32_t reserved0;
  /* [any-thread, may wake] replicated and committed; coalesced. */
  TENON_FN(void, progress, void* ctx, const tenon_progress* p);
  /* [any-thread, may wake] Synchronous: when it returns no append is running and none starts until
   * the host opens the gate again. It waits for a running append: never call it from notify or from
   * inside a storage call. */
  TENON_FN(tenon_status, close_gate, void* ctx, uint64_t epoch, tenon_status why);
  /* [any-thread] Asynchronous: the host runs the role sequence and calls set_role back with the
   * same epoch. */
  TENON_FN(tenon_status, role_changed, void* ctx, const tenon_role* r);
  /* [any-thread] A follower received metadata. */
  TENON_FN(tenon_status, metadata_in, void* ctx, uint32_t kind, tenon_bytes body);
  /* [any-thread] Divergence, refused peer, lost vote file. */
  TENON_FN(void, fault, void* ctx, tenon_status why, tenon_str what);
} tenon_host_replication;

TENON_ASSERT_SIZE(tenon_role, 80);
TENON_ASSERT_SIZE(tenon_peer, 72);
TENON_ASSERT_SIZE(tenon_member_change, 48);
TENON_ASSERT_SIZE(tenon_replication, 96);
TENON_ASSERT_SIZE(tenon_host_replication, 48);

TENON_EXTERN_C_END

#endif
