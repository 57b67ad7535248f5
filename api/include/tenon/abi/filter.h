/* Message filter: decides which messages of a queue a subscription gets (broker; SDK as a local
 * re-check). */
#ifndef TENON_ABI_FILTER_H
#define TENON_ABI_FILTER_H

#include "tenon/abi/storage.h"

TENON_EXTERN_C_BEGIN

#define TENON_FILTER_IID "tenon.filter/1"

/* tenon_filter.caps */
enum {
  TENON_FILTER_BITMAP = 1,       /* uses index bit maps */
  TENON_FILTER_BODY = 2,         /* needs the body (draft) */
  TENON_FILTER_THREAD_AFFINE = 4 /* the host serialises calls per expression */
};
enum { TENON_MATCH_NO = 0, TENON_MATCH_YES = 1, TENON_MATCH_UNDECIDED = 2 /* needs properties */ };

/* A compiled expression: immutable, usable by any number of threads, freed with release. */
typedef struct tenon_filter_expr tenon_filter_expr;

/* Required: types, compile, release, match_index, match_properties. */
typedef struct tenon_filter {
  uint32_t size;
  uint32_t caps;            /* TENON_FILTER_... */
  const char* const* types; /* NULL-terminated: "TAG", "SQL92", own names */
  /* [worker] Text is untrusted: bounded time and depth. The error text goes to the client. */
  TENON_FN(tenon_status,
           compile,
           void* self,
           tenon_str type,
           tenon_str text,
           uint32_t flags,
           tenon_filter_expr** out,
           tenon_error* err);
  /* [any-thread] */
  TENON_FN(void, release, void* self, tenon_filter_expr* e);
  /* [worker] Compiles without keeping; *where = byte position of the error. */
  TENON_FN(tenon_status,
           validate,
           void* self,
           tenon_str type,
           tenon_str text,
           uint32_t* where,
           tenon_error* err);
  /* [worker] Normalised form, constants, properties used, cost class. */
  TENON_FN(void, explain, void* self, const tenon_filter_expr* e, const tenon_sink* out);
  /* [io] One TENON_MATCH_... per entry. No allocation. */
  TENON_FN(void,
           match_index,
           void* self,
           const tenon_filter_expr* e,
           const tenon_index_entry* in,
           size_t stride,
           size_t n,
           uint8_t* verdict);
  /* [io] props = raw property text of each message: YES only for TRUE, else NO. No allocation. */
  TENON_FN(void,
           match_properties,
           void* self,
           const tenon_filter_expr* e,
           const tenon_bytes* props,
           size_t n,
           uint8_t* verdict);
} tenon_filter;

TENON_ASSERT_SIZE(tenon_filter, 64);

TENON_EXTERN_C_END

#endif
