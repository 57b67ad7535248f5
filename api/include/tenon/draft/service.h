/* DRAFT. Service front-end: HTTP console, gRPC, metrics endpoint. Reaches the broker through
 * host_broker.h. */
#ifndef TENON_DRAFT_SERVICE_H
#define TENON_DRAFT_SERVICE_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_SERVICE_IID "tenon.service/1"

typedef struct tenon_service {
  uint32_t size;
  uint32_t caps;
  /* [control, active] Binds; the error text names the address. */
  TENON_FN(tenon_status, listen, void* self, tenon_error* err);
  /* [control] Start of the shutdown. */
  TENON_FN(void, stop_accepting, void* self);
  /* [any-thread] For registration and status. */
  TENON_FN(void, endpoints, void* self, const tenon_sink* out);
  /* [worker] Results of its broker calls. */
  TENON_FN(void, completions, void* self, const tenon_completion* c, size_t stride, size_t n);
} tenon_service;

TENON_ASSERT_SIZE(tenon_service, 40);

TENON_EXTERN_C_END

#endif
