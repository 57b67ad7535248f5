/* The C interface of a consumer whose listener is called. Part of tenon/client.h, whose rules hold. */
#ifndef TENON_CLIENT_PUSH_H
#define TENON_CLIENT_PUSH_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tenon_ack {
  TENON_ACK_SUCCESS = 0,
  TENON_ACK_RETRY =
      1, /* again later; in order: the queue pauses and the batch comes again before anything else */
  TENON_ACK_DEAD_LETTER = 2, /* to the dead letter queue at once; not in order */
  /* In order only: */
  TENON_ACK_HOLD =
      3, /* processed, but to come again after a crash or a rollback until a later commit */
  TENON_ACK_COMMIT = 4,  /* done, with all that is held before it, as TENON_ACK_SUCCESS */
  TENON_ACK_ROLLBACK = 5 /* this batch and all that is held before it come again after the pause */
} tenon_ack;

/* Zero when the listener is called; it may change what it wants to. */
typedef struct tenon_ack_details {
  size_t size;
  size_t done; /* with TENON_ACK_RETRY: so many messages at the front are done; not in order */
  int32_t delay_level; /* with TENON_ACK_RETRY: 0 by attempt, 1 to 18 that level; not in order */
  int32_t
      pause_ms; /* with TENON_ACK_RETRY in order, and TENON_ACK_ROLLBACK: 0 as the options say */
} tenon_ack_details;

/* @return a tenon_ack; anything else counts as TENON_ACK_RETRY. Called from several threads at once. */
typedef int32_t (*tenon_listener_fn)(void* arg,
                                     const tenon_delivery* const* messages,
                                     size_t count,
                                     tenon_ack_details* details);

typedef struct tenon_consumer_options {
  size_t size;
  const char* group;
  const tenon_subscription* subscriptions; /* the same in all members of a group */
  size_t subscription_count;
  const char* allocator;         /* id or wire name of an allocator plug-in; NULL: AVG */
  const char* local_offset_dir;  /* broadcasting; NULL: $HOME/.rocketmq_offsets */
  int64_t start_ms;              /* TENON_START_TIME: milliseconds since the epoch */
  int32_t start;                 /* tenon_start: where a queue without a committed offset starts */
  int32_t broadcasting;          /* 1: each message to every member */
  int32_t orderly;               /* 1: messages of a queue one after another in their order */
  int32_t max_attempts;          /* 0: 16; -1: endless, orderly only */
  uint32_t threads;              /* 0: 20 */
  uint32_t batch_max;            /* messages per call; 0: 1 */
  uint32_t pull_batch;           /* 0: 32 */
  uint32_t cached_max_messages;  /* per queue; 0: 1000 */
  int64_t suspend_delay_ms;      /* orderly; 0: 1000 */
  int64_t consume_timeout_ms;    /* 0: 15 minutes */
  int64_t drain_on_close_ms;     /* tenon_consumer_close() waits so long; 0: 10000 */
  int64_t cached_max_span;       /* between first and last cached offset of a queue; 0: 2000 */
  int64_t pull_interval_ms;      /* 0: none */
  int64_t offset_interval_ms;    /* offsets are committed so often; 0: 5000 */
  int64_t rebalance_interval_ms; /* 0: 20000 */
  int64_t pull_error_delay_ms;   /* 0: 1000 */
  uint32_t cached_max_mib;       /* per queue; 0: 100 */
  uint32_t reserved;             /* 0 */
  const struct tenon_consume_hook* hook; /* sees every call of the listener; NULL: nobody */
} tenon_consumer_options;

/* Joins the group and starts. At least once: an offset is committed when all messages before it are done. */
TENON_CLIENT_API int32_t tenon_consumer_open(tenon_client* client,
                                             const tenon_consumer_options* options,
                                             tenon_listener_fn listener,
                                             void* arg,
                                             tenon_consumer** out) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API void tenon_consumer_pause(tenon_consumer* consumer)
    TENON_CLIENT_NOTHROW; /* no more pulls */
TENON_CLIENT_API void tenon_consumer_resume(tenon_consumer* consumer) TENON_CLIENT_NOTHROW;
/* Adds a topic or replaces what is wanted of it, while running; all members of a group must do the same. Blocks until the
 * brokers know. Not in a callback. */
TENON_CLIENT_API int32_t tenon_consumer_subscribe(
    tenon_consumer* consumer, const tenon_subscription* subscription) TENON_CLIENT_NOTHROW;
/* Gives the queues of the topic up; their progress is committed. @return TENON_CLIENT_NOT_FOUND if it is not subscribed */
TENON_CLIENT_API int32_t tenon_consumer_unsubscribe(tenon_consumer* consumer,
                                                    const char* topic) TENON_CLIENT_NOTHROW;
/* Calls `each` for the queues that this member consumes now. */
TENON_CLIENT_API int32_t tenon_consumer_owned(const tenon_consumer* consumer,
                                              tenon_queue_fn each,
                                              void* arg) TENON_CLIENT_NOTHROW;
/* Stops pulling, waits for listeners and cached messages, commits, leaves. @return TENON_CLIENT_TIMEOUT if messages were left */
TENON_CLIENT_API int32_t tenon_consumer_close(tenon_consumer* consumer) TENON_CLIENT_NOTHROW;
/* Waits for running listener calls only, commits and leaves. The listener is not called when this has returned, unless
 * it was called from the listener. */
TENON_CLIENT_API void tenon_consumer_destroy(tenon_consumer* consumer) TENON_CLIENT_NOTHROW;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_PUSH_H */
