/* Queue allocation: which member of a group consumes which queue (client SDK, and the broker for
 * assignment queries). */
#ifndef TENON_ABI_QUEUE_ALLOCATOR_H
#define TENON_ABI_QUEUE_ALLOCATOR_H

#include "tenon/abi/queue_selector.h"

TENON_EXTERN_C_BEGIN

#define TENON_QUEUE_ALLOCATOR_IID "tenon.queue-allocator/1"

typedef struct tenon_allocate {
  uint32_t size;
  uint32_t self_index; /* position of this member in clients */
  tenon_str group, topic;
  const tenon_str* clients; /* sorted as the SDK sorts them */
  uint32_t client_count;
  uint32_t queue_count;
  const tenon_queue_ref* queues; /* sorted by topic, broker, id */
  size_t stride;
} tenon_allocate;

/* Required: wire_name, allocate. */
typedef struct tenon_allocator {
  uint32_t size;
  uint32_t caps;
  const char* wire_name; /* as other clients and tools know the strategy: AVG, AVG_BY_CIRCLE, ... */
  /* [worker] Indexes into queues, cap >= queue_count. A pure function: no clock, no randomness. The
   * union over all members is every queue exactly once (CONFIG and MACHINE_ROOM may leave holes).
   * All members of a group must run the same one. */
  TENON_FN(tenon_status,
           allocate,
           void* self,
           const tenon_allocate* in,
           uint32_t* out,
           size_t cap,
           size_t* n,
           tenon_error* err);
} tenon_allocator;

TENON_ASSERT_SIZE(tenon_allocate, 72);
TENON_ASSERT_SIZE(tenon_allocator, 24);

TENON_EXTERN_C_END

#endif
