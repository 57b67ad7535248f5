/* Storage: one instance per broker, owns everything below the store root that belongs to the log,
 * its queue index and its key index. tenon_progress is shared with replication. */
#ifndef TENON_ABI_STORAGE_H
#define TENON_ABI_STORAGE_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_STORAGE_IID "tenon.storage/1"
#define TENON_HOST_STORAGE_IID "tenon.host.storage/1"

#define TENON_NO_LIMIT UINT64_MAX /* set_floor, set_visible_limit: none */

/* tenon_storage.caps */
enum {
  TENON_STORAGE_SENDFILE = 1,  /* views carry a descriptor and a file offset */
  TENON_STORAGE_COLD = 2,      /* tells cold data from data in memory */
  TENON_STORAGE_BITMAP = 4,    /* keeps filter bit maps in the index */
  TENON_STORAGE_RAW = 8,       /* functions 18 to 22: append_raw to rebuild_counters */
  TENON_STORAGE_ENTRY_LOG = 16 /* offers tenon.entry-log/1 */
};

/* tenon_record.flags */
enum {
  TENON_RECORD_WANT_DURABLE = 1,    /* somebody waits for the durable position: wake the flusher */
  TENON_RECORD_WANT_REPLICATED = 2, /* information only */
  TENON_RECORD_BATCH = 4,   /* body holds count pre-encoded records, patched in place of a copy */
  TENON_RECORD_NO_INDEX = 8 /* log only */
};

/* A message to append. properties is the serialised text (tenon_prop_next). */
typedef struct tenon_record {
  tenon_str topic;
  tenon_queue queue; /* 0 = use topic and queue_id */
  uint32_t queue_id;
  uint32_t flags; /* TENON_RECORD_... */
  int32_t flag;   /* the message's own flag */
  int32_t sys_flag;
  int64_t born_ms;
  int64_t store_ms; /* 0 = the storage stamps it inside [append] */
  tenon_addr born_host;
  tenon_addr store_host;
  int32_t reconsume_times;
  uint32_t count; /* records in body with BATCH, else 1 */
  int64_t prepared_offset;
  tenon_bytes body;
  tenon_bytes properties;
  int64_t
      tags_code; /* what a rebuild from the log computes; a delivery time for the schedule topic */
  tenon_str keys;
  tenon_str uniq_key;
  uint64_t* inner_phys; /* BATCH: receives count positions; may be NULL */
} tenon_record;

typedef struct tenon_append_result {
  tenon_status status;
  uint32_t bytes;
  uint64_t phys;
  int64_t queue_offset; /* of the first record of a batch */
  int64_t store_ms;
} tenon_append_result;

/* A stretch of the log. */
typedef struct tenon_extent {
  uint64_t phys;
  uint32_t bytes;
  uint32_t reserved0;
} tenon_extent;

/* Bits of tenon_view.flags and tenon_index_entry.flags. */
enum { TENON_COLD = 1, TENON_EXTENDED = 2 /* store_ms and bitmap come from an extension entry */ };

/* Bytes in memory of the storage, valid while the hold of the same call is open. */
typedef struct tenon_view {
  const uint8_t* ptr; /* NULL = removed, or cold with NO_FAULT */
  uint32_t len;
  uint32_t flags; /* TENON_COLD */
  uint64_t phys;
  int32_t fd; /* for sendfile; -1 = not offered */
  uint32_t reserved0;
  uint64_t file_offset;
} tenon_view;

typedef struct tenon_index_entry {
  uint64_t phys;
  uint32_t bytes;
  uint32_t flags; /* TENON_COLD, TENON_EXTENDED */
  int64_t tags_code;
  int64_t store_ms; /* only with TENON_EXTENDED */
  tenon_bytes bitmap;
} tenon_index_entry;

typedef struct tenon_queue_bounds {
  uint32_t size;
  uint32_t reserved0;
  int64_t min_offset, max_offset; /* max = next; min <= max */
  uint64_t min_phys;
  int64_t last_store_ms;
} tenon_queue_bounds;

/* tenon_log_bounds.health, tenon_retention_result.health */
enum {
  TENON_HEALTH_PAGE_CACHE_BUSY = 1,
  TENON_HEALTH_NOT_WRITABLE = 2,
  TENON_HEALTH_NOT_READABLE = 4,
  TENON_HEALTH_DISK_FULL = 8,
  TENON_HEALTH_INDEX_ERROR = 16
};

/* min_phys <= dispatched <= frame_end <= end; durable <= end; dispatched <= visible_limit. */
typedef struct tenon_log_bounds {
  uint32_t size;
  uint32_t health; /* TENON_HEALTH_... */
  uint64_t min_phys, frame_end, end, durable, visible_limit, dispatched;
} tenon_log_bounds;

enum { TENON_RECOVER_DECIDE = 0, TENON_RECOVER_CLEAN = 1, TENON_RECOVER_CRASHED = 2 };
enum { TENON_FRAME_KEEP = 0, TENON_FRAME_CUT = 1 };

typedef struct tenon_recover_opts {
  uint32_t size;
  uint32_t mode; /* TENON_RECOVER_...; DECIDE looks at the abort marker */
  uint64_t flags;
  void* ctx;
  /* Called for every frame with an unknown or system-epoch topic: TENON_FRAME_KEEP or
   * TENON_FRAME_CUT (the log ends here). May be NULL = keep. */
  TENON_FN(int32_t, judge_frame, void* ctx, uint64_t phys, tenon_bytes frame);
  /* Polled at least once per file; non-zero = stop with CANCELLED. May be NULL. */
  TENON_FN(int32_t, cancelled, void* ctx);
} tenon_recover_opts;

typedef struct tenon_recover_result {
  uint32_t size;
  uint32_t was_abnormal;
  uint64_t min_phys, end, cut_bytes;
  uint32_t queues;
  uint32_t reserved0;
  int64_t last_store_ms;
} tenon_recover_result;

enum { TENON_RETENTION_DELETE_HOUR = 1, TENON_RETENTION_MANUAL = 2 };

typedef struct tenon_retention {
  uint32_t size;
  uint32_t flags; /* TENON_RETENTION_... */
  int64_t now_ms;
  int64_t keep_ms;
  uint32_t max_files;
  uint32_t disk_clean_pct, disk_force_pct, disk_full_pct; /* usual: 75, 85, 90 */
} tenon_retention;

typedef struct tenon_retention_result {
  uint32_t size;
  uint32_t files;
  uint64_t bytes;
  uint64_t min_phys;
  uint32_t disk_pct_x100;
  uint32_t health; /* TENON_HEALTH_... */
} tenon_retention_result;

typedef struct tenon_key_query {
  uint32_t size;
  uint32_t max;
  tenon_str topic, key;
  int64_t begin_ms, end_ms; /* both included */
} tenon_key_query;

typedef struct tenon_key_result {
  uint32_t size;
  uint32_t count;
  int64_t last_update_ms;
  uint64_t last_update_phys;
} tenon_key_result;

enum { TENON_OPEN_CREATE = 1 };
enum { TENON_FETCH_NO_FAULT = 1 };
enum { TENON_READ_TO_END = 1 }; /* read_log: up to end; without it up to frame_end */
enum { TENON_TRUNCATE_ERASE = 1 };
enum { TENON_BOUNDARY_NEAREST = 0, TENON_BOUNDARY_LOWER = 1, TENON_BOUNDARY_UPPER = 2 };
enum { TENON_ROLE_MASTER = 1, TENON_ROLE_REPLICA = 2 };

/* The numbers are those of the design document. Required: 1 to 9, 12, 15, 23; others NULL =
 * UNSUPPORTED. */
typedef struct tenon_storage {
  uint32_t size;
  uint32_t caps; /* TENON_STORAGE_... */
  /* 1 [control, not active] Once before activate, repeatable after a failure; may take minutes
   * (logs progress). Never modifies a store that it does not fully understand: INCOMPATIBLE. */
  TENON_FN(tenon_status,
           recover,
           void* self,
           const tenon_recover_opts* o,
           tenon_recover_result* r,
           tenon_error* err);
  /* 2 [append] Encodes, assigns offsets and copies to the log, in order. OK even if single records
   * failed: each result has its status. After the first store-wide failure (FULL, IO, CLOSED) the
   * rest gets the same status and nothing more is written. Arguments are the caller's; nothing is
   * kept. */
  TENON_FN(tenon_status,
           append,
           void* self,
           const tenon_record* recs,
           size_t stride,
           size_t n,
           tenon_append_result* out,
           size_t out_stride,
           tenon_error* err);
  /* 3 [any-thread] flags TENON_OPEN_CREATE; else NOT_FOUND. Handles are never reused within an
   * activation; after drop_topics an old one answers STALE. */
  TENON_FN(tenon_status,
           open_queue,
           void* self,
           tenon_str topic,
           uint32_t queue_id,
           uint32_t flags,
           tenon_queue* out,
           tenon_error* err);
  /* 4 [any-thread] Wait-free snapshot. The caller sets out->size. */
  TENON_FN(tenon_status, queue_bounds, void* self, tenon_queue q, tenon_queue_bounds* out);
  /* 5 [io] Up to cap entries from offset `from`; fewer is normal. EMPTY, RANGE_LOW, RANGE_END,
   * RANGE_HIGH, NOT_FOUND; GAP: *next is the first readable offset. hold is filled only if a bitmap
   * was returned. */
  TENON_FN(tenon_status,
           index_read,
           void* self,
           tenon_queue q,
           int64_t from,
           tenon_index_entry* out,
           size_t stride,
           size_t cap,
           size_t* n,
           int64_t* next,
           tenon_hold* hold);
  /* 6 [io] One view per extent. A removed one has ptr NULL and *next_file is the start of the next
   * file. With NO_FAULT no page is read from disk: such views are COLD; repeat on [worker] without
   * the flag. One hold for all. */
  TENON_FN(tenon_status,
           fetch,
           void* self,
           const tenon_extent* ext,
           size_t n,
           uint32_t flags,
           tenon_view* out,
           size_t stride,
           uint64_t* next_file,
           tenon_hold* hold,
           tenon_error* err);
  /* 7 [worker] The record at phys; magic, length and bounds are checked first: NOT_FOUND or
   * CORRUPT. */
  TENON_FN(tenon_status,
           message_at,
           void* self,
           uint64_t phys,
           tenon_view* out,
           tenon_hold* hold,
           tenon_error* err);
  /* 8 [worker] Raw bytes [phys, at most max_bytes), one contiguous piece, never across a file.
   * RANGE_END at the end. */
  TENON_FN(tenon_status,
           read_log,
           void* self,
           uint64_t phys,
           uint32_t max_bytes,
           uint32_t flags,
           tenon_view* out,
           tenon_hold* hold,
           tenon_error* err);
  /* 9 [any-thread] Wait-free snapshot. The caller sets out->size. */
  TENON_FN(tenon_status, log_bounds, void* self, tenon_log_bounds* out);
  /* 10 [worker] Queue offset by store time; boundary TENON_BOUNDARY_... */
  TENON_FN(tenon_status,
           offset_by_time,
           void* self,
           tenon_queue q,
           int64_t ms,
           uint32_t boundary,
           int64_t* out,
           tenon_error* err);
  /* 11 [worker] Store time of an entry; NOT_FOUND if it is not readable. */
  TENON_FN(tenon_status,
           time_of,
           void* self,
           tenon_queue q,
           int64_t offset,
           int64_t* ms,
           tenon_error* err);
  /* 12 [any-thread] Asks for a flush up to a position (above end = end); the durable watermark
   * tells. */
  TENON_FN(tenon_status, request_flush, void* self, uint64_t upto);
  /* 13 [worker] Blocks until durable >= upto: OK, TIMEOUT, IO. */
  TENON_FN(
      tenon_status, flush_now, void* self, uint64_t upto, uint32_t timeout_ms, tenon_error* err);
  /* 14 [worker] Extents by topic and key, newest file first, at most q->max; hash collisions may be
   * included. */
  TENON_FN(tenon_status,
           query_keys,
           void* self,
           const tenon_key_query* q,
           tenon_extent* out,
           size_t stride,
           tenon_key_result* r,
           tenon_error* err);
  /* 15 [worker] Deletes at most max_files expired files. The host calls it every 10 s. */
  TENON_FN(tenon_status,
           retention,
           void* self,
           const tenon_retention* p,
           tenon_retention_result* r,
           tenon_error* err);
  /* 16 [any-thread] Never delete a file that contains or follows phys. TENON_NO_LIMIT = none. */
  TENON_FN(tenon_status, set_floor, void* self, uint64_t phys);
  /* 17 [control] Removes the queues of all topics that are not in keep. */
  TENON_FN(tenon_status,
           drop_topics,
           void* self,
           const tenon_str* keep,
           size_t n,
           uint32_t* dropped,
           tenon_error* err);
  /* 18 [append] Replica: bytes at exactly end, else CONFLICT. All or nothing; pieces need not be
   * record-aligned. */
  TENON_FN(tenon_status,
           append_raw,
           void* self,
           uint64_t phys,
           const tenon_bytes* pieces,
           size_t n,
           tenon_error* err);
  /* 19 [append] The log ends at phys, a frame boundary >= visible limit, else CONFLICT. With ERASE
   * the cut range is zeroed durably BEFORE positions move. Index entries >= phys are removed. */
  TENON_FN(tenon_status, truncate, void* self, uint64_t phys, uint32_t flags, tenon_error* err);
  /* 20 [control, not active] Empty store that begins at start (aligned to a file). */
  TENON_FN(tenon_status, reset, void* self, uint64_t start, tenon_error* err);
  /* 21 [any-thread] Index and consumers never pass it. Default TENON_NO_LIMIT. */
  TENON_FN(tenon_status, set_visible_limit, void* self, uint64_t phys);
  /* 22 [control] Next queue offsets from the queue indexes, on becoming leader. */
  TENON_FN(tenon_status, rebuild_counters, void* self, tenon_error* err);
  /* 23 [worker] Entries of the runtime table. */
  TENON_FN(void, stats, void* self, const tenon_sink* out);
  /* 24 [control] Optional hint: TENON_ROLE_MASTER, TENON_ROLE_REPLICA. */
  TENON_FN(tenon_status, set_role, void* self, uint32_t role);
} tenon_storage;

/* An entry that just became readable. Views are into the log, valid during the call. */
typedef struct tenon_arrival {
  tenon_queue queue;
  tenon_str topic;
  uint32_t queue_id;
  uint32_t flags;
  int64_t queue_offset; /* of the message itself */
  int64_t tags_code;
  int64_t store_ms;
  uint64_t phys;
  tenon_bytes bitmap;
  tenon_bytes properties;
} tenon_arrival;

/* tenon_progress.changed */
enum {
  TENON_CHANGED_END = 1,
  TENON_CHANGED_DURABLE = 2,
  TENON_CHANGED_DISPATCHED = 4,
  TENON_CHANGED_REPLICATED = 8,
  TENON_CHANGED_COMMITTED = 16,
  TENON_CHANGED_MIN_PHYS = 32
};

/* Watermarks: positions in the log that only grow, except after truncate and reset. */
typedef struct tenon_progress {
  uint32_t size;
  uint32_t changed; /* TENON_CHANGED_...: the members that are filled */
  uint64_t end, durable, dispatched, replicated, committed, min_phys;
} tenon_progress;

/* Host service for storage plug-ins. */
typedef struct tenon_host_storage {
  uint32_t size;
  uint32_t reserved0;
  /* [any-thread, may wake] After each flush round, dispatch batch, deletion; coalesced. */
  TENON_FN(void, progress, void* ctx, const tenon_progress* p);
  /* [any-thread serial, may wake] Entries that became readable, in log order, at most 256 per call.
   */
  TENON_FN(void, arrivals, void* ctx, const tenon_arrival* a, size_t stride, size_t n);
  /* [dispatch thread] Only with TENON_STORAGE_BITMAP: the host fills each entry's bit map before it
   * is written. */
  TENON_FN(void,
           index_bits,
           void* ctx,
           const tenon_arrival* a,
           size_t stride,
           size_t n,
           uint8_t* bits,
           size_t bits_stride);
  /* [any-thread, pure] Delivery time of a delay level. */
  TENON_FN(tenon_status, deliver_time, void* ctx, uint32_t level, int64_t store_ms, int64_t* out);
  /* [any-thread] Unrecoverable: failed sync, corruption. The host closes the write gate and stops.
   */
  TENON_FN(void, fault, void* ctx, tenon_status why, tenon_str what);
} tenon_host_storage;

TENON_ASSERT_SIZE(tenon_record, 200);
TENON_ASSERT_OFFSET(tenon_record, queue, 16);
TENON_ASSERT_OFFSET(tenon_record, queue_id, 24);
TENON_ASSERT_OFFSET(tenon_record, born_ms, 40);
TENON_ASSERT_OFFSET(tenon_record, born_host, 56);
TENON_ASSERT_OFFSET(tenon_record, store_host, 80);
TENON_ASSERT_OFFSET(tenon_record, reconsume_times, 104);
TENON_ASSERT_OFFSET(tenon_record, body, 120);
TENON_ASSERT_OFFSET(tenon_record, properties, 136);
TENON_ASSERT_OFFSET(tenon_record, tags_code, 152);
TENON_ASSERT_OFFSET(tenon_record, keys, 160);
TENON_ASSERT_OFFSET(tenon_record, inner_phys, 192);
TENON_ASSERT_SIZE(tenon_append_result, 32);
TENON_ASSERT_SIZE(tenon_extent, 16);
TENON_ASSERT_SIZE(tenon_view, 40);
TENON_ASSERT_SIZE(tenon_index_entry, 48);
TENON_ASSERT_SIZE(tenon_queue_bounds, 40);
TENON_ASSERT_SIZE(tenon_log_bounds, 56);
TENON_ASSERT_SIZE(tenon_recover_opts, 40);
TENON_ASSERT_SIZE(tenon_recover_result, 48);
TENON_ASSERT_SIZE(tenon_retention, 40);
TENON_ASSERT_SIZE(tenon_retention_result, 32);
TENON_ASSERT_SIZE(tenon_key_query, 56);
TENON_ASSERT_SIZE(tenon_key_result, 24);
TENON_ASSERT_SIZE(tenon_storage, 200);
TENON_ASSERT_SIZE(tenon_arrival, 96);
TENON_ASSERT_SIZE(tenon_progress, 56);
TENON_ASSERT_SIZE(tenon_host_storage, 48);

TENON_EXTERN_C_END

#endif
