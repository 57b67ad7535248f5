/* Functions of the program that see what producers and consumers do: for metrics, audits, rules of one's own. Part of
 * tenon/client.h.
 *
 * A hook is one structure of functions, any of which may be NULL; it is copied, what `arg` points to must live as long as the
 * producer or consumer. Everything that functions are shown is valid during the call. */
#ifndef TENON_CLIENT_HOOKS_H
#define TENON_CLIENT_HOOKS_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One attempt of a send. Texts are never NULL. */
typedef struct tenon_send_attempt {
  size_t size;
  const char* group;
  const char* topic;
  const char* id;   /* as in the receipt; batch: all ids, joined by commas */
  const char* tag;  /* batch: "" */
  const char* keys; /* joined by one blank; batch: "" */
  const void* body; /* as it is sent: maybe compressed; batch: all of it */
  size_t body_length;
  const char* broker;
  const char* address; /* of the broker, "host:port" */
  int32_t queue_id;
  int32_t number;  /* of the attempt, counted from 1 */
  int32_t oneway;  /* 1: nobody says whether it arrives */
  int32_t kind;    /* 0 normal, 1 half message of a transaction, 2 delayed */
  int64_t cost_ms; /* after: since this attempt began */
} tenon_send_attempt;

/* `check` and the first `before` are called on the sending thread, everything else there or on a thread of the client: they
 * must be quick and must not block. */
typedef struct tenon_send_hook {
  size_t size;
  void* arg; /* first argument of all */
  /* Before anything is sent. @return TENON_CLIENT_OK, or the code with which the send fails: the message is refused. A text
   * for people may be written to `reason`, of at most `room` bytes with its zero byte. */
  int32_t (*check)(void* arg, const tenon_message* message, char* reason, size_t room);
  void (*before)(void* arg, const tenon_send_attempt* attempt);
  /* What came of the attempt; a retry may follow a failure. receipt is NULL unless code is TENON_CLIENT_OK. One-way: that it
   * was written. tenon_client_error_*() tell more about a failure. */
  void (*after)(void* arg,
                const tenon_send_attempt* attempt,
                int32_t code,
                const tenon_receipt* receipt);
} tenon_send_hook;

typedef enum tenon_consume_outcome {
  TENON_CONSUMED = 0,          /* something is done: see `done` */
  TENON_CONSUME_TIMEOUT = 1,   /* the listener took longer than consume_timeout_ms */
  TENON_CONSUME_EXCEPTION = 2, /* the listener threw, which it must not */
  TENON_CONSUME_FAILED = 3     /* all of it comes again */
} tenon_consume_outcome;

/* One call of the listener; of a pull consumer, one poll that returned something. */
typedef struct tenon_consume_call {
  size_t size;
  const char* group;
  tenon_message_queue queue; /* of a retry that of the retry topic */
  const tenon_delivery* const* messages;
  size_t count;
  size_t done;     /* after: so many of them, from the first on; the others come again */
  int64_t cost_ms; /* after */
  int32_t outcome; /* after: tenon_consume_outcome */
  int32_t reserved;
} tenon_consume_call;

typedef struct tenon_consume_hook {
  size_t size;
  void* arg; /* first argument of all */
  /* 0: the listener does not get the message, it counts as done. On a thread of the client: must be quick. */
  int32_t (*wants)(void* arg, const tenon_delivery* message);
  /* On the listener's thread, or that of tenon_pull_poll(). */
  void (*before)(void* arg, const tenon_consume_call* call);
  void (*after)(void* arg, const tenon_consume_call* call);
} tenon_consume_hook;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_HOOKS_H */
