/* DRAFT. Interceptor and authoriser: sees requests before and after they are handled (broker, name
 * server, SDK). Order = order in the configuration, `after` in reverse; the first denial wins. */
#ifndef TENON_DRAFT_INTERCEPTOR_H
#define TENON_DRAFT_INTERCEPTOR_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_INTERCEPTOR_IID "tenon.interceptor/1"

enum { TENON_REQUEST_ONE_WAY = 1, TENON_REQUEST_RESPONSE = 2 };

typedef struct tenon_request {
  uint32_t size;
  int32_t code;
  uint32_t opaque;
  uint32_t flags; /* TENON_REQUEST_... */
  tenon_addr peer;
  uint64_t connection;
  tenon_str language;
  int32_t version;
  uint32_t field_count;
  const tenon_kv* fields;
  tenon_str remark;
  const tenon_bytes* body;
  uint32_t body_pieces;
  uint32_t reserved0;
} tenon_request;

enum { TENON_ALLOW = 0, TENON_DENY = 1, TENON_WAIT = 2, TENON_ALLOW_CHANGED = 3 };

typedef struct tenon_decision {
  uint32_t size;
  uint32_t action; /* TENON_ALLOW ... */
  int32_t response_code;
  uint32_t field_count;
  tenon_kv* fields;
  uint32_t field_cap;
  uint32_t reserved0;
} tenon_decision;

enum { TENON_CONNECTION_OPEN = 1, TENON_CONNECTION_CLOSE = 2, TENON_CONNECTION_IDLE = 3 };

typedef struct tenon_interceptor {
  uint32_t size;
  uint32_t caps;
  /* [control] Sets the bits of the request codes it wants; codes >= 64 * words are always
   * delivered. */
  TENON_FN(void, interests, void* self, uint64_t* request_codes, size_t words);
  /* [io] Fills d; the text of a denial is in err. PENDING with TENON_WAIT: the completion decides.
   */
  TENON_FN(tenon_status,
           before,
           void* self,
           const tenon_request* r,
           tenon_decision* d,
           tenon_token token,
           tenon_error* err);
  /* [io] Observation only. */
  TENON_FN(void,
           after,
           void* self,
           const tenon_request* r,
           const tenon_request* response,
           uint64_t elapsed_ns);
  /* [io] TENON_CONNECTION_... */
  TENON_FN(
      void, connection, void* self, uint64_t connection, uint32_t event, const tenon_addr* peer);
  /* [io] Client side: add signature fields. */
  TENON_FN(tenon_status,
           before_send,
           void* self,
           const tenon_request* r,
           tenon_decision* d,
           tenon_error* err);
} tenon_interceptor;

TENON_ASSERT_SIZE(tenon_request, 112);
TENON_ASSERT_SIZE(tenon_decision, 32);
TENON_ASSERT_SIZE(tenon_interceptor, 48);

TENON_EXTERN_C_END

#endif
