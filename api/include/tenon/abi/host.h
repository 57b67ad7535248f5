/* Services that a host offers to an instance. Fetch them in init with tenon_host.get_interface,
 * copy them with tenon_adopt(). First argument of every function: tenon_host.ctx. Services marked
 * "always" are never NULL; test the others. Services call nothing back into the plug-in before they
 * return, except tenon_sink. Do not hold a lock of your own while calling a function marked "may
 * wake". */
#ifndef TENON_ABI_HOST_H
#define TENON_ABI_HOST_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_HOST_LOG_IID "tenon.host.log/1"               /* always */
#define TENON_HOST_CONFIG_IID "tenon.host.config/1"         /* always */
#define TENON_HOST_CLOCK_IID "tenon.host.clock/1"           /* always */
#define TENON_HOST_METRICS_IID "tenon.host.metrics/1"       /* always */
#define TENON_HOST_EXEC_IID "tenon.host.exec/1"             /* always */
#define TENON_HOST_COMPLETION_IID "tenon.host.completion/1" /* always */
#define TENON_HOST_BUFFER_IID "tenon.host.buffer/1"

enum {
  TENON_LOG_TRACE = 0,
  TENON_LOG_DEBUG = 1,
  TENON_LOG_INFO = 2,
  TENON_LOG_WARN = 3,
  TENON_LOG_ERROR = 4,
  TENON_LOG_CRITICAL = 5,
  TENON_LOG_HOST_MISBEHAVES = 6 /* the host broke its side of the contract */
};

/* Log. The host adds the plug-in id; text is finished UTF-8, no format string crosses. */
typedef struct tenon_host_log {
  uint32_t size;
  int32_t
      level; /* lowest level that was enabled when the service was fetched; a hint, ask enabled() */
  /* [any-thread] 1 if a line of that level would be written. */
  TENON_FN(int32_t, enabled, void* ctx, int32_t level);
  /* [any-thread] One line; kv is appended as key=value. The only service allowed after deactivate.
   */
  TENON_FN(void, write, void* ctx, int32_t level, tenon_str text, const tenon_kv* kv, size_t n);
} tenon_host_log;

/* A table or array of the configuration, owned by the host, valid until the next reconfigure or
 * destroy. */
typedef struct tenon_node tenon_node;
enum { TENON_DIR_STORE_ROOT = 0, TENON_DIR_PRIVATE = 1, TENON_DIR_TEMP = 2 };

/* Configuration: the plug-in's own options table. [control] all, during init and reconfigure. */
typedef struct tenon_host_config {
  uint32_t size;
  uint32_t reserved0;
  /* The options table; never NULL. */
  TENON_FN(const tenon_node*, root, void* ctx);
  /* Value of a key, or of an array element with an empty key and t = the element from at(). out as
   * TENON_TYPE_... says. NOT_FOUND = absent (use your default; err is not written), INVALID = wrong
   * type or malformed, the text contains file:line:column. Marks the key as read. */
  TENON_FN(tenon_status,
           get,
           void* ctx,
           const tenon_node* t,
           tenon_str key,
           uint32_t type,
           void* out,
           tenon_error* err);
  /* Sub-table or array (TENON_TYPE_TABLE, TENON_TYPE_ARRAY). Errors as get. */
  TENON_FN(tenon_status,
           child,
           void* ctx,
           const tenon_node* t,
           tenon_str key,
           uint32_t type,
           const tenon_node** out,
           tenon_error* err);
  /* Members of a table or elements of an array; 0 for a scalar. */
  TENON_FN(size_t, count, void* ctx, const tenon_node* n);
  /* Member i: key (empty in an array), TENON_TYPE_BOOL to STRING, ARRAY or TABLE, and the node
   * itself. Any out pointer may be NULL. NOT_FOUND if i >= count. Marks the member as read. */
  TENON_FN(tenon_status,
           at,
           void* ctx,
           const tenon_node* n,
           size_t i,
           tenon_str* key,
           uint32_t* type,
           const tenon_node** out);
  /* "file:line:column" of a key of n, or of n itself with an empty key. Valid as long as the node.
   */
  TENON_FN(tenon_str, where, void* ctx, const tenon_node* n, tenon_str key);
  /* Directory, valid until destroy; empty = the host has none. STORE_ROOT, PRIVATE (state of this
   * plug-in, not created by the host), TEMP. */
  TENON_FN(tenon_str, dir, void* ctx, uint32_t kind);
} tenon_host_config;

/* The only source of time for behaviour; tests replace it. [any-thread] */
typedef struct tenon_host_clock {
  uint32_t size;
  uint32_t reserved0;
  TENON_FN(int64_t, wall_ms, void* ctx);  /* milliseconds since 1970 UTC */
  TENON_FN(uint64_t, mono_ns, void* ctx); /* monotonic, arbitrary start */
} tenon_host_clock;

/* Metrics. A cell is a 64-bit word of the host in its own cache line, valid until destroy; the
 * plug-in adds to it with relaxed atomics, no call is needed. Names [a-z0-9_], the host adds prefix
 * and plug-in label. The same name and labels give the same cell; the same name with another kind
 * is CONFLICT. [any-thread] */
typedef struct tenon_host_metrics {
  uint32_t size;
  uint32_t reserved0;
  TENON_FN(tenon_status,
           counter,
           void* ctx,
           tenon_str name,
           const tenon_kv* labels,
           size_t n,
           uint64_t** cell,
           tenon_error* err);
  TENON_FN(tenon_status,
           gauge,
           void* ctx,
           tenon_str name,
           const tenon_kv* labels,
           size_t n,
           int64_t** cell,
           tenon_error* err);
  /* bounds: upper bounds, ascending; one more bucket counts what is above the last. */
  TENON_FN(tenon_status,
           histogram,
           void* ctx,
           tenon_str name,
           const tenon_kv* labels,
           size_t n,
           const double* bounds,
           size_t m,
           uint64_t* id,
           tenon_error* err);
  TENON_FN(void, observe, void* ctx, uint64_t id, const double* v, size_t n);
} tenon_host_metrics;

/* Runs on a thread of the host. */
typedef void(TENON_CALL* tenon_task)(void* self, uint64_t arg) TENON_NOEXCEPT;
typedef void(TENON_CALL* tenon_fd_task)(void* self, int32_t fd, uint32_t events) TENON_NOEXCEPT;

/* post and timer: where the task runs. */
enum { TENON_ON_WORKER = 0, TENON_ON_CONTROL = 1 };
/* watch_fd: bits asked for and reported. HANGUP is always reported. */
enum { TENON_FD_READ = 1, TENON_FD_WRITE = 2, TENON_FD_HANGUP = 4 };
/* where_am_i: tag bits of the calling thread, 0 = a thread the host does not know. */
enum {
  TENON_AT_CONTROL = 1,
  TENON_AT_APPEND = 2,
  TENON_AT_IO = 4,
  TENON_AT_WORKER = 8,
  TENON_AT_SINK = 16,
  TENON_AT_PLUGIN = 32 /* a thread made by the thread service */
};

/* Threads and timers. All [any-thread] and non-blocking except cancel and join. Nothing started
 * here may survive deactivate. */
typedef struct tenon_host_exec {
  uint32_t size;
  uint32_t workers; /* threads of the worker pool */
  /* Runs fn(self, arg) once. BUSY = the queue is full; CLOSED = deactivated. A task that has not begun when
   * deactivate returns is dropped. */
  TENON_FN(tenon_status, post, void* ctx, uint32_t where, tenon_task fn, void* self, uint64_t arg);
  /* First after delay_ms, then every period_ms after the end of the run before (0 = once). One
   * timer never runs twice at a time. */
  TENON_FN(tenon_status,
           timer,
           void* ctx,
           uint32_t where,
           uint64_t delay_ms,
           uint64_t period_ms,
           tenon_task fn,
           void* self,
           uint64_t arg,
           uint64_t* id);
  /* Stops a timer or a watch. Returns when its function is not running, unless called from inside
   * it. NOT_FOUND = already finished. May block: do not hold a lock that the function takes. */
  TENON_FN(tenon_status, cancel, void* ctx, uint64_t id);
  /* A named thread with all signals blocked; at most 15 bytes of the name are shown. Must be
   * joined. */
  TENON_FN(tenon_status,
           thread,
           void* ctx,
           tenon_str name,
           tenon_task fn,
           void* self,
           uint64_t arg,
           uint64_t* id);
  /* Waits for the end of a thread and forgets it. NOT_FOUND = unknown id; INVALID = it is the
   * caller. */
  TENON_FN(tenon_status, join, void* ctx, uint64_t id);
  /* Calls fn on a worker when the descriptor is ready (level-triggered; not again before fn
   * returned) until cancel. The descriptor stays the plug-in's: cancel before closing it. */
  TENON_FN(tenon_status,
           watch_fd,
           void* ctx,
           int32_t fd,
           uint32_t events,
           tenon_fd_task fn,
           void* self,
           uint64_t* id);
  /* TENON_AT_... bits of the calling thread. */
  TENON_FN(uint32_t, where_am_i, void* ctx);
} tenon_host_exec;

/* Delivers results of operations that answered PENDING. [any-thread, may wake] */
typedef struct tenon_host_completion {
  uint32_t size;
  uint32_t reserved0;
  TENON_FN(void, complete, void* ctx, const tenon_completion* c, size_t stride, size_t n);
} tenon_host_completion;

/* Memory of the host, given back with hold.release unless it was handed over with a response. */
typedef struct tenon_buf {
  uint8_t* ptr;
  size_t cap;
  tenon_hold hold;
} tenon_buf;

typedef struct tenon_host_buffer {
  uint32_t size;
  uint32_t reserved0;
  /* [any-thread] At least `bytes` bytes; LIMIT or NOMEM. */
  TENON_FN(tenon_status, acquire, void* ctx, size_t bytes, tenon_buf* out);
  /* [any-thread] Memory of the plug-in as a hold that the host counts; release runs exactly once.
   */
  TENON_FN(tenon_hold,
           wrap,
           void* ctx,
           void* owner,
           void(TENON_CALL* release)(void* owner, uint64_t id) TENON_NOEXCEPT,
           uint64_t id);
} tenon_host_buffer;

TENON_ASSERT_SIZE(tenon_host_log, 24);
TENON_ASSERT_SIZE(tenon_host_config, 64);
TENON_ASSERT_SIZE(tenon_host_clock, 24);
TENON_ASSERT_SIZE(tenon_host_metrics, 40);
TENON_ASSERT_SIZE(tenon_host_exec, 64);
TENON_ASSERT_SIZE(tenon_host_completion, 16);
TENON_ASSERT_SIZE(tenon_buf, 40);
TENON_ASSERT_SIZE(tenon_host_buffer, 24);

TENON_EXTERN_C_END

#endif
