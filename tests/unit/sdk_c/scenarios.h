/* What the C interface promises, one function per scenario. Each returns the line of the first thing that is wrong, or 0. */
#ifndef TENON_TEST_SCENARIOS_H
#define TENON_TEST_SCENARIOS_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

int scenario_send(const char* name_servers, const char* topic);
int scenario_async(const char* name_servers, const char* topic);
int scenario_consume(const char* name_servers, const char* topic, size_t expected, int orderly);
int scenario_retry(const char* name_servers, const char* topic);
int scenario_properties(const char* name_servers, const char* topic);
int scenario_pull(const char* name_servers, const char* topic, size_t expected);
int scenario_sizes(const char* name_servers);
int scenario_illegal(const char* name_servers);
int scenario_destroy_in_callback(const char* name_servers, const char* topic);
/* The next send fails with this code and response. */
int scenario_failing_send(
    const char* name_servers, const char* topic, int32_t code, int32_t response, int32_t unknown);

/* scenarios_more.c */
int scenario_batch(const char* name_servers, const char* topic);
int scenario_choose(const char* name_servers, const char* topic);
int scenario_recall(const char* name_servers, const char* topic);
int scenario_request(const char* name_servers, const char* topic);
int scenario_transaction(const char* name_servers, const char* topic);
int scenario_hold(const char* name_servers, const char* topic);
int scenario_subscribe(const char* name_servers, const char* first, const char* second);

/* scenarios_admin.c */
int scenario_admin_topics(const char* name_servers);
int scenario_admin_offsets(const char* name_servers, const char* topic);
int scenario_admin_groups(const char* name_servers, const char* topic);
int scenario_hooks(const char* name_servers, const char* topic);
int scenario_client_options(const char* url, const char* topic);

#ifdef __cplusplus
}
#endif
#endif
