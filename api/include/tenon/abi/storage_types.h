/* What the functions of a storage take and give: records, extents, views, bounds, policies. */
#ifndef TENON_ABI_STORAGE_TYPES_H
#define TENON_ABI_STORAGE_TYPES_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

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

TENON_EXTERN_C_END

#endif
