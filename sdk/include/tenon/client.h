/* The client library for C and for languages that call C: producers and consumers. C11, stable: symbols carry the version
 * TENON_1, structures grow at their end only.
 *
 *   tenon_client *client;
 *   tenon_client_options options = {.size = sizeof options, .name_servers = "10.0.0.1:9876"};
 *   if (tenon_client_connect(&options, &client) != TENON_CLIENT_OK) puts(tenon_client_error_text());
 *
 * Rules. Every option structure begins with `size`, to be set to its sizeof; every other member that is zero has its default,
 * so `{.size = sizeof o}` is complete. Functions return TENON_CLIENT_OK or a tenon_client_code; what went wrong is then told
 * by tenon_client_error_*() on the same thread. Text is UTF-8. Times are milliseconds. Arguments are copied, unless it
 * is said otherwise. Handles may be used from any thread and be destroyed in any order and on any thread, callbacks and
 * listeners included; destroying NULL does nothing. No exception crosses this interface; callbacks must not throw either. */
#ifndef TENON_CLIENT_H
#define TENON_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TENON_CLIENT_API __attribute__((visibility("default")))
#else
#define TENON_CLIENT_API
#endif
#ifdef __cplusplus
#define TENON_CLIENT_NOTHROW noexcept
extern "C" {
#else
#define TENON_CLIENT_NOTHROW
#endif

typedef struct tenon_client tenon_client;     /* connections, routes, threads */
typedef struct tenon_producer tenon_producer; /* keeps what it needs of the client alive */
typedef struct tenon_consumer tenon_consumer; /* the same */
typedef struct tenon_transaction
    tenon_transaction;                        /* the same: a producer of transactional messages */
typedef struct tenon_delivery tenon_delivery; /* a received message */

/* Numbers are those of the C++ library (tenon/sdk/result.h), where RocketMQ's Java client has one also of that. */
typedef enum tenon_client_code {
  TENON_CLIENT_OK = 0,
  TENON_CLIENT_INVALID_ARGUMENT = 1, /* an option or argument is illegal; nothing was sent */
  TENON_CLIENT_REFUSED = 2,   /* the server answered with an error: tenon_client_error_response() */
  TENON_CLIENT_BUSY = 3,      /* too many calls in flight; nothing was sent */
  TENON_CLIENT_CLOSED = 4,    /* the connection was lost while the answer was awaited */
  TENON_CLIENT_CANCELLED = 5, /* the object was closed */
  TENON_CLIENT_CONFLICT = 6,  /* the group is open already in this client */
  TENON_CLIENT_NOT_FOUND = 7, /* no such topic, plug-in */
  TENON_CLIENT_BAD_ANSWER = 8,       /* the answer cannot be understood */
  TENON_CLIENT_UNSUPPORTED = 9,      /* not offered by this library or this server */
  TENON_CLIENT_INTERNAL = 10,        /* a bug, or no memory */
  TENON_CLIENT_MESSAGE_ILLEGAL = 13, /* the message breaks a limit; nothing was sent */
  TENON_CLIENT_CONNECT = 10001,      /* no connection to the broker; nothing was sent */
  TENON_CLIENT_TIMEOUT = 10002,      /* no answer in time */
  TENON_CLIENT_BROKER_NOT_EXIST = 10003,
  TENON_CLIENT_NO_NAME_SERVER = 10004,
  TENON_CLIENT_NO_ROUTE = 10005,        /* the topic is unknown and cannot be created */
  TENON_CLIENT_REQUEST_TIMEOUT = 10006, /* the request was sent, nobody replied in time */
  TENON_CLIENT_CREATE_REPLY = 10007     /* the message is no request: nothing to reply to */
} tenon_client_code;

/* Of the last call on this thread that failed, or of the callback that runs on it. Texts are valid until the next call. */
TENON_CLIENT_API const char* tenon_client_error_text(void)
    TENON_CLIENT_NOTHROW; /* for people, with the server's remark */
TENON_CLIENT_API int32_t tenon_client_error_response(void)
    TENON_CLIENT_NOTHROW; /* the server's code, -1 if none */
/* 1: the request was written and may have been carried out, so sending again may duplicate. */
TENON_CLIENT_API int32_t tenon_client_error_outcome_unknown(void) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_client_version(void) TENON_CLIENT_NOTHROW; /* "1.0.0" */

/* level: 0 debug, 1 info, 2 warning, 3 error. From any thread. */
typedef void (*tenon_client_log_fn)(void* arg, int32_t level, const char* text);
/* For all clients of the process, instead of warnings going to stderr. NULL: back to stderr. Meant for start-up. */
TENON_CLIENT_API void tenon_client_set_log(tenon_client_log_fn log, void* arg) TENON_CLIENT_NOTHROW;

/* ---- client ---- */

/* TLS 1.2 or 1.3 towards name servers and brokers. Files are PEM. */
typedef struct tenon_tls_options {
  size_t size;
  const char* ca_file;     /* who may have signed the servers' certificates; NULL: the system's */
  const char* server_name; /* the certificate must be for this; NULL: the host of the address */
  const char* certificate_file; /* of this client, with its chain, where servers ask for one */
  const char* key_file;         /* of certificate_file */
  const char* key_password;
  int32_t no_verify;     /* 1: any certificate is taken */
  int32_t no_name_check; /* 1: a certificate for another host is taken */
} tenon_tls_options;

typedef struct tenon_client_options {
  size_t size;
  const char* name_servers;        /* "host:port;host:port"; NULL: environment NAMESRV_ADDR */
  const char* instance_name;       /* second part of the client id; NULL: unique */
  const char* client_ip;           /* first part of the client id; NULL: found */
  const char* plugin_dirs;         /* "dir:dir" of selector and allocator plug-ins */
  uint32_t io_threads;             /* 0: 1 */
  uint32_t connections_per_broker; /* 0: 1 */
  int64_t route_refresh_ms;        /* 0: 30000 */
  int64_t heartbeat_ms;            /* 0: 30000 */
  int64_t api_timeout_ms;          /* 0: 3000 */
  int64_t connect_timeout_ms;      /* 0: 3000 */
  const char*
      access_key; /* NULL: credentials_file; that too: the environment (TENON_ACCESS_KEY …) */
  const char* secret_key;
  const char* security_token;   /* of temporary accounts */
  const char* credentials_file; /* YAML as tools.yml, properties or TOML */
  const tenon_tls_options* tls; /* NULL: not encrypted */
  /* "http://host:port/path": gives the list of name servers, now and every two minutes. Used when there is neither
   * name_servers nor NAMESRV_ADDR. */
  const char* name_server_url;
  const char* unit_name; /* last part of the client id */
  const char*
      name_space; /* "ns": topics and groups are ns%... for servers, as Java's setNamespace() */
  const char* trace_topic; /* where the trace is written; NULL: "RMQ_SYS_TRACE_TOPIC" */
  int32_t
      trace; /* 1: producers and consumers write RocketMQ's message trace, which its tools show */
  int32_t stream_requests; /* 1: requests and client id as those of Java's pull consumers */
  int64_t switch_after_ms; /* without a connection for so long, sends use another broker of the
                              topic; 0: 500; negative: off */
} tenon_client_options;

/* options may be NULL. */
TENON_CLIENT_API int32_t tenon_client_connect(const tenon_client_options* options,
                                              tenon_client** out) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_client_id(const tenon_client* client)
    TENON_CLIENT_NOTHROW; /* lives as long as the client */
TENON_CLIENT_API void tenon_client_destroy(tenon_client* client) TENON_CLIENT_NOTHROW;

/* ---- producer ---- */

typedef struct tenon_property {
  const char* name;
  const char* value;
} tenon_property;

typedef struct tenon_message_queue {
  const char* topic;
  const char* broker; /* its name, as in receipts and tenon_delivery_broker() */
  int32_t id;
  int32_t reserved; /* 0 */
} tenon_message_queue;
typedef void (*tenon_queue_fn)(void* arg,
                               const tenon_message_queue* queue); /* valid during the call */

struct tenon_send_hook;    /* client_hooks.h */
struct tenon_consume_hook; /* the same */
struct tenon_message;
/* Chooses a queue: gets the writable ones in the order that all clients see (broker, then id). @return an index; any other
 * number fails the send. Called on the sending thread, or on one of the client if the route was not known yet. */
typedef int32_t (*tenon_select_fn)(void* arg,
                                   const tenon_message_queue* queues,
                                   size_t count,
                                   const struct tenon_message* message);

typedef struct tenon_message {
  size_t size;
  const char* topic;
  const void* body;
  size_t body_length;
  const char* tag;
  const char* keys; /* joined by blanks */
  const char*
      sharding_key; /* all messages with one key go to one queue, in the order of sending; tried once */
  const tenon_property* properties;
  size_t property_count;
  int64_t delay_ms;      /* delivered so long after being stored; at most one of the three */
  int64_t deliver_at_ms; /* delivered at this time since the epoch */
  int32_t delay_level;   /* 1 to 18: 1s 5s 10s 30s 1m ... 2h */
  int32_t flag;          /* stored as it is */
  int64_t timeout_ms;    /* 0: that of the producer */
  /* At most one of sharding_key and these two; tried once. */
  const tenon_message_queue* queue; /* exactly this one */
  tenon_select_fn select;           /* chooses the queue */
  void* select_arg;
  int32_t no_wait;  /* 1: the answer does not wait for what the broker promises (flush, replica) */
  int32_t reserved; /* 0 */
} tenon_message;

typedef struct tenon_receipt {
  size_t size;
  int32_t
      status; /* 0 stored as promised; stored, but: 1 not on disk in time, 2 not replicated in time, 3 no replica */
  int32_t queue_id;
  int64_t queue_offset;
  char id[128];        /* that consumers see */
  char offset_id[128]; /* the broker's */
  char broker[256];
  char recall_handle[512]; /* of a message delayed to any time */
  int32_t message_count;   /* more than 1 of a batch: id is that of the first */
  int32_t reserved;
  char transaction_id[128]; /* as the broker answered, mostly empty */
} tenon_receipt;

typedef struct tenon_producer_options {
  size_t size;
  const char* group;            /* NULL: "tenon_producer" */
  const char* selector;         /* id of a queue selector plug-in; NULL: round robin */
  int64_t send_timeout_ms;      /* of one send with its retries; 0: 3000 */
  int32_t retries;              /* further attempts; 0: 2, -1: none */
  int32_t compression;          /* 0 zlib, 1 none, 2 lz4, 3 zstd */
  uint64_t compress_from_bytes; /* 0: 4096 */
  uint64_t max_body_bytes;      /* 0: 4 MiB */
  /* 1, 2: avoids brokers that were slow or failed, as RocketMQ 4.9, RocketMQ 5; 0: only retries do */
  int32_t fault_tolerance;
  int32_t retry_not_stored_ok; /* 1: a status other than 0 is tried on another broker; duplicates */
  int32_t retry_busy;          /* 1: SYSTEM_BUSY is retried like other codes */
  int32_t default_topic_queues;       /* per broker, of a topic created by sending; 0: 4 */
  const char* create_topic_key;       /* what such a topic is made like; NULL: "TBW102" */
  const struct tenon_send_hook* hook; /* sees every attempt of every send; NULL: nobody */
  /* tenon_producer_send_async() ends with TENON_CLIENT_BUSY while so many messages, or bodies of so many bytes, wait for
   * their answers */
  uint64_t in_flight_max;       /* 0: 65535 */
  uint64_t in_flight_max_bytes; /* 0: 100 MiB */
} tenon_producer_options;

/* Called exactly once: on a thread of the client, or on the sending one if the message is refused there. `receipt` is NULL
 * unless code is TENON_CLIENT_OK and valid during the call. Must not block; it may send the next message. */
typedef void (*tenon_send_fn)(void* arg, int32_t code, const tenon_receipt* receipt);

/* options may be NULL. */
TENON_CLIENT_API int32_t tenon_producer_open(tenon_client* client,
                                             const tenon_producer_options* options,
                                             tenon_producer** out) TENON_CLIENT_NOTHROW;
/* Blocks until the broker has answered. receipt may be NULL, otherwise its size is set by the caller. Not in a callback. */
TENON_CLIENT_API int32_t tenon_producer_send(tenon_producer* producer,
                                             const tenon_message* message,
                                             tenon_receipt* receipt) TENON_CLIENT_NOTHROW;
/* @return TENON_CLIENT_OK if `done` will be or was called; otherwise it never is */
TENON_CLIENT_API int32_t tenon_producer_send_async(tenon_producer* producer,
                                                   const tenon_message* message,
                                                   tenon_send_fn done,
                                                   void* arg) TENON_CLIENT_NOTHROW;
/* Nobody says whether it arrives. */
TENON_CLIENT_API int32_t tenon_producer_send_oneway(
    tenon_producer* producer, const tenon_message* message) TENON_CLIENT_NOTHROW;
/* Waits until nothing is in flight, then closes. @return TENON_CLIENT_TIMEOUT if something had to be cancelled */
TENON_CLIENT_API int32_t tenon_producer_close(tenon_producer* producer,
                                              int64_t deadline_ms) TENON_CLIENT_NOTHROW;
/* What is in flight ends with TENON_CLIENT_CANCELLED before this returns. */
TENON_CLIENT_API void tenon_producer_destroy(tenon_producer* producer) TENON_CLIENT_NOTHROW;

/* ---- received messages ---- */

/* Views are valid as long as the delivery: during the listener's call, or until tenon_delivery_free() of a copy. They are not
 * terminated by a zero byte: the length is written to *length. */
TENON_CLIENT_API const void* tenon_delivery_body(const tenon_delivery* d,
                                                 size_t* length) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_delivery_topic(const tenon_delivery* d,
                                                  size_t* length) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_delivery_tag(const tenon_delivery* d,
                                                size_t* length) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_delivery_keys(const tenon_delivery* d,
                                                 size_t* length) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API const char* tenon_delivery_broker(const tenon_delivery* d,
                                                   size_t* length) TENON_CLIENT_NOTHROW;
/* NULL if there is no such property. */
TENON_CLIENT_API const char* tenon_delivery_property(const tenon_delivery* d,
                                                     const char* name,
                                                     size_t* length) TENON_CLIENT_NOTHROW;
/* The id of the sender's receipt, with a zero byte. @return its length, also if `room` bytes are not enough */
TENON_CLIENT_API size_t tenon_delivery_id(const tenon_delivery* d,
                                          char* out,
                                          size_t room) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_delivery_queue_id(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int64_t tenon_delivery_queue_offset(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_delivery_reconsume_times(const tenon_delivery* d)
    TENON_CLIENT_NOTHROW; /* 0 at first */
TENON_CLIENT_API int64_t tenon_delivery_born_ms(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int64_t tenon_delivery_store_ms(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_delivery_flag(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
/* Keeps a message beyond the listener's call, without copying its bytes; to be freed. NULL without memory. */
TENON_CLIENT_API tenon_delivery* tenon_delivery_copy(const tenon_delivery* d) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API void tenon_delivery_free(tenon_delivery* copy) TENON_CLIENT_NOTHROW;

/* ---- consumers: client_push.h, client_pull.h ---- */

typedef struct tenon_subscription {
  const char* topic;
  const char* expression; /* NULL: "*"; "a || b"; or SQL text */
  int32_t sql;            /* 1: the expression is SQL92 */
  int32_t reserved;       /* 0 */
} tenon_subscription;

typedef enum tenon_start {
  TENON_START_LAST = 0,
  TENON_START_FIRST = 1,
  TENON_START_TIME = 2
} tenon_start;

#ifdef __cplusplus
}
#endif

#include "tenon/client_admin.h"
#include "tenon/client_hooks.h"
#include "tenon/client_pull.h"
#include "tenon/client_push.h"
#include "tenon/client_send.h"
#include "tenon/client_transaction.h"

#endif /* TENON_CLIENT_H */
