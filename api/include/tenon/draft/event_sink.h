/* DRAFT. Event sink: receives events and metrics in batches; a slow sink loses events, not
 * messages. */
#ifndef TENON_DRAFT_EVENT_SINK_H
#define TENON_DRAFT_EVENT_SINK_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_EVENT_SINK_IID "tenon.event-sink/1"

/* Sinks ignore kinds that they do not know. */
enum {
  TENON_EVENT_ROLE_CHANGE = 1,
  TENON_EVENT_GATE = 2,
  TENON_EVENT_PEER = 3,
  TENON_EVENT_DISK = 4,
  TENON_EVENT_FLUSH_SLOW = 5,
  TENON_EVENT_METADATA = 6,
  TENON_EVENT_CLIENT = 7,
  TENON_EVENT_SLOW_REQUEST = 8,
  TENON_EVENT_DEAD_LETTER = 9,
  TENON_EVENT_TXN_EXHAUSTED = 10,
  TENON_EVENT_PLUGIN = 11,
  TENON_EVENT_RECOVERY = 12
};

typedef struct tenon_event {
  uint32_t kind;     /* TENON_EVENT_... */
  uint32_t severity; /* as the log levels */
  int64_t when_ms;
  tenon_str subject;
  const tenon_kv* kv;
  size_t kv_count;
} tenon_event;

enum { TENON_SAMPLE_COUNTER = 1, TENON_SAMPLE_GAUGE = 2, TENON_SAMPLE_HISTOGRAM = 3 };

typedef struct tenon_sample {
  tenon_str name;
  uint32_t kind; /* TENON_SAMPLE_... */
  uint32_t label_count;
  const tenon_kv* labels;
  double value;
  const double* bounds;
  const uint64_t* counts;
  uint32_t buckets;
  uint32_t reserved0;
} tenon_sample;

typedef struct tenon_event_sink {
  uint32_t size;
  uint32_t caps;
  /* [sink] At most 256 per call or every 200 ms; lost = events dropped since the last call. */
  TENON_FN(void, events, void* self, const tenon_event* e, size_t stride, size_t n, uint64_t lost);
  /* [sink] All series, every 10 s unless configured. */
  TENON_FN(
      void, metrics, void* self, int64_t when_ms, const tenon_sample* s, size_t stride, size_t n);
} tenon_event_sink;

TENON_ASSERT_SIZE(tenon_event, 48);
TENON_ASSERT_SIZE(tenon_sample, 64);
TENON_ASSERT_SIZE(tenon_event_sink, 24);

TENON_EXTERN_C_END

#endif
