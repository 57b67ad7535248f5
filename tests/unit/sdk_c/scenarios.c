#include "scenario_help.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

/* Layout on 64-bit machines: these numbers never change, members are only added behind them. */
_Static_assert(sizeof(void*) != 8 || sizeof(tenon_client_options) >= 112, "tenon_client_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_client_options, connect_timeout_ms) == 72,
               "tenon_client_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_message, timeout_ms) == 96, "tenon_message");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_receipt, recall_handle) == 536,
               "tenon_receipt");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_producer_options, max_body_bytes) == 48,
               "tenon_producer_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_consumer_options, drain_on_close_ms) == 104,
               "tenon_consumer_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_client_options, tls) == 112,
               "tenon_client_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_client_options, switch_after_ms) == 160,
               "tenon_client_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_message, no_wait) == 128, "tenon_message");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_receipt, transaction_id) == 1056,
               "tenon_receipt");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_producer_options, create_topic_key) == 72,
               "tenon_producer_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_consumer_options, cached_max_mib) == 152,
               "tenon_consumer_options");
_Static_assert(sizeof(void*) != 8 || offsetof(tenon_pull_options, cached_max_mib) == 104,
               "tenon_pull_options");
_Static_assert(sizeof(void*) != 8 || sizeof(tenon_message_queue) == 24, "an array of queues");
_Static_assert(sizeof(void*) != 8 || sizeof(tenon_subscription) == 24, "an array of subscriptions");
_Static_assert(sizeof(void*) != 8 || sizeof(tenon_property) == 16, "an array of properties");

int scenario_send(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  EXPECT(client != NULL);
  EXPECT(strchr(tenon_client_id(client), '@') != NULL);
  EXPECT(strcmp(tenon_client_version(), "1.0.0") == 0);
  tenon_producer* producer = producer_of(client);
  EXPECT(producer != NULL);
  tenon_client_destroy(client); /* the producer keeps what it needs */

  tenon_message message = text(topic, "one");
  message.tag = "t";
  message.keys = "k1 k2";
  tenon_receipt receipt = {.size = sizeof receipt};
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  EXPECT(receipt.status == 0 && receipt.queue_offset == 0);
  EXPECT(strlen(receipt.id) == 32 && strcmp(receipt.broker, "broker-a") == 0);
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  EXPECT(tenon_producer_send_oneway(producer, &message) == TENON_CLIENT_OK);

  /* One key, one queue. */
  message.sharding_key = "customer-17";
  int32_t queue = -1;
  for (int i = 0; i < 5; ++i) {
    EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
    EXPECT(queue == -1 || queue == receipt.queue_id);
    queue = receipt.queue_id;
  }
  /* A time of its own gives a handle to take it back. */
  message.sharding_key = NULL;
  message.delay_ms = 3600000;
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  EXPECT(strlen(receipt.recall_handle) > 0);
  EXPECT(tenon_producer_close(producer, 5000) == TENON_CLIENT_OK);
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_CANCELLED);
  tenon_producer_destroy(producer);
  return 0;
}

struct sends {
  atomic_size_t stored;
  atomic_size_t failed;
};

static void on_sent(void* arg, int32_t code, const tenon_receipt* receipt) {
  struct sends* sends = arg;
  if (code == TENON_CLIENT_OK && receipt->size == sizeof *receipt && strlen(receipt->id) == 32) {
    atomic_fetch_add(&sends->stored, 1);
  } else {
    atomic_fetch_add(&sends->failed, 1);
  }
}

int scenario_async(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  EXPECT(producer != NULL);
  struct sends sends = {0};
  for (int i = 0; i < 100; ++i) {
    const tenon_message message = text(topic, "many");
    EXPECT(tenon_producer_send_async(producer, &message, on_sent, &sends) == TENON_CLIENT_OK);
  }
  const tenon_message illegal = text("a.b", "refused here");
  EXPECT(tenon_producer_send_async(producer, &illegal, on_sent, &sends) == TENON_CLIENT_OK);
  EXPECT(tenon_producer_send_async(producer, &illegal, NULL, &sends) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_producer_close(producer, 5000) == TENON_CLIENT_OK);
  EXPECT(atomic_load(&sends.stored) == 100 && atomic_load(&sends.failed) == 1);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

struct received {
  atomic_size_t count;
  atomic_size_t wrong;
  atomic_int_least64_t last_offset;
  tenon_delivery* _Atomic kept;
};

static int32_t on_message(void* arg,
                          const tenon_delivery* const* messages,
                          size_t count,
                          tenon_ack_details* details) {
  struct received* received = arg;
  for (size_t i = 0; i < count; ++i) {
    size_t length = 0;
    const void* body = tenon_delivery_body(messages[i], &length);
    if (length == 0 || body == NULL || details->size != sizeof *details)
      atomic_fetch_add(&received->wrong, 1);
    if (tenon_delivery_queue_offset(messages[i]) <= atomic_load(&received->last_offset))
      atomic_fetch_add(&received->wrong, 1);
    atomic_store(&received->last_offset, tenon_delivery_queue_offset(messages[i]));
    tenon_delivery* copy = tenon_delivery_copy(messages[i]);
    tenon_delivery_free(atomic_exchange(&received->kept, copy));
    atomic_fetch_add(&received->count, 1);
  }
  return TENON_ACK_SUCCESS;
}

int scenario_consume(const char* name_servers, const char* topic, size_t expected, int orderly) {
  tenon_client* client = connect_to(name_servers);
  EXPECT(client != NULL);
  const tenon_subscription subscription = {.topic = topic};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = orderly ? "c_orderly" : "c_concurrent",
                                          .subscriptions = &subscription,
                                          .subscription_count = 1,
                                          .start = TENON_START_FIRST,
                                          .orderly = orderly,
                                          .threads = orderly ? 0 : 1};
  struct received received = {.last_offset = -1};
  tenon_consumer* consumer = NULL;
  tenon_consumer* second = NULL;
  EXPECT(tenon_consumer_open(client, &options, on_message, &received, &consumer) ==
         TENON_CLIENT_OK);
  EXPECT(tenon_consumer_open(client, &options, on_message, &received, &second) ==
         TENON_CLIENT_CONFLICT);
  tenon_client_destroy(client);
  EXPECT(reached(&received.count, expected));
  tenon_consumer_pause(consumer);
  tenon_consumer_resume(consumer);
  EXPECT(tenon_consumer_close(consumer) == TENON_CLIENT_OK);
  tenon_consumer_destroy(consumer);
  EXPECT(atomic_load(&received.wrong) == 0);
  EXPECT(atomic_load(&received.count) == expected);

  /* A copy outlives consumer and client. */
  tenon_delivery* kept = atomic_load(&received.kept);
  size_t length = 0;
  const char* name = tenon_delivery_topic(kept, &length);
  EXPECT(length == strlen(topic) && memcmp(name, topic, length) == 0);
  tenon_delivery_free(kept);
  return 0;
}

struct attempts {
  atomic_size_t count;
  atomic_size_t again;
};

static int32_t later(void* arg,
                     const tenon_delivery* const* messages,
                     size_t count,
                     tenon_ack_details* details) {
  struct attempts* attempts = arg;
  (void)count;
  details->delay_level = 1;
  if (tenon_delivery_reconsume_times(messages[0]) > 0)
    atomic_fetch_add(&attempts->again, 1);
  return atomic_fetch_add(&attempts->count, 1) == 0 ? TENON_ACK_RETRY : TENON_ACK_SUCCESS;
}

int scenario_retry(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  const tenon_subscription subscription = {.topic = topic};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = "c",
                                          .subscriptions = &subscription,
                                          .subscription_count = 1,
                                          .start = TENON_START_FIRST};
  struct attempts attempts = {0};
  tenon_consumer* consumer = NULL;
  EXPECT(tenon_consumer_open(client, &options, later, &attempts, &consumer) == TENON_CLIENT_OK);
  EXPECT(reached(&attempts.count, 2));
  tenon_consumer_destroy(consumer);
  tenon_client_destroy(client);
  EXPECT(atomic_load(&attempts.again) == 1);
  return 0;
}

struct properties {
  atomic_size_t count;
  int line;
};

static int check_properties(const tenon_delivery* d) {
  size_t length = 0;
  char id[64];
  const char* value = tenon_delivery_property(d, "colour", &length);
  EXPECT(value != NULL && length == 4 && memcmp(value, "blue", 4) == 0);
  EXPECT(tenon_delivery_property(d, "none", &length) == NULL);
  EXPECT(tenon_delivery_property(d, NULL, NULL) == NULL);
  EXPECT(memcmp(tenon_delivery_tag(d, &length), "t", 1) == 0 && length == 1);
  EXPECT(memcmp(tenon_delivery_keys(d, &length), "k1 k2", 5) == 0 && length == 5);
  EXPECT(memcmp(tenon_delivery_broker(d, &length), "broker-a", 8) == 0 && length == 8);
  EXPECT(tenon_delivery_id(d, id, sizeof id) == 32 && strlen(id) == 32);
  EXPECT(tenon_delivery_id(d, id, 5) == 32 && strlen(id) == 4);
  EXPECT(tenon_delivery_id(d, NULL, 0) == 32);
  EXPECT(tenon_delivery_flag(d) == 7 && tenon_delivery_queue_id(d) == 0 &&
         tenon_delivery_reconsume_times(d) == 0);
  EXPECT(tenon_delivery_born_ms(d) > 0 &&
         tenon_delivery_store_ms(d) >= tenon_delivery_born_ms(d) - 1);
  const char* body = tenon_delivery_body(d, &length);
  EXPECT(length == 5 && memcmp(body, "a\0b\0c", 5) == 0);
  return 0;
}

static int32_t on_properties(void* arg,
                             const tenon_delivery* const* messages,
                             size_t count,
                             tenon_ack_details* details) {
  struct properties* p = arg;
  (void)count;
  (void)details;
  p->line = check_properties(messages[0]);
  atomic_fetch_add(&p->count, 1);
  return TENON_ACK_SUCCESS;
}

int scenario_properties(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  const tenon_property property = {"colour", "blue"};
  const tenon_message message = {.size = sizeof message,
                                 .topic = topic,
                                 .body = "a\0b\0c",
                                 .body_length = 5,
                                 .tag = "t",
                                 .keys = "k1 k2",
                                 .properties = &property,
                                 .property_count = 1,
                                 .flag = 7};
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  /* SQL selects it. */
  const tenon_subscription subscription = {
      .topic = topic, .expression = "colour = 'blue'", .sql = 1};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = "c_sql",
                                          .subscriptions = &subscription,
                                          .subscription_count = 1,
                                          .start = TENON_START_FIRST};
  struct properties p = {0};
  tenon_consumer* consumer = NULL;
  EXPECT(tenon_consumer_open(client, &options, on_properties, &p, &consumer) == TENON_CLIENT_OK);
  EXPECT(reached(&p.count, 1));
  tenon_consumer_destroy(consumer);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return p.line;
}

/* Polls until so many messages have come. */
static size_t poll_some(tenon_pull* pull, size_t expected) {
  const time_t deadline = time(NULL) + 30;
  size_t got = 0;
  while (got < expected && time(NULL) < deadline) {
    const tenon_delivery* const* messages = NULL;
    size_t count = 0;
    if (tenon_pull_poll(pull, 1000, &messages, &count) != TENON_CLIENT_OK)
      return 0;
    for (size_t i = 0; i < count; ++i) {
      got += tenon_delivery_queue_offset(messages[i]) >= 0 ? 1 : 0;
    }
  }
  return got;
}

int scenario_pull(const char* name_servers, const char* topic, size_t expected) {
  tenon_client* client = connect_to(name_servers);
  const tenon_subscription subscription = {.topic = topic};
  const tenon_pull_queue queue = {.topic = topic, .broker = "broker-a"};
  tenon_pull_options options = {.size = sizeof options,
                                .group = "c_pull",
                                .subscriptions = &subscription,
                                .subscription_count = 1,
                                .start = TENON_START_FIRST};
  tenon_pull* pull = NULL;
  for (int round = 0; round < 2; ++round) { /* what was committed does not come again */
    EXPECT(tenon_pull_open(client, &options, &pull) == TENON_CLIENT_OK);
    EXPECT(tenon_pull_assign(pull, &queue, 1) == TENON_CLIENT_CONFLICT);
    if (round == 0) {
      EXPECT(poll_some(pull, expected) == expected);
      EXPECT(tenon_pull_commit(pull) == TENON_CLIENT_OK);
    } else {
      const tenon_delivery* const* messages = NULL;
      size_t count = 0;
      EXPECT(tenon_pull_poll(pull, 300, &messages, &count) == TENON_CLIENT_OK && count == 0);
    }
    EXPECT(tenon_pull_close(pull) == TENON_CLIENT_OK);
    tenon_pull_destroy(pull);
  }
  options.group = "c_assigned";
  options.subscription_count = 0;
  EXPECT(tenon_pull_open(client, &options, &pull) == TENON_CLIENT_OK);
  EXPECT(tenon_pull_seek(pull, &queue, 0) == TENON_CLIENT_NOT_FOUND);
  EXPECT(tenon_pull_assign(pull, &queue, 1) == TENON_CLIENT_OK);
  EXPECT(poll_some(pull, expected) == expected);
  EXPECT(tenon_pull_seek(pull, &queue, (int64_t)expected - 2) == TENON_CLIENT_OK);
  EXPECT(poll_some(pull, 2) == 2);
  EXPECT(tenon_pull_seek(pull, &queue, -1) == TENON_CLIENT_OK);
  EXPECT(poll_some(pull, expected) == expected);
  tenon_pull_destroy(pull);
  tenon_pull_destroy(NULL);
  EXPECT(tenon_pull_open(client, NULL, &pull) == TENON_CLIENT_INVALID_ARGUMENT);
  tenon_client_destroy(client);
  return 0;
}

int scenario_sizes(const char* name_servers) {
  tenon_client* client = NULL;
  /* An older program knows fewer members: the rest has defaults, whatever lies behind. */
  tenon_client_options options;
  memset(&options, 0x5a, sizeof options);
  options.size = offsetof(tenon_client_options, instance_name);
  options.name_servers = name_servers;
  EXPECT(tenon_client_connect(&options, &client) == TENON_CLIENT_OK);
  tenon_client_destroy(client);
  /* A newer program knows more: fine as long as it does not ask for it. */
  struct {
    tenon_client_options known;
    int64_t more;
  } newer = {.known = {.size = sizeof newer, .name_servers = name_servers}};
  EXPECT(tenon_client_connect(&newer.known, &client) == TENON_CLIENT_OK);
  tenon_client_destroy(client);
  newer.more = 1;
  EXPECT(tenon_client_connect(&newer.known, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "size") != NULL);
  const tenon_client_options half = {
      .size = sizeof half, .name_servers = name_servers, .access_key = "only"};
  EXPECT(tenon_client_connect(&half, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_client_options account = {.size = sizeof account,
                                        .name_servers = name_servers,
                                        .access_key = "name",
                                        .secret_key = "12345678"};
  EXPECT(tenon_client_connect(&account, &client) == TENON_CLIENT_OK);
  tenon_client_destroy(client);
  for (int64_t ms = -1; ms <= 1; ++ms) { /* off, default, given */
    const tenon_client_options switching = {
        .size = sizeof switching, .name_servers = name_servers, .switch_after_ms = ms};
    EXPECT(tenon_client_connect(&switching, &client) == TENON_CLIENT_OK);
    tenon_client_destroy(client);
  }
  const tenon_client_options never = {
      .size = sizeof never, .name_servers = name_servers, .switch_after_ms = 60001};
  EXPECT(tenon_client_connect(&never, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "switch_after") != NULL);
  tenon_tls_options tls = {.size = sizeof tls, .no_verify = 1};
  const tenon_client_options encrypted = {
      .size = sizeof encrypted, .name_servers = name_servers, .tls = &tls};
  EXPECT(tenon_client_connect(&encrypted, &client) == TENON_CLIENT_OK);
  tenon_client_destroy(client);
  tls.ca_file = "/no/such/file.pem";
  tls.no_verify = 0;
  EXPECT(tenon_client_connect(&encrypted, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "file.pem") != NULL);
  tls.size = 1;
  EXPECT(tenon_client_connect(&encrypted, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  options.size = 0;
  EXPECT(tenon_client_connect(&options, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  return 0;
}

int scenario_illegal(const char* name_servers) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  tenon_producer* other = NULL;
  tenon_consumer* consumer = NULL;
  EXPECT(producer != NULL);
  EXPECT(tenon_client_connect(NULL, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_producer_open(NULL, NULL, &other) == TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_producer_options same = {.size = sizeof same, .group = "c_group"};
  EXPECT(tenon_producer_open(client, &same, &other) == TENON_CLIENT_CONFLICT);
  const tenon_producer_options odd = {.size = sizeof odd, .group = "g", .compression = 9};
  EXPECT(tenon_producer_open(client, &odd, &other) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "compression") != NULL);
  EXPECT(tenon_producer_send(producer, NULL, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  tenon_message message = text("T", "x");
  message.body = NULL;
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  message = text("a.b", "x");
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_client_error_response() == -1 && tenon_client_error_outcome_unknown() == 0);
  message = text("T", "");
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_MESSAGE_ILLEGAL);
  tenon_receipt none = {0};
  message = text("T", "x");
  EXPECT(tenon_producer_send(producer, &message, &none) == TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_consumer_options start = {.size = sizeof start, .group = "g", .start = 9};
  EXPECT(tenon_consumer_open(client, &start, on_message, NULL, &consumer) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_consumer_open(client, &start, NULL, NULL, &consumer) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  tenon_producer_destroy(producer);
  tenon_producer_destroy(NULL);
  tenon_consumer_destroy(NULL);
  tenon_client_destroy(client);
  tenon_client_destroy(NULL);
  tenon_delivery_free(NULL);
  return 0;
}

struct owned {
  tenon_client* client;
  tenon_producer* producer;
  atomic_size_t gone;
};

static void destroy_all(void* arg, int32_t code, const tenon_receipt* receipt) {
  struct owned* owned = arg;
  (void)code;
  (void)receipt;
  tenon_producer_destroy(owned->producer);
  tenon_client_destroy(owned->client);
  atomic_store(&owned->gone, 1);
}

int scenario_destroy_in_callback(const char* name_servers, const char* topic) {
  struct owned owned = {0};
  owned.client = connect_to(name_servers);
  owned.producer = producer_of(owned.client);
  EXPECT(owned.producer != NULL);
  const tenon_message message = text(topic, "last");
  EXPECT(tenon_producer_send_async(owned.producer, &message, destroy_all, &owned) ==
         TENON_CLIENT_OK);
  EXPECT(reached(&owned.gone, 1));
  return 0;
}

int scenario_failing_send(
    const char* name_servers, const char* topic, int32_t code, int32_t response, int32_t unknown) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  EXPECT(producer != NULL);
  tenon_message message = text(topic, "x");
  message.timeout_ms = 1000;
  EXPECT(tenon_producer_send(producer, &message, NULL) == code);
  EXPECT(tenon_client_error_response() == response);
  EXPECT(tenon_client_error_outcome_unknown() == unknown);
  EXPECT(strlen(tenon_client_error_text()) > 0);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}
