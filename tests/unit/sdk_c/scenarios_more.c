/* Batches, choice of the queue, requests, transactions, order, subscriptions. */
#include "scenario_help.h"

/* Bodies in the order of their coming, joined. */
struct bodies {
  atomic_size_t count;
  mtx_t lock;
  char text[256];
};

static void note(struct bodies* bodies, const tenon_delivery* d) {
  size_t length = 0;
  const char* body = tenon_delivery_body(d, &length);
  mtx_lock(&bodies->lock);
  const size_t used = strlen(bodies->text);
  snprintf(bodies->text + used, sizeof bodies->text - used, "%.*s ", (int)length, body);
  mtx_unlock(&bodies->lock);
  atomic_fetch_add(&bodies->count, 1);
}

static int32_t note_all(void* arg,
                        const tenon_delivery* const* messages,
                        size_t count,
                        tenon_ack_details* details) {
  (void)details;
  for (size_t i = 0; i < count; ++i)
    note(arg, messages[i]);
  return TENON_ACK_SUCCESS;
}

static tenon_consumer* consumer_of(
    tenon_client* client, const char* group, const char* topic, tenon_listener_fn fn, void* arg) {
  const tenon_subscription subscription = {.topic = topic};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = group,
                                          .subscriptions = &subscription,
                                          .subscription_count = 1,
                                          .start = TENON_START_FIRST,
                                          .orderly = 1};
  tenon_consumer* consumer = NULL;
  return tenon_consumer_open(client, &options, fn, arg, &consumer) == TENON_CLIENT_OK ? consumer
                                                                                      : NULL;
}

int scenario_batch(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = NULL;
  const tenon_producer_options options = {
      .size = sizeof options, .group = "c_batch", .retries = -1, .max_body_bytes = 400};
  EXPECT(tenon_producer_open(client, &options, &producer) == TENON_CLIENT_OK);
  char filler[151];
  memset(filler, 'x', sizeof filler - 1);
  filler[sizeof filler - 1] = '\0';
  const tenon_message three[] = {text(topic, "1"), text(topic, "2"), text(topic, "3")};
  tenon_receipt receipts[3] = {{.size = sizeof receipts[0]}};
  size_t told = 3;
  EXPECT(tenon_producer_send_batch(producer, three, 3, receipts, &told) == TENON_CLIENT_OK);
  EXPECT(told == 1 && receipts[0].message_count == 3 && strlen(receipts[0].id) == 32);
  EXPECT(receipts[0].queue_offset == 0 && receipts[0].size == sizeof receipts[0]);
  /* Too much for one request: several, each with its receipt. */
  const tenon_message large[] = {text(topic, filler), text(topic, filler), text(topic, filler)};
  told = 3;
  EXPECT(tenon_producer_send_batch(producer, large, 3, receipts, &told) == TENON_CLIENT_OK);
  EXPECT(told > 1 && receipts[told - 1].queue_offset == 5);
  EXPECT(tenon_producer_send_batch(producer, three, 3, NULL, NULL) == TENON_CLIENT_OK);

  tenon_message mixed[] = {text(topic, "1"), text("Other", "2")};
  EXPECT(tenon_producer_send_batch(producer, mixed, 2, NULL, NULL) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  mixed[1].size = 24;
  EXPECT(tenon_producer_send_batch(producer, mixed, 2, NULL, NULL) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "size") != NULL);
  EXPECT(tenon_producer_send_batch(producer, three, 0, NULL, NULL) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_producer_send_batch(producer, three, 3, receipts, NULL) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

struct queues {
  size_t count;
  int32_t last;
  char broker[64];
};

static void on_queue(void* arg, const tenon_message_queue* queue) {
  struct queues* queues = arg;
  ++queues->count;
  queues->last = queue->id;
  snprintf(queues->broker, sizeof queues->broker, "%s", queue->broker);
}

/* The queue that the body says; the message is shown as it was given. */
static int32_t by_body(void* arg,
                       const tenon_message_queue* queues,
                       size_t count,
                       const tenon_message* message) {
  atomic_fetch_add((atomic_size_t*)arg, 1);
  const int32_t wanted = ((const char*)message->body)[0] - '0';
  if (message->body_length != 1 || strcmp(message->keys, "a b") != 0 ||
      strcmp(message->tag, "t") != 0 || message->property_count != 1)
    return -1;
  return wanted >= (int32_t)count ? wanted : queues[wanted].id;
}

int scenario_choose(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  struct queues queues = {0};
  EXPECT(tenon_producer_queues(producer, topic, on_queue, &queues) == TENON_CLIENT_OK);
  EXPECT(queues.count == 4 && queues.last == 3 && strcmp(queues.broker, "broker-a") == 0);
  EXPECT(tenon_producer_queues(producer, NULL, on_queue, &queues) == TENON_CLIENT_INVALID_ARGUMENT);

  const tenon_message_queue queue = {.topic = topic, .broker = queues.broker, .id = 2};
  tenon_message message = text(topic, "x");
  tenon_receipt receipt = {.size = sizeof receipt};
  message.queue = &queue;
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  EXPECT(receipt.queue_id == 2 && receipt.message_count == 1);

  atomic_size_t calls = 0;
  const tenon_property property = {"p", "v"};
  message = text(topic, "1");
  message.tag = "t";
  message.keys = "a b";
  message.properties = &property;
  message.property_count = 1;
  message.no_wait = 1;
  message.select = by_body;
  message.select_arg = &calls;
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  EXPECT(receipt.queue_id == 1 && atomic_load(&calls) == 1);
  message.body = "3";
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  EXPECT(receipt.queue_id == 3);
  message.body = "9";
  EXPECT(tenon_producer_send(producer, &message, &receipt) != TENON_CLIENT_OK);
  message.sharding_key = "k";
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_producer_options odd = {.size = sizeof odd, .group = "odd", .fault_tolerance = 3};
  tenon_producer* other = NULL;
  EXPECT(tenon_producer_open(client, &odd, &other) == TENON_CLIENT_INVALID_ARGUMENT);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

int scenario_recall(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  tenon_message message = text(topic, "later");
  message.delay_ms = 3600000;
  tenon_receipt receipt = {.size = sizeof receipt};
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  char id[64] = "";
  EXPECT(tenon_producer_recall(producer, topic, receipt.recall_handle, id, sizeof id) ==
         TENON_CLIENT_OK);
  EXPECT(strcmp(id, receipt.id) == 0);
  EXPECT(tenon_producer_recall(producer, topic, receipt.recall_handle, NULL, 0) == TENON_CLIENT_OK);
  EXPECT(tenon_producer_recall(producer, topic, "nonsense", id, sizeof id) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_producer_recall(producer, topic, NULL, id, sizeof id) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

static int32_t answer(void* arg,
                      const tenon_delivery* const* messages,
                      size_t count,
                      tenon_ack_details* details) {
  (void)count;
  (void)details;
  size_t length = 0;
  const char* body = tenon_delivery_body(messages[0], &length);
  if (length == 4 && memcmp(body, "mute", 4) == 0)
    return TENON_ACK_SUCCESS;
  char answer_text[64];
  snprintf(answer_text, sizeof answer_text, "re: %.*s", (int)length, body);
  const tenon_message message = text(NULL, answer_text);
  tenon_receipt receipt = {.size = sizeof receipt};
  return tenon_producer_reply(arg, messages[0], &message, &receipt) == TENON_CLIENT_OK
             ? TENON_ACK_SUCCESS
             : TENON_ACK_RETRY;
}

struct answered {
  atomic_size_t count;
  atomic_size_t right;
};

static void on_answer(void* arg, int32_t code, const tenon_delivery* d) {
  struct answered* answered = arg;
  size_t length = 0;
  const char* body = d == NULL ? NULL : tenon_delivery_body(d, &length);
  if ((code == TENON_CLIENT_OK && length == 7 && memcmp(body, "re: two", 7) == 0) ||
      (code == TENON_CLIENT_INVALID_ARGUMENT && d == NULL))
    atomic_fetch_add(&answered->right, 1);
  atomic_fetch_add(&answered->count, 1);
}

int scenario_request(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  tenon_consumer* service = consumer_of(client, "c_service", topic, answer, producer);
  EXPECT(service != NULL);
  tenon_message message = text(topic, "one");
  message.timeout_ms = 20000;
  tenon_delivery* reply = NULL;
  EXPECT(tenon_producer_request(producer, &message, &reply) == TENON_CLIENT_OK);
  size_t length = 0;
  const char* body = tenon_delivery_body(reply, &length);
  EXPECT(length == 7 && memcmp(body, "re: one", 7) == 0);
  tenon_receipt receipt = {.size = sizeof receipt};
  EXPECT(tenon_producer_reply(producer, NULL, &message, &receipt) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_producer_request(producer, &message, NULL) == TENON_CLIENT_INVALID_ARGUMENT);

  struct answered answered = {0};
  message.body = "two";
  EXPECT(tenon_producer_request_async(producer, &message, on_answer, &answered) == TENON_CLIENT_OK);
  EXPECT(tenon_producer_request_async(producer, &message, NULL, NULL) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_message illegal = text("a.b", "refused here");
  EXPECT(tenon_producer_request_async(producer, &illegal, on_answer, &answered) == TENON_CLIENT_OK);
  EXPECT(reached(&answered.count, 2));
  EXPECT(atomic_load(&answered.right) == 2);

  message = text(topic, "mute");
  message.timeout_ms = 200;
  EXPECT(tenon_producer_request(producer, &message, &reply) == TENON_CLIENT_REQUEST_TIMEOUT);
  tenon_delivery_free(reply);
  tenon_consumer_destroy(service);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

struct local {
  atomic_size_t executed;
  atomic_size_t checked;
  atomic_size_t ended;
  atomic_size_t wrong;
};

/* As the body says: "commit", "rollback", or left open. */
static int32_t on_execute(void* arg, const tenon_message* message, const tenon_receipt* half) {
  struct local* local = arg;
  if (half->size != sizeof *half || half->status != 0 || strlen(half->id) != 32)
    atomic_fetch_add(&local->wrong, 1);
  atomic_fetch_add(&local->executed, 1);
  const char* body = message->body;
  return body[0] == 'c'   ? TENON_TRANSACTION_COMMIT
         : body[0] == 'r' ? TENON_TRANSACTION_ROLLBACK
                          : 99;
}

static int32_t on_check(void* arg, const tenon_delivery* stored) {
  struct local* local = arg;
  size_t length = 0;
  const char* body = tenon_delivery_body(stored, &length);
  if (length != 4 || memcmp(body, "open", 4) != 0)
    atomic_fetch_add(&local->wrong, 1);
  atomic_fetch_add(&local->checked, 1);
  return TENON_TRANSACTION_COMMIT;
}

static void on_end(void* arg, int32_t code, const tenon_receipt* half, int32_t state) {
  struct local* local = arg;
  const int right = code == TENON_CLIENT_OK ? half != NULL && state == TENON_TRANSACTION_COMMIT
                                            : half == NULL && code == TENON_CLIENT_INVALID_ARGUMENT;
  atomic_fetch_add(right ? &local->ended : &local->wrong, 1);
}

int scenario_transaction(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  struct local local = {0};
  const tenon_transaction_listener listener = {
      .size = sizeof listener, .arg = &local, .execute = on_execute, .check = on_check};
  const tenon_producer_options producer = {.size = sizeof producer, .group = "c_tx"};
  const tenon_transaction_options options = {
      .size = sizeof options, .producer = &producer, .first_check_after_ms = 1};
  tenon_transaction* tx = NULL;
  EXPECT(tenon_transaction_open(client, &options, NULL, &tx) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_transaction_open(client, &options, &listener, &tx) == TENON_CLIENT_OK);

  int32_t state = -1;
  tenon_receipt half = {.size = sizeof half};
  tenon_message message = text(topic, "rollback");
  EXPECT(tenon_transaction_send(tx, &message, &half, &state) == TENON_CLIENT_OK);
  EXPECT(state == TENON_TRANSACTION_ROLLBACK && strlen(half.id) == 32);
  message = text(topic, "commit");
  EXPECT(tenon_transaction_send(tx, &message, NULL, NULL) == TENON_CLIENT_OK);
  EXPECT(tenon_transaction_send_async(tx, &message, on_end, &local) == TENON_CLIENT_OK);
  const tenon_message illegal = text("a.b", "commit");
  EXPECT(tenon_transaction_send_async(tx, &illegal, on_end, &local) == TENON_CLIENT_OK);
  EXPECT(reached(&local.ended, 2));
  message = text(topic, "open");
  EXPECT(tenon_transaction_send(tx, &message, &half, &state) == TENON_CLIENT_OK);
  EXPECT(state == TENON_TRANSACTION_UNKNOWN);
  message.delay_level = 1;
  EXPECT(tenon_transaction_send(tx, &message, &half, &state) != TENON_CLIENT_OK);

  /* The open one is asked about and committed then; the one that was rolled back never comes. */
  struct bodies bodies = {0};
  mtx_init(&bodies.lock, mtx_plain);
  tenon_consumer* consumer = consumer_of(client, "c_committed", topic, note_all, &bodies);
  EXPECT(consumer != NULL);
  EXPECT(reached(&bodies.count, 3));
  EXPECT(atomic_load(&local.checked) >= 1 && atomic_load(&local.wrong) == 0);
  EXPECT(tenon_consumer_close(consumer) == TENON_CLIENT_OK);
  EXPECT(strcmp(bodies.text, "commit commit open ") == 0);
  EXPECT(atomic_load(&local.executed) == 4);
  tenon_consumer_destroy(consumer);
  tenon_transaction_destroy(tx);
  tenon_transaction_destroy(NULL);
  tenon_client_destroy(client);
  mtx_destroy(&bodies.lock);
  return 0;
}

/* Holds "1" and "2", takes both back once at "2", then commits. */
static int32_t hold(void* arg,
                    const tenon_delivery* const* messages,
                    size_t count,
                    tenon_ack_details* details) {
  struct bodies* bodies = arg;
  (void)count;
  note(bodies, messages[0]);
  switch (atomic_load(&bodies->count)) {
    case 1:
    case 3:
      return TENON_ACK_HOLD;
    case 2:
      details->pause_ms = 10;
      return TENON_ACK_ROLLBACK;
    default:
      return TENON_ACK_COMMIT;
  }
}

int scenario_hold(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  for (int i = 1; i <= 3; ++i) {
    char number[2] = {(char)('0' + i), '\0'};
    const tenon_message message = text(topic, number);
    EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  }
  struct bodies bodies = {0};
  mtx_init(&bodies.lock, mtx_plain);
  tenon_consumer* consumer = consumer_of(client, "c_hold", topic, hold, &bodies);
  EXPECT(consumer != NULL);
  EXPECT(reached(&bodies.count, 5));
  EXPECT(tenon_consumer_close(consumer) == TENON_CLIENT_OK);
  EXPECT(strcmp(bodies.text, "1 2 1 2 3 ") == 0);
  tenon_consumer_destroy(consumer);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  mtx_destroy(&bodies.lock);
  return 0;
}

int scenario_subscribe(const char* name_servers, const char* first, const char* second) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  const tenon_message message = text(second, "from the second topic");
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  struct bodies bodies = {0};
  mtx_init(&bodies.lock, mtx_plain);
  tenon_consumer* consumer = consumer_of(client, "c_subscribe", first, note_all, &bodies);
  EXPECT(consumer != NULL);
  const tenon_subscription more = {.topic = second, .expression = "*"};
  EXPECT(tenon_consumer_subscribe(consumer, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_consumer_subscribe(consumer, &more) == TENON_CLIENT_OK);
  EXPECT(reached(&bodies.count, 1));
  struct queues queues = {0};
  EXPECT(tenon_consumer_owned(consumer, on_queue, &queues) == TENON_CLIENT_OK);
  EXPECT(queues.count >= 1 && strcmp(queues.broker, "broker-a") == 0);
  EXPECT(tenon_consumer_owned(consumer, NULL, NULL) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_consumer_unsubscribe(consumer, second) == TENON_CLIENT_OK);
  EXPECT(tenon_consumer_unsubscribe(consumer, second) == TENON_CLIENT_NOT_FOUND);
  tenon_consumer_destroy(consumer);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  mtx_destroy(&bodies.lock);
  return 0;
}
