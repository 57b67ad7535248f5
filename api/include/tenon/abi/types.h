/* Basic types of the plug-in ABI: status codes, views, holds, completions, and the inline helpers
 * that every other header and most plug-ins use. Plain C11, also valid as C++11 to C++20.
 *
 * Rules of every struct here: fixed-width members with natural alignment, explicit reserved words
 * that are zero, no bool, enum, long, bit-field or flexible array. Arrays are passed as (first,
 * stride, n): the stride is the caller's sizeof, the callee steps by it and never by its own
 * sizeof.
 *
 * Thread tags used in the contracts (roles, not OS threads):
 *   [control]     serial per process; may block, bounded by the call's timeout
 *   [append]      serial per storage instance, the order of calls is the log order; no sync, no socket
 *   [io]          the host's network threads, concurrent; never blocks, target below 50 microseconds
 *   [worker]      the host's worker pool, concurrent; may block on disk
 *   [sink]        serial per event-sink instance; may block
 *   [any-thread]  concurrent from anywhere, plug-in threads included; never blocks
 * Two calls with the same serial tag on one instance never overlap and happen before each other. */
#ifndef TENON_ABI_TYPES_H
#define TENON_ABI_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Version of these headers. A host refuses another major; the minor is information only. */
#define TENON_ABI_MAJOR 1
#define TENON_ABI_MINOR 0

/* Function types do not throw. From C++17 on that is part of the type: storing a function that may
 * throw in an interface struct does not compile. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define TENON_NOEXCEPT noexcept
#else
#define TENON_NOEXCEPT
#endif
#define TENON_CALL
#define TENON_FN(ret, name, ...) ret(TENON_CALL* name)(__VA_ARGS__) TENON_NOEXCEPT

#ifdef __cplusplus
#define TENON_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define TENON_EXTERN_C_BEGIN extern "C" {
#define TENON_EXTERN_C_END }
#else
#define TENON_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define TENON_EXTERN_C_BEGIN
#define TENON_EXTERN_C_END
#endif
#define TENON_ASSERT_SIZE(type, bytes) \
  TENON_STATIC_ASSERT(sizeof(type) == (bytes), "size of " #type " is part of the ABI")
#define TENON_ASSERT_OFFSET(type, member, bytes)         \
  TENON_STATIC_ASSERT(offsetof(type, member) == (bytes), \
                      "offset of " #type "." #member " is part of the ABI")

TENON_STATIC_ASSERT(sizeof(void*) == 8, "this ABI is for 64-bit platforms");
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this ABI is for little-endian platforms"
#endif

TENON_EXTERN_C_BEGIN

/* >= 0 success, < 0 failure. Treat an unknown negative value as TENON_INTERNAL, an unknown positive
 * one as TENON_OK. */
typedef int32_t tenon_status;
enum {
  TENON_OK = 0,
  TENON_PENDING = 1,      /* a completion with the token of the call will follow, exactly once */
  TENON_MORE = 2,         /* success, and there is more than fitted */
  TENON_UNCHANGED = 3,    /* success, nothing had to be done */
  TENON_INVALID = -1,     /* argument or record illegal */
  TENON_UNSUPPORTED = -2, /* function or option not offered */
  TENON_NOT_FOUND = -3,   /* queue, topic, key, peer unknown */
  TENON_EMPTY = -4,       /* queue has never had an entry */
  TENON_RANGE_LOW = -5,   /* below the minimum */
  TENON_RANGE_END = -6,   /* exactly the next offset */
  TENON_RANGE_HIGH = -7,  /* beyond the next offset */
  TENON_GAP = -8,         /* in range but not readable */
  TENON_LIMIT = -9,       /* a length limit exceeded */
  TENON_BUSY = -10,       /* back-pressure, try later */
  TENON_FULL = -11,       /* disk or quota */
  TENON_TIMEOUT = -12,
  TENON_NOT_READY = -13,  /* no replica, not recovered, starting */
  TENON_NOT_LEADER = -14, /* the role forbids it */
  TENON_STALE = -15,      /* epoch, generation or handle outdated */
  TENON_CONFLICT = -16,   /* position or content does not match */
  TENON_IO = -17,         /* a system call failed, see tenon_error.os_errno */
  TENON_CORRUPT = -18,    /* data fails its check */
  TENON_DENIED = -19,     /* authorisation */
  TENON_NOMEM = -20,
  TENON_CLOSED = -21, /* shutting down */
  TENON_CANCELLED = -22,
  TENON_SMALL_BUFFER = -23, /* output too small, needed size in the count argument */
  TENON_INCOMPATIBLE = -24, /* version or format */
  TENON_INTERNAL = -25      /* a bug, or unknown */
};

/* Names an asynchronous operation; chosen by the caller, completed exactly once. */
typedef uint64_t tenon_token;
/* Handle of one queue of the storage; 0 is no handle. */
typedef uint64_t tenon_queue;

/* UTF-8 text, NOT NUL-terminated, never owned, valid until the call returns unless said otherwise.
 * ptr may be NULL when len is 0. */
typedef struct tenon_str {
  const char* ptr;
  size_t len;
} tenon_str;

/* The same for bytes; layout equals struct iovec. */
typedef struct tenon_bytes {
  const uint8_t* ptr;
  size_t len;
} tenon_bytes;

/* Where a failure is described. The caller sets size, buf and cap and zeroes the rest; only on
 * failure the callee writes at most cap bytes including a final NUL, sets len to the length of the
 * full text, os_errno if a system call failed, retry_ms if waiting helps. The pointer may be NULL
 * and cap may be 0. Use tenon_fail(). */
typedef struct tenon_error {
  uint32_t size;
  int32_t os_errno;
  uint32_t retry_ms;
  uint32_t reserved0;
  char* buf;
  size_t cap;
  size_t len;
} tenon_error;

/* Keeps memory valid. The receiver calls release(owner, id) exactly once, from any thread, possibly
 * long after the call, before the owner's destroy. release == NULL: nothing to release. */
typedef struct tenon_hold {
  void* owner;
  TENON_FN(void, release, void* owner, uint64_t id);
  uint64_t id;
} tenon_hold;

/* IPv4 in the first 4 bytes of ip; port in host order; family 4 or 6, 0 = no address. */
typedef struct tenon_addr {
  uint8_t ip[16];
  uint16_t port;
  uint8_t family;
  uint8_t reserved0;
  uint32_t reserved1;
} tenon_addr;

typedef struct tenon_kv {
  tenon_str key, value;
} tenon_kv;

/* Receiver of a report: put may be called any number of times, only during the call that got the
 * sink. */
typedef struct tenon_sink {
  uint32_t size;
  uint32_t reserved0;
  void* ctx;
  TENON_FN(void, put, void* ctx, const tenon_kv* kv, size_t n);
} tenon_sink;

/* Result of an asynchronous operation. message is valid during the call that delivers it. */
typedef struct tenon_completion {
  tenon_token token;
  tenon_status status;
  uint32_t detail;
  uint64_t value[2];
  tenon_str message;
} tenon_completion;

TENON_ASSERT_SIZE(tenon_str, 16);
TENON_ASSERT_SIZE(tenon_bytes, 16);
TENON_ASSERT_SIZE(tenon_error, 40);
TENON_ASSERT_SIZE(tenon_hold, 24);
TENON_ASSERT_SIZE(tenon_addr, 24);
TENON_ASSERT_SIZE(tenon_kv, 32);
TENON_ASSERT_SIZE(tenon_sink, 24);
TENON_ASSERT_SIZE(tenon_completion, 48);

/* True if the struct that s points to is long enough to contain the member and the member is not
 * null. The END of the member is tested: of a pointer and its length appended in different minors
 * each needs its own test. */
#define TENON_HAS(s, type, member) \
  ((s)->size >= offsetof(type, member) + sizeof((s)->member) && (s)->member)
/* The same for data members: only the size is tested. */
#define TENON_HAS_FIELD(s, type, member) ((s)->size >= offsetof(type, member) + sizeof((s)->member))
/* True if a member fits into an array element of that stride: test it before writing a member that
 * was appended in a later minor. */
#define TENON_FITS(stride, type, member) \
  ((stride) >= offsetof(type, member) + sizeof(((type*)0)->member))
/* Element i of an array with a stride. */
#define TENON_AT(type, first, stride, i)                                   \
  ((const type*)(const void*)((const unsigned char*)(const void*)(first) + \
                              (size_t)(stride) * (size_t)(i)))
#define TENON_AT_MUT(type, first, stride, i) \
  ((type*)(void*)((unsigned char*)(void*)(first) + (size_t)(stride) * (size_t)(i)))

/* The size rule: copies the common prefix of a struct of the other side that starts with its size
 * into a zeroed struct of our own, whose size then says how much was copied. Work with the copy
 * only. */
static inline void tenon_adopt(void* own, size_t own_bytes, const void* theirs) {
  uint32_t bytes;
  memcpy(&bytes, theirs, sizeof bytes);
  if (bytes > own_bytes) {
    bytes = (uint32_t)own_bytes;
  }
  memset(own, 0, own_bytes);
  memcpy(own, theirs, bytes);
  memcpy(own, &bytes, sizeof bytes);
}

static inline tenon_str tenon_str_of(const char* text) {
  tenon_str s;
  s.ptr = text;
  s.len = text ? strlen(text) : 0;
  return s;
}

static inline int tenon_str_eq(tenon_str a, tenon_str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Describes a failure in err (which may be NULL or without room) and returns the status, so that
 * `return tenon_fail(err, TENON_INVALID, "max_depth must be positive");` is enough. Cuts at a
 * character. */
static inline tenon_status tenon_fail_str(tenon_error* err, tenon_status status, tenon_str text) {
  size_t n;
  if (!err) {
    return status;
  }
  err->len = text.len;
  if (!err->buf || err->cap == 0) {
    return status;
  }
  n = text.len < err->cap - 1 ? text.len : err->cap - 1;
  while (n > 0 && n < text.len && ((unsigned char)text.ptr[n] & 0xC0u) == 0x80u) {
    --n;
  }
  if (n > 0) {
    memcpy(err->buf, text.ptr, n);
  }
  err->buf[n] = 0;
  return status;
}

static inline tenon_status tenon_fail(tenon_error* err, tenon_status status, const char* text) {
  return tenon_fail_str(err, status, tenon_str_of(text));
}

/* Message properties are one text: name 0x01 value 0x02 name 0x01 value ... with or without a last
 * 0x02. */
#define TENON_PROP_NAME_END 1
#define TENON_PROP_VALUE_END 2

/* Steps to the next property from byte *pos (start with 0). Returns 1 and sets name and value
 * (views into text), or 0 at the end. A segment without a separator, with an empty name or with an
 * empty value is no property and is passed over. */
static inline int tenon_prop_next(tenon_bytes text,
                                  size_t* pos,
                                  tenon_str* name,
                                  tenon_str* value) {
  while (*pos < text.len) {
    const uint8_t* begin = text.ptr + *pos;
    size_t left = text.len - *pos;
    const uint8_t* end = (const uint8_t*)memchr(begin, TENON_PROP_VALUE_END, left);
    size_t segment = end ? (size_t)(end - begin) : left;
    const uint8_t* middle = (const uint8_t*)memchr(begin, TENON_PROP_NAME_END, segment);
    *pos += segment + 1;
    if (middle && middle > begin && middle + 1 < begin + segment) {
      name->ptr = (const char*)begin;
      name->len = (size_t)(middle - begin);
      value->ptr = (const char*)middle + 1;
      value->len = segment - name->len - 1;
      return 1;
    }
  }
  return 0;
}

/* Value of a property; returns 1 if it is present. Later duplicates overwrite earlier ones. */
static inline int tenon_prop_find(tenon_bytes text, tenon_str name, tenon_str* value) {
  size_t pos = 0;
  int found = 0;
  tenon_str n, v;
  while (tenon_prop_next(text, &pos, &n, &v)) {
    if (tenon_str_eq(n, name)) {
      *value = v;
      found = 1;
    }
  }
  return found;
}

TENON_EXTERN_C_END

#endif
