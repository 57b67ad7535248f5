/* What the scenarios have in common. */
#ifndef TENON_TEST_SCENARIO_HELP_H
#define TENON_TEST_SCENARIO_HELP_H

#include "scenarios.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

/* clang-format off */
#define EXPECT(condition) do { if (!(condition)) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tenon_client_error_text()); return __LINE__; } } while (0)
/* clang-format on */

/* Waits at most thirty seconds until a counter has a value. */
static inline int reached(atomic_size_t* counter, size_t value) {
  const time_t deadline = time(NULL) + 30;
  while (atomic_load(counter) < value) {
    if (time(NULL) > deadline)
      return 0;
    thrd_yield();
  }
  return 1;
}

static inline tenon_client* connect_to(const char* name_servers) {
  tenon_client* client = NULL;
  const tenon_client_options options = {.size = sizeof options, .name_servers = name_servers};
  return tenon_client_connect(&options, &client) == TENON_CLIENT_OK ? client : NULL;
}

static inline tenon_producer* producer_of(tenon_client* client) {
  tenon_producer* producer = NULL;
  const tenon_producer_options options = {
      .size = sizeof options, .group = "c_group", .retries = -1};
  return tenon_producer_open(client, &options, &producer) == TENON_CLIENT_OK ? producer : NULL;
}

static inline tenon_message text(const char* topic, const char* body) {
  return (tenon_message){
      .size = sizeof(tenon_message), .topic = topic, .body = body, .body_length = strlen(body)};
}

#endif
