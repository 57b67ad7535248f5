/* The C interface of a producer of messages that become visible only if a local transaction commits. Part of tenon/client.h, whose rules hold. */
#ifndef TENON_CLIENT_TRANSACTION_H
#define TENON_CLIENT_TRANSACTION_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of the local transaction. */
typedef enum tenon_transaction_state {
  TENON_TRANSACTION_UNKNOWN = 0, /* not decided yet: the broker asks later */
  TENON_TRANSACTION_COMMIT = 1,  /* consumers get the message */
  TENON_TRANSACTION_ROLLBACK = 2 /* nobody gets it */
} tenon_transaction_state;

/* Both return a tenon_transaction_state; anything else counts as TENON_TRANSACTION_UNKNOWN. They may be called at the same time. */
typedef struct tenon_transaction_listener {
  size_t size;
  void* arg; /* their first argument */
  /* Runs the local transaction after the half message was stored. The arguments are valid during the call. */
  int32_t (*execute)(void* arg, const tenon_message* message, const tenon_receipt* half);
  /* Says later what became of one, when the broker did not hear of the end: maybe of a message of another member of the group,
   * or of this one before it was started again, so the state has to be looked up where all of them find it. Ending is not
   * acknowledged, so a check may come even after a commit. */
  int32_t (*check)(void* arg, const tenon_delivery* stored);
} tenon_transaction_listener;

typedef struct tenon_transaction_options {
  size_t size;
  const tenon_producer_options* producer; /* its group is asked by brokers; NULL: defaults */
  uint32_t threads;     /* for check, and for execute of tenon_transaction_send_async(); 0: 1 */
  uint32_t waiting_max; /* further checks are dropped, the broker asks again; 0: 2000 */
  int64_t first_check_after_ms; /* 0: as the broker is configured; counted in whole seconds */
} tenon_transaction_options;

/* Called exactly once, after execute on its thread, or as tenon_send_fn if the message was not stored. `half` is NULL unless
 * code is TENON_CLIENT_OK; state is what was told to the broker. */
typedef void (*tenon_transaction_fn)(void* arg,
                                     int32_t code,
                                     const tenon_receipt* half,
                                     int32_t state);

/* options may be NULL. */
TENON_CLIENT_API int32_t tenon_transaction_open(tenon_client* client,
                                                const tenon_transaction_options* options,
                                                const tenon_transaction_listener* listener,
                                                tenon_transaction** out) TENON_CLIENT_NOTHROW;
/* Stores the half message, runs execute on this thread, tells the broker. A message that is stored less safely than promised
 * is rolled back without execute. half (its size set) and state may be NULL. The message must not be delayed. Blocks; not
 * in a callback. */
TENON_CLIENT_API int32_t tenon_transaction_send(tenon_transaction* transaction,
                                                const tenon_message* message,
                                                tenon_receipt* half,
                                                int32_t* state) TENON_CLIENT_NOTHROW;
/* @return TENON_CLIENT_OK if `done` will be or was called; otherwise it never is */
TENON_CLIENT_API int32_t tenon_transaction_send_async(tenon_transaction* transaction,
                                                      const tenon_message* message,
                                                      tenon_transaction_fn done,
                                                      void* arg) TENON_CLIENT_NOTHROW;
/* Waits for running calls of the listener; it is not called when this has returned, unless it was called from there. */
TENON_CLIENT_API void tenon_transaction_destroy(tenon_transaction* transaction)
    TENON_CLIENT_NOTHROW;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_TRANSACTION_H */
