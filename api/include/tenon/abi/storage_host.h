/* What a storage tells its host. tenon_progress is shared with replication. */
#ifndef TENON_ABI_STORAGE_HOST_H
#define TENON_ABI_STORAGE_HOST_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_HOST_STORAGE_IID "tenon.host.storage/1"

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

TENON_ASSERT_SIZE(tenon_arrival, 96);
TENON_ASSERT_SIZE(tenon_progress, 56);
TENON_ASSERT_SIZE(tenon_host_storage, 48);

TENON_EXTERN_C_END

#endif
