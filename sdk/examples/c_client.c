/* Sends three messages and consumes them in C: c_client TOPIC (name servers from the environment NAMESRV_ADDR) */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tenon/client.h>
#include <threads.h>
#include <time.h>

/* [c] */
static int failed(const char* what) {
  fprintf(stderr,
          "%s: %s%s\n",
          what,
          tenon_client_error_text(),
          tenon_client_error_outcome_unknown() ? " (may have been carried out)" : "");
  return 1;
}

static int32_t on_messages(void* arg,
                           const tenon_delivery* const* messages,
                           size_t count,
                           tenon_ack_details* details) {
  (void)details;
  for (size_t i = 0; i < count; ++i) {
    size_t length = 0;
    const char* body =
        tenon_delivery_body(messages[i], &length); /* not terminated by a zero byte */
    printf("got %.*s\n", (int)length, body);
  }
  atomic_fetch_add((atomic_size_t*)arg, count);
  return TENON_ACK_SUCCESS; /* or TENON_ACK_RETRY */
}

static int send_three(tenon_client* client, const char* topic) {
  tenon_producer* producer = NULL;
  const tenon_producer_options options = {.size = sizeof options, .group = "c_producer"};
  if (tenon_producer_open(client, &options, &producer) != TENON_CLIENT_OK)
    return failed("open");
  for (int i = 0; i < 3; ++i) {
    const tenon_message message = {.size = sizeof message,
                                   .topic = topic,
                                   .body = "hello",
                                   .body_length = 5,
                                   .sharding_key = "customer-17"};
    tenon_receipt receipt = {.size = sizeof receipt};
    if (tenon_producer_send(producer, &message, &receipt) != TENON_CLIENT_OK)
      return failed("send");
    printf("sent %s to %s/%d\n", receipt.id, receipt.broker, (int)receipt.queue_id);
  }
  tenon_producer_destroy(producer);
  return 0;
}
/* [/c] */

/* [c administration] */
static void on_progress(void* arg, const tenon_queue_progress* p) {
  (void)arg;
  printf("%s/%s/%d: %lld to go\n",
         p->queue.topic,
         p->queue.broker,
         (int)p->queue.id,
         (long long)(p->broker_offset - p->consumer_offset));
}

static int show_progress(tenon_client* client, const char* group) {
  tenon_admin* admin = NULL;
  if (tenon_admin_open(client, &admin) != TENON_CLIENT_OK ||
      tenon_admin_progress(admin, group, on_progress, NULL) != TENON_CLIENT_OK)
    return failed("progress");
  tenon_admin_destroy(admin);
  return 0;
}
/* [/c administration] */

/* [c hook] */
static void after_call(void* arg, const tenon_consume_call* call) {
  (void)arg;
  printf("%s: %zu of %zu done in %lld ms\n",
         call->group,
         call->done,
         call->count,
         (long long)call->cost_ms);
}

static const tenon_consume_hook watch = {.size = sizeof watch, .after = after_call};
/* [/c hook] */

static int consume_three(tenon_client* client, const char* topic) {
  const tenon_subscription subscription = {.topic = topic};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = "c_consumer",
                                          .subscriptions = &subscription,
                                          .subscription_count = 1,
                                          .hook = &watch,
                                          .start = TENON_START_FIRST};
  atomic_size_t received = 0;
  tenon_consumer* consumer = NULL;
  if (tenon_consumer_open(client, &options, on_messages, &received, &consumer) != TENON_CLIENT_OK)
    return failed("consume");
  const time_t deadline = time(NULL) + 20;
  while (atomic_load(&received) < 3 && time(NULL) < deadline) {
    thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  if (tenon_consumer_close(consumer) != TENON_CLIENT_OK)
    return failed("close");
  tenon_consumer_destroy(consumer);
  return atomic_load(&received) == 3 ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s TOPIC\n", argv[0]);
    return 2;
  }
  tenon_client* client = NULL;
  if (tenon_client_connect(NULL, &client) != TENON_CLIENT_OK)
    return failed("connect");
  int result = send_three(client, argv[1]);
  if (result == 0)
    result = consume_three(client, argv[1]);
  if (result == 0)
    result = show_progress(client, "c_consumer");
  tenon_client_destroy(client);
  return result;
}
