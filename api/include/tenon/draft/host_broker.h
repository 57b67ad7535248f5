/* DRAFT. What a host offers to service, transaction and sink plug-ins beside host.h: read access to
 * the store and calls into the broker. No host offers them yet; the shapes are here to be
 * discussed. First argument of every function: tenon_host.ctx. */
#ifndef TENON_DRAFT_HOST_BROKER_H
#define TENON_DRAFT_HOST_BROKER_H

#include "tenon/abi/storage.h"

TENON_EXTERN_C_BEGIN

#define TENON_HOST_STORE_IID "tenon.host.store/1"
#define TENON_HOST_BROKER_IID "tenon.host.broker/1"

/* Read-only part of tenon_storage, routed to the storage plug-in; threads and errors as there. */
typedef struct tenon_host_store {
  uint32_t size;
  uint32_t reserved0;
  TENON_FN(tenon_status,
           open_queue,
           void* ctx,
           tenon_str topic,
           uint32_t queue_id,
           tenon_queue* out,
           tenon_error* err);
  TENON_FN(tenon_status, queue_bounds, void* ctx, tenon_queue q, tenon_queue_bounds* out);
  TENON_FN(tenon_status,
           index_read,
           void* ctx,
           tenon_queue q,
           int64_t from,
           tenon_index_entry* out,
           size_t stride,
           size_t cap,
           size_t* n,
           int64_t* next,
           tenon_hold* hold);
  TENON_FN(tenon_status,
           fetch,
           void* ctx,
           const tenon_extent* ext,
           size_t n,
           uint32_t flags,
           tenon_view* out,
           size_t stride,
           uint64_t* next_file,
           tenon_hold* hold,
           tenon_error* err);
  TENON_FN(tenon_status,
           message_at,
           void* ctx,
           uint64_t phys,
           tenon_view* out,
           tenon_hold* hold,
           tenon_error* err);
  TENON_FN(tenon_status, log_bounds, void* ctx, tenon_log_bounds* out);
  TENON_FN(tenon_status,
           offset_by_time,
           void* ctx,
           tenon_queue q,
           int64_t ms,
           uint32_t boundary,
           int64_t* out,
           tenon_error* err);
  TENON_FN(tenon_status,
           time_of,
           void* ctx,
           tenon_queue q,
           int64_t offset,
           int64_t* ms,
           tenon_error* err);
  TENON_FN(tenon_status,
           query_keys,
           void* ctx,
           const tenon_key_query* q,
           tenon_extent* out,
           size_t stride,
           tenon_key_result* r,
           tenon_error* err);
} tenon_host_store;

/* One remoting request run in the process. */
typedef struct tenon_invoke {
  uint32_t size;
  int32_t code;
  const tenon_kv* fields;
  uint32_t field_count;
  uint32_t deadline_ms;
  tenon_bytes body;
} tenon_invoke;

typedef struct tenon_receive {
  uint32_t size;
  uint32_t max;
  tenon_str group, topic;
  int32_t queue_id; /* -1 = any */
  uint32_t flags;
  uint64_t invisible_ms;
  tenon_str filter_type, filter_text, attempt_id;
  uint64_t deadline_ms;
} tenon_receive;

typedef struct tenon_handle {
  tenon_str topic;
  uint32_t queue_id;
  uint32_t flags;
  int64_t queue_offset;
  tenon_str receipt;
} tenon_handle;

/* All [any-thread], non-blocking: they answer PENDING and complete by token through
 * tenon_service.completions. */
typedef struct tenon_host_broker {
  uint32_t size;
  uint32_t reserved0;
  TENON_FN(tenon_status,
           invoke,
           void* ctx,
           const tenon_invoke* what,
           tenon_token token,
           tenon_error* err);
  TENON_FN(tenon_status,
           put,
           void* ctx,
           const tenon_record* recs,
           size_t stride,
           size_t n,
           tenon_token token,
           tenon_error* err);
  TENON_FN(tenon_status,
           receive,
           void* ctx,
           const tenon_receive* what,
           tenon_token token,
           tenon_error* err);
  TENON_FN(tenon_status, cancel, void* ctx, tenon_token token);
  TENON_FN(tenon_status,
           ack,
           void* ctx,
           tenon_str group,
           const tenon_handle* h,
           size_t stride,
           size_t n,
           tenon_token token,
           tenon_error* err);
  TENON_FN(tenon_status,
           change_invisible,
           void* ctx,
           tenon_str group,
           const tenon_handle* h,
           size_t stride,
           size_t n,
           uint64_t invisible_ms,
           tenon_token token,
           tenon_error* err);
  TENON_FN(tenon_status,
           to_dead_letter,
           void* ctx,
           tenon_str group,
           const tenon_handle* h,
           size_t stride,
           size_t n,
           tenon_token token,
           tenon_error* err);
} tenon_host_broker;

TENON_ASSERT_SIZE(tenon_host_store, 80);
TENON_ASSERT_SIZE(tenon_invoke, 40);
TENON_ASSERT_SIZE(tenon_receive, 112);
TENON_ASSERT_SIZE(tenon_handle, 48);
TENON_ASSERT_SIZE(tenon_host_broker, 64);

TENON_EXTERN_C_END

#endif
