/* Administration: topics, groups, offsets, routes, progress, connections. Part of tenon/client.h.
 *
 * Every call blocks; none in a callback of the client. Lists are told one by one: `each` is called on this thread before the
 * function returns, what it is shown is valid during its call. Structures that are shown have their `size` set to what the
 * library knows; members beyond that are not to be read. */
#ifndef TENON_CLIENT_ADMIN_H
#define TENON_CLIENT_ADMIN_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_admin tenon_admin; /* keeps what it needs of the client alive */

typedef void (*tenon_text_fn)(void* arg, const char* text);

TENON_CLIENT_API int32_t tenon_admin_open(tenon_client* client,
                                          tenon_admin** out) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API void tenon_admin_destroy(tenon_admin* admin) TENON_CLIENT_NOTHROW;

/* ---- topics and routes ---- */

/* On every master of the cluster; replaces the settings of an existing topic. permission: 4 read + 2 write; 0: both. Returns
 * when the name server knows it. */
TENON_CLIENT_API int32_t tenon_admin_create_topic(tenon_admin* admin,
                                                  const char* cluster,
                                                  const char* topic,
                                                  int32_t queues,
                                                  int32_t permission) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_admin_delete_topic(tenon_admin* admin,
                                                  const char* cluster,
                                                  const char* topic) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_admin_topics(tenon_admin* admin,
                                            tenon_text_fn each,
                                            void* arg) TENON_CLIENT_NOTHROW;

typedef struct tenon_broker_info {
  size_t size;
  const char* cluster;
  const char* broker;  /* its name */
  const char* address; /* "host:port" */
  int64_t id;          /* 0: the master */
} tenon_broker_info;
typedef void (*tenon_broker_fn)(void* arg, const tenon_broker_info* broker);

typedef struct tenon_queue_info {
  size_t size;
  const char* broker;
  int32_t read_queues;
  int32_t write_queues;
  int32_t permission; /* 4 read + 2 write */
  int32_t reserved;
} tenon_queue_info;
typedef void (*tenon_queue_info_fn)(void* arg, const tenon_queue_info* queues);

/* Which brokers have how many queues of a topic, and where they are; both functions may be NULL.
 * @return TENON_CLIENT_NOT_FOUND if there is no such topic */
TENON_CLIENT_API int32_t tenon_admin_route(tenon_admin* admin,
                                           const char* topic,
                                           tenon_queue_info_fn each_queue,
                                           tenon_broker_fn each_broker,
                                           void* arg) TENON_CLIENT_NOTHROW;
/* Of all clusters, once for each address. */
TENON_CLIENT_API int32_t tenon_admin_brokers(tenon_admin* admin,
                                             tenon_broker_fn each,
                                             void* arg) TENON_CLIENT_NOTHROW;

/* ---- offsets ---- */

TENON_CLIENT_API int32_t tenon_admin_min_offset(tenon_admin* admin,
                                                const tenon_message_queue* queue,
                                                int64_t* out) TENON_CLIENT_NOTHROW;
TENON_CLIENT_API int32_t tenon_admin_max_offset(tenon_admin* admin,
                                                const tenon_message_queue* queue,
                                                int64_t* out) TENON_CLIENT_NOTHROW;
/* Of the message that was stored at this time since the epoch. */
TENON_CLIENT_API int32_t tenon_admin_offset_at(tenon_admin* admin,
                                               const tenon_message_queue* queue,
                                               int64_t when_ms,
                                               int64_t* out) TENON_CLIENT_NOTHROW;
/* @return TENON_CLIENT_NOT_FOUND if the group has none */
TENON_CLIENT_API int32_t tenon_admin_committed_offset(tenon_admin* admin,
                                                      const char* group,
                                                      const tenon_message_queue* queue,
                                                      int64_t* out) TENON_CLIENT_NOTHROW;
typedef void (*tenon_offset_fn)(void* arg, const tenon_message_queue* queue, int64_t offset);
/* Sets the group's offsets of a topic to the messages of a time, through its members if there are any; -1: behind the last
 * message. Tells the new offsets; each may be NULL. */
TENON_CLIENT_API int32_t tenon_admin_reset_offset(tenon_admin* admin,
                                                  const char* group,
                                                  const char* topic,
                                                  int64_t when_ms,
                                                  tenon_offset_fn each,
                                                  void* arg) TENON_CLIENT_NOTHROW;

typedef struct tenon_queue_progress {
  size_t size;
  tenon_message_queue queue;
  int64_t broker_offset;   /* next one to be written */
  int64_t consumer_offset; /* next one to be consumed */
  int64_t last_ms;         /* when the last consumed message was stored */
} tenon_queue_progress;
typedef void (*tenon_progress_fn)(void* arg, const tenon_queue_progress* progress);
/* Of all queues that the group has an offset of. */
TENON_CLIENT_API int32_t tenon_admin_progress(tenon_admin* admin,
                                              const char* group,
                                              tenon_progress_fn each,
                                              void* arg) TENON_CLIENT_NOTHROW;

/* ---- messages ---- */

/* By the receipt's offset_id, or by its id if a topic is given. *out is to be freed by tenon_delivery_free(). */
TENON_CLIENT_API int32_t tenon_admin_message_by_id(tenon_admin* admin,
                                                   const char* id,
                                                   const char* topic,
                                                   tenon_delivery** out) TENON_CLIENT_NOTHROW;
typedef void (*tenon_delivery_fn)(void* arg, const tenon_delivery* message);
/* Newest first, at most `max` (0: 32), stored between the two times; end_ms 0: until now.
 * @return TENON_CLIENT_NOT_FOUND if there is none */
TENON_CLIENT_API int32_t tenon_admin_messages_by_key(tenon_admin* admin,
                                                     const char* topic,
                                                     const char* key,
                                                     int32_t max,
                                                     int64_t begin_ms,
                                                     int64_t end_ms,
                                                     tenon_delivery_fn each,
                                                     void* arg) TENON_CLIENT_NOTHROW;

/* ---- groups ---- */

typedef struct tenon_group_settings {
  size_t size;
  const char* name;
  int32_t no_consume;   /* 1: its pulls are refused */
  int32_t no_broadcast; /* 1: members may not consume in broadcasting mode */
  int32_t retry_queues; /* of its retry topic; 0: 1, -1: none, so no retries */
  int32_t retry_max;    /* attempts before a message becomes a dead letter; 0: 16, -1: none */
  int32_t no_notify;    /* 1: members are not told at once when one comes or goes */
  int32_t reserved;
} tenon_group_settings;
typedef void (*tenon_group_settings_fn)(void* arg, const tenon_group_settings* settings);

/* Groups with settings on any master of the cluster, by name. */
TENON_CLIENT_API int32_t tenon_admin_groups(tenon_admin* admin,
                                            const char* cluster,
                                            tenon_group_settings_fn each,
                                            void* arg) TENON_CLIENT_NOTHROW;
/* On every master of the cluster; replaces the settings of an existing group. */
TENON_CLIENT_API int32_t tenon_admin_set_group(tenon_admin* admin,
                                               const char* cluster,
                                               const tenon_group_settings* settings)
    TENON_CLIENT_NOTHROW;
/* with_offsets 1: also what the group has consumed. */
TENON_CLIENT_API int32_t tenon_admin_delete_group(tenon_admin* admin,
                                                  const char* cluster,
                                                  const char* group,
                                                  int32_t with_offsets) TENON_CLIENT_NOTHROW;

typedef struct tenon_group_info {
  size_t size;
  const char* mode; /* "CLUSTERING", "BROADCASTING"; "" if nobody is online */
  const char* kind; /* "CONSUME_PASSIVELY" (push), "CONSUME_ACTIVELY" (pull) */
  int32_t online;   /* 1: it has members */
  int32_t mismatch; /* 1: they subscribe differently, and some of them lose messages */
} tenon_group_info;
typedef struct tenon_group_member {
  size_t size;
  const char* client_id;
  const char* address;  /* "ip:port" */
  const char* language; /* "JAVA", "CPP" ... */
  int32_t version;      /* of the protocol */
  int32_t known;        /* 1: its subscriptions are */
} tenon_group_member;
/* What is told about a group, in this order; any function may be NULL. */
typedef struct tenon_group_visitor {
  size_t size;
  void* arg; /* first argument of all */
  void (*group)(void* arg, const tenon_group_info* group);
  void (*member)(void* arg, const tenon_group_member* member);
  /* member NULL: what the broker goes by; otherwise what this member subscribes itself. */
  void (*subscription)(void* arg,
                       const tenon_group_member* member,
                       const tenon_subscription* subscription);
} tenon_group_visitor;
/* Connections and subscriptions of a group; one without members is no error. */
TENON_CLIENT_API int32_t tenon_admin_group(tenon_admin* admin,
                                           const char* group,
                                           const tenon_group_visitor* visitor) TENON_CLIENT_NOTHROW;
/* The client ids of its members. */
TENON_CLIENT_API int32_t tenon_admin_group_members(tenon_admin* admin,
                                                   const char* group,
                                                   tenon_text_fn each,
                                                   void* arg) TENON_CLIENT_NOTHROW;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_ADMIN_H */
