/* A queue selector in twenty lines of C11: sends every message to the last queue of its topic that does not belong
 * to the broker where the attempt before failed. */
#include "tenon/abi/queue_selector.h"
#include "tenon/abi/stateless.h"

static int32_t select_last(void* self, const tenon_queue_set* set, const tenon_select* how) {
  (void)self;
  for (uint32_t i = set->count; i > 0; --i) {
    const tenon_queue_ref* queue = TENON_AT(tenon_queue_ref, set->queues, set->stride, i - 1);
    if (how->attempt == 0 || !tenon_str_eq(queue->broker, how->last_broker)) {
      return (int32_t)(i - 1);
    }
  }
  return TENON_EMPTY; /* the client falls back to its own choice */
}

static const tenon_selector selector = {.size = sizeof selector, .select = select_last};

TENON_STATELESS_PLUGIN("org.example.last-queue",
                       "1.0.0",
                       "the last queue of the topic",
                       TENON_QUEUE_SELECTOR_IID,
                       selector)
