/* DRAFT. Entry log: for store layouts that keep one header per message with an index and a term, so
 * that such a folder can be opened and written. Offered by a storage plug-in beside
 * tenon.storage/1. */
#ifndef TENON_DRAFT_ENTRY_LOG_H
#define TENON_DRAFT_ENTRY_LOG_H

#include "tenon/abi/storage.h"

TENON_EXTERN_C_BEGIN

#define TENON_ENTRY_LOG_IID "tenon.entry-log/1"

typedef struct tenon_entry_bounds {
  uint32_t size;
  uint32_t reserved0;
  int64_t first, last, committed; /* indexes; -1 = none */
  int64_t last_term;
} tenon_entry_bounds;

typedef struct tenon_entry_result {
  tenon_append_result record;
  int64_t index;
} tenon_entry_result;

typedef struct tenon_entry_log {
  uint32_t size;
  uint32_t caps;
  /* [any-thread] The caller sets out->size. */
  TENON_FN(tenon_status, bounds, void* self, tenon_entry_bounds* out);
  /* [append] Records of this node as leader of a term. */
  TENON_FN(tenon_status,
           append,
           void* self,
           int64_t term,
           const tenon_record* recs,
           size_t stride,
           size_t n,
           tenon_entry_result* out,
           size_t out_stride,
           tenon_error* err);
  /* [append] Whole encoded entries from a leader, headers included; CONFLICT if they do not follow
   * the last one. */
  TENON_FN(tenon_status,
           append_entries,
           void* self,
           const tenon_bytes* entries,
           size_t n,
           tenon_error* err);
  /* [any-thread] One encoded entry; NOT_FOUND outside of the bounds. */
  TENON_FN(tenon_status,
           entry_at,
           void* self,
           int64_t index,
           tenon_view* out,
           tenon_hold* hold,
           tenon_error* err);
  /* [any-thread] */
  TENON_FN(tenon_status, term_at, void* self, int64_t index, int64_t* term, tenon_error* err);
  /* [append] Removes the entry and all that follow. CONFLICT at or below committed. */
  TENON_FN(tenon_status, truncate_from, void* self, int64_t index, tenon_error* err);
  /* [append] Never moves back. */
  TENON_FN(tenon_status, commit, void* self, int64_t index, tenon_error* err);
} tenon_entry_log;

TENON_ASSERT_SIZE(tenon_entry_bounds, 40);
TENON_ASSERT_SIZE(tenon_entry_result, 40);
TENON_ASSERT_SIZE(tenon_entry_log, 64);

TENON_EXTERN_C_END

#endif
