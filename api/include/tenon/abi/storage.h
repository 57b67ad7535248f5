/* Storage: one instance per broker, owns everything below the store root that belongs to the log,
 * its queue index and its key index. */
#ifndef TENON_ABI_STORAGE_H
#define TENON_ABI_STORAGE_H

#include "tenon/abi/storage_host.h"
#include "tenon/abi/storage_types.h"
#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_STORAGE_IID "tenon.storage/1"

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

TENON_ASSERT_SIZE(tenon_storage, 200);

TENON_EXTERN_C_END

#endif
