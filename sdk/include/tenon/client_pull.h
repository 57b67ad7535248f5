/* The C interface of a consumer that asks for messages. Part of tenon/client.h, whose rules hold. */
#ifndef TENON_CLIENT_PULL_H
#define TENON_CLIENT_PULL_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_pull tenon_pull; /* keeps what it needs of the client alive */

typedef struct tenon_pull_options {
  size_t size;
  const char* group;
  const tenon_subscription*
      subscriptions; /* shared among the members of the group; none: tenon_pull_assign() */
  size_t subscription_count;
  const char* allocator;         /* id or wire name of an allocator plug-in; NULL: AVG */
  int64_t start_ms;              /* TENON_START_TIME: milliseconds since the epoch */
  int32_t start;                 /* tenon_start: where a queue without a committed offset starts */
  int32_t auto_commit;           /* 1: tenon_pull_poll() commits what the calls before returned */
  uint32_t poll_max;             /* messages per call; 0: 32 */
  uint32_t cached_max_messages;  /* fetched ahead, per queue; 0: 1000 */
  const char* local_offset_dir;  /* broadcasting; NULL: $HOME/.rocketmq_offsets */
  int64_t commit_interval_ms;    /* of auto_commit; 0: 5000 */
  int64_t rebalance_interval_ms; /* 0: 20000 */
  int64_t pull_error_delay_ms;   /* 0: 1000 */
  int32_t broadcasting;          /* 1: each message to every member */
  uint32_t pull_batch;           /* messages for each request to a broker; 0: 32 */
  uint32_t cached_max_mib;       /* fetched ahead, per queue; 0: 100 */
  uint32_t reserved;             /* 0 */
  const struct tenon_consume_hook* hook; /* sees every poll that returns something; NULL: nobody */
} tenon_pull_options;

typedef tenon_message_queue tenon_pull_queue;

TENON_CLIENT_API int32_t tenon_pull_open(tenon_client* client,
                                         const tenon_pull_options* options,
                                         tenon_pull** out) TENON_CLIENT_NOTHROW;
/* Blocks until there are messages, at most so long. *messages points to *count messages of one queue in its order, or
 * *count is 0. They are valid until the next call, tenon_delivery_copy() keeps one. One thread polls at a time. */
TENON_CLIENT_API int32_t tenon_pull_poll(tenon_pull* pull,
                                         int64_t timeout_ms,
                                         const tenon_delivery* const** messages,
                                         size_t* count) TENON_CLIENT_NOTHROW;
/* Everything returned so far is done: it does not come again. Blocks until the brokers know it. */
TENON_CLIENT_API int32_t tenon_pull_commit(tenon_pull* pull) TENON_CLIENT_NOTHROW;
/* Consumes exactly these queues from now on. @return TENON_CLIENT_CONFLICT if there are subscriptions */
TENON_CLIENT_API int32_t tenon_pull_assign(tenon_pull* pull,
                                           const tenon_pull_queue* queues,
                                           size_t count) TENON_CLIENT_NOTHROW;
/* The next messages of the queue come from this offset on; -1 its beginning, -2 its end. */
TENON_CLIENT_API int32_t tenon_pull_seek(tenon_pull* pull,
                                         const tenon_pull_queue* queue,
                                         int64_t offset) TENON_CLIENT_NOTHROW;
/* Leaves the group; with auto_commit what was returned is committed. */
TENON_CLIENT_API int32_t tenon_pull_close(tenon_pull* pull) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API void tenon_pull_destroy(tenon_pull* pull) TENON_CLIENT_NOTHROW;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_PULL_H */
