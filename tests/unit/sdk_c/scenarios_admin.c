/* Administration, hooks, trace and further options of clients. */
#include "scenario_help.h"

struct names {
  size_t count;
  int found;
  const char* wanted;
};

static void on_text(void* arg, const char* text) {
  struct names* names = arg;
  ++names->count;
  names->found += strcmp(text, names->wanted) == 0;
}

struct route {
  size_t queues;
  size_t brokers;
  int32_t read;
  int64_t id;
};

static void on_queue_info(void* arg, const tenon_queue_info* queues) {
  struct route* route = arg;
  ++route->queues;
  route->read = strcmp(queues->broker, "broker-a") == 0 && queues->permission == 6 &&
                        queues->write_queues == queues->read_queues
                    ? queues->read_queues
                    : -1;
}

static void on_broker(void* arg, const tenon_broker_info* broker) {
  struct route* route = arg;
  ++route->brokers;
  route->id = strcmp(broker->cluster, "DefaultCluster") == 0 && strchr(broker->address, ':') != NULL
                  ? broker->id
                  : -1;
}

int scenario_admin_topics(const char* name_servers) {
  tenon_client* client = connect_to(name_servers);
  tenon_admin* admin = NULL;
  EXPECT(tenon_admin_open(NULL, &admin) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_admin_open(client, &admin) == TENON_CLIENT_OK);
  EXPECT(tenon_admin_create_topic(admin, "DefaultCluster", "Made", 3, 0) == TENON_CLIENT_OK);
  struct names names = {.wanted = "Made"};
  EXPECT(tenon_admin_topics(admin, on_text, &names) == TENON_CLIENT_OK);
  EXPECT(names.found == 1 && names.count > 2);
  struct route route = {.id = -1};
  EXPECT(tenon_admin_route(admin, "Made", on_queue_info, on_broker, &route) == TENON_CLIENT_OK);
  EXPECT(route.queues == 1 && route.read == 3 && route.brokers == 1 && route.id == 0);
  EXPECT(tenon_admin_route(admin, "Made", NULL, NULL, NULL) == TENON_CLIENT_OK);
  EXPECT(tenon_admin_route(admin, "None", NULL, NULL, NULL) == TENON_CLIENT_NOT_FOUND);
  EXPECT(tenon_admin_brokers(admin, on_broker, &route) == TENON_CLIENT_OK);
  EXPECT(route.brokers == 2 && route.id == 0);
  EXPECT(tenon_admin_create_topic(admin, "NoCluster", "T2", 1, 0) == TENON_CLIENT_NOT_FOUND);
  EXPECT(tenon_admin_create_topic(admin, "DefaultCluster", "a b", 1, 0) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_admin_create_topic(admin, NULL, "T2", 1, 0) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_admin_topics(NULL, on_text, &names) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_admin_delete_topic(admin, "DefaultCluster", "Made") == TENON_CLIENT_OK);
  names = (struct names){.wanted = "Made"};
  EXPECT(tenon_admin_topics(admin, on_text, &names) == TENON_CLIENT_OK && names.found == 0);
  tenon_client_destroy(client); /* the admin keeps what it needs */
  EXPECT(tenon_admin_topics(admin, on_text, &names) == TENON_CLIENT_OK);
  tenon_admin_destroy(admin);
  tenon_admin_destroy(NULL);
  return 0;
}

struct progress {
  size_t count;
  int64_t lag;
};

static void on_progress(void* arg, const tenon_queue_progress* progress) {
  struct progress* all = arg;
  if (strcmp(progress->queue.topic, "T") == 0) {
    ++all->count;
    all->lag = progress->broker_offset - progress->consumer_offset;
  }
}

static void on_offset(void* arg, const tenon_message_queue* queue, int64_t offset) {
  if (strcmp(queue->topic, "T") == 0 && queue->id == 0)
    *(int64_t*)arg = offset;
}

static void on_found(void* arg, const tenon_delivery* message) {
  size_t length = 0;
  const char* body = tenon_delivery_body(message, &length);
  *(size_t*)arg += length == 1 && body[0] == 'b';
}

/* `topic` is "T", of one queue. */
int scenario_admin_offsets(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_producer* producer = producer_of(client);
  tenon_admin* admin = NULL;
  EXPECT(tenon_admin_open(client, &admin) == TENON_CLIENT_OK);
  const char* bodies[] = {"a", "b", "c"};
  tenon_receipt receipt = {.size = sizeof receipt};
  for (int i = 0; i < 3; ++i) {
    tenon_message message = text(topic, bodies[i]);
    message.keys = bodies[i];
    EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  }
  const tenon_message_queue queue = {.topic = topic, .broker = "broker-a", .id = 0};
  int64_t offset = -1;
  EXPECT(tenon_admin_min_offset(admin, &queue, &offset) == TENON_CLIENT_OK && offset == 0);
  EXPECT(tenon_admin_max_offset(admin, &queue, &offset) == TENON_CLIENT_OK && offset == 3);
  EXPECT(tenon_admin_offset_at(admin, &queue, 1, &offset) == TENON_CLIENT_OK && offset == 0);
  /* A young queue has offset 0 for every group. */
  EXPECT(tenon_admin_committed_offset(admin, "nobody", &queue, &offset) == TENON_CLIENT_OK);
  EXPECT(offset == 0);
  EXPECT(tenon_admin_committed_offset(admin, NULL, &queue, &offset) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  tenon_pull* pull = NULL; /* only what a group has consumed can be reset */
  const tenon_pull_options pulling = {.size = sizeof pulling, .group = "g"};
  EXPECT(tenon_pull_open(client, &pulling, &pull) == TENON_CLIENT_OK);
  EXPECT(tenon_pull_assign(pull, &queue, 1) == TENON_CLIENT_OK);
  EXPECT(tenon_pull_seek(pull, &queue, -1) == TENON_CLIENT_OK);
  const tenon_delivery* const* polled = NULL;
  size_t count = 0;
  EXPECT(tenon_pull_poll(pull, 30000, &polled, &count) == TENON_CLIENT_OK && count == 3);
  EXPECT(tenon_pull_commit(pull) == TENON_CLIENT_OK);
  tenon_pull_destroy(pull);
  offset = -1;
  EXPECT(tenon_admin_reset_offset(admin, "g", topic, -1, on_offset, &offset) == TENON_CLIENT_OK);
  EXPECT(offset == 3);
  EXPECT(tenon_admin_reset_offset(admin, "g", topic, 1, NULL, NULL) == TENON_CLIENT_OK);
  EXPECT(tenon_admin_committed_offset(admin, "g", &queue, &offset) == TENON_CLIENT_OK &&
         offset == 0);
  struct progress progress = {0};
  EXPECT(tenon_admin_progress(admin, "g", on_progress, &progress) == TENON_CLIENT_OK);
  EXPECT(progress.count == 1 && progress.lag == 3);
  tenon_delivery* found = NULL;
  EXPECT(tenon_admin_message_by_id(admin, receipt.offset_id, NULL, &found) == TENON_CLIENT_OK);
  EXPECT(tenon_delivery_queue_offset(found) == 2);
  tenon_delivery_free(found);
  EXPECT(tenon_admin_message_by_id(admin, "nothing", topic, &found) == TENON_CLIENT_NOT_FOUND);
  size_t hits = 0;
  const time_t deadline = time(NULL) + 30; /* the index follows the log */
  while (hits == 0 && time(NULL) <= deadline) {
    const int32_t code = tenon_admin_messages_by_key(admin, topic, "b", 0, 0, 0, on_found, &hits);
    EXPECT(code == TENON_CLIENT_OK || code == TENON_CLIENT_NOT_FOUND);
  }
  EXPECT(hits == 1);
  EXPECT(tenon_admin_message_by_id(admin, receipt.id, topic, &found) == TENON_CLIENT_OK);
  tenon_delivery_free(found);
  EXPECT(tenon_admin_messages_by_key(admin, topic, NULL, 0, 0, 0, on_found, &hits) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  tenon_admin_destroy(admin);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

struct group {
  int settings; /* how often it was told as it was set */
  int infos;
  int members;
  int of_broker;
  int of_member;
  const char* id;
};

static void on_settings(void* arg, const tenon_group_settings* s) {
  struct group* group = arg;
  if (strcmp(s->name, "set") == 0)
    group->settings += s->no_consume == 1 && s->no_broadcast == 1 && s->retry_queues == -1 &&
                       s->retry_max == 3 && s->no_notify == 0;
}

static void on_group(void* arg, const tenon_group_info* info) {
  struct group* group = arg;
  group->infos += info->online && !info->mismatch && strcmp(info->mode, "CLUSTERING") == 0 &&
                  strcmp(info->kind, "CONSUME_PASSIVELY") == 0;
}

static void on_member(void* arg, const tenon_group_member* member) {
  struct group* group = arg;
  group->members += member->known && strcmp(member->client_id, group->id) == 0 &&
                    strcmp(member->language, "CPP") == 0 && member->version > 0;
}

static void on_subscription(void* arg,
                            const tenon_group_member* member,
                            const tenon_subscription* subscription) {
  struct group* group = arg;
  const int fits = strcmp(subscription->topic, "T") == 0 && subscription->sql == 0 &&
                   strcmp(subscription->expression, "x || y") == 0;
  *(member == NULL ? &group->of_broker : &group->of_member) += fits;
}

static int32_t nothing(void* arg,
                       const tenon_delivery* const* messages,
                       size_t count,
                       tenon_ack_details* details) {
  (void)arg, (void)messages, (void)count, (void)details;
  return TENON_ACK_SUCCESS;
}

int scenario_admin_groups(const char* name_servers, const char* topic) {
  tenon_client* client = connect_to(name_servers);
  tenon_admin* admin = NULL;
  EXPECT(tenon_admin_open(client, &admin) == TENON_CLIENT_OK);
  const tenon_group_settings settings = {.size = sizeof settings,
                                         .name = "set",
                                         .no_consume = 1,
                                         .no_broadcast = 1,
                                         .retry_queues = -1,
                                         .retry_max = 3};
  EXPECT(tenon_admin_set_group(admin, "DefaultCluster", &settings) == TENON_CLIENT_OK);
  struct group group = {.id = tenon_client_id(client)};
  EXPECT(tenon_admin_groups(admin, "DefaultCluster", on_settings, &group) == TENON_CLIENT_OK);
  EXPECT(group.settings == 1);
  const tenon_group_settings nameless = {.size = sizeof nameless};
  EXPECT(tenon_admin_set_group(admin, "DefaultCluster", &nameless) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  const tenon_group_settings sizeless = {.name = "set"};
  EXPECT(tenon_admin_set_group(admin, "DefaultCluster", &sizeless) ==
         TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(tenon_admin_delete_group(admin, "DefaultCluster", "set", 1) == TENON_CLIENT_OK);
  EXPECT(tenon_admin_groups(admin, "DefaultCluster", on_settings, &group) == TENON_CLIENT_OK);
  EXPECT(group.settings == 1);

  const tenon_subscription subscription = {.topic = topic, .expression = "x || y"};
  const tenon_consumer_options options = {.size = sizeof options,
                                          .group = "members",
                                          .subscriptions = &subscription,
                                          .subscription_count = 1};
  tenon_consumer* consumer = NULL;
  EXPECT(tenon_consumer_open(client, &options, nothing, NULL, &consumer) == TENON_CLIENT_OK);
  const tenon_group_visitor visitor = {.size = sizeof visitor,
                                       .arg = &group,
                                       .group = on_group,
                                       .member = on_member,
                                       .subscription = on_subscription};
  EXPECT(tenon_admin_group(admin, "members", &visitor) == TENON_CLIENT_OK);
  EXPECT(group.infos == 1 && group.members == 1 && group.of_broker == 1 && group.of_member == 1);
  struct names names = {.wanted = group.id};
  EXPECT(tenon_admin_group_members(admin, "members", on_text, &names) == TENON_CLIENT_OK);
  EXPECT(names.count == 1 && names.found == 1);
  const tenon_group_visitor blind = {.size = sizeof blind};
  EXPECT(tenon_admin_group(admin, "members", &blind) == TENON_CLIENT_OK);
  EXPECT(tenon_admin_group(admin, "nobody", &visitor) == TENON_CLIENT_OK && group.infos == 1);
  tenon_consumer_destroy(consumer);
  tenon_admin_destroy(admin);
  tenon_client_destroy(client);
  return 0;
}

/* What hooks saw; each function checks what it is shown. */
struct seen {
  atomic_size_t checks;
  atomic_size_t before;
  atomic_size_t stored;
  atomic_size_t failed;
  atomic_size_t calls;
  atomic_size_t ended;
  atomic_size_t listened;
};

static int32_t refuse_secret(void* arg, const tenon_message* message, char* reason, size_t room) {
  struct seen* seen = arg;
  atomic_fetch_add(&seen->checks, 1);
  if (message->body_length != 6 || memcmp(message->body, "secret", 6) != 0)
    return TENON_CLIENT_OK;
  snprintf(reason, room, "no secrets");
  return TENON_CLIENT_MESSAGE_ILLEGAL;
}

static void before_send(void* arg, const tenon_send_attempt* a) {
  struct seen* seen = arg;
  if (strcmp(a->group, "c_hooks") == 0 && strcmp(a->topic, "T") == 0 && strlen(a->id) == 32 &&
      strcmp(a->tag, "t") == 0 && strcmp(a->keys, "k1 k2") == 0 && a->body_length == 4 &&
      strcmp(a->broker, "broker-a") == 0 && strchr(a->address, ':') != NULL && a->number == 1 &&
      a->kind == 0 && a->queue_id == 0)
    atomic_fetch_add(&seen->before, 1);
}

static void after_send(void* arg,
                       const tenon_send_attempt* a,
                       int32_t code,
                       const tenon_receipt* receipt) {
  struct seen* seen = arg;
  if (code == TENON_CLIENT_OK && receipt != NULL && strcmp(receipt->id, a->id) == 0)
    atomic_fetch_add(&seen->stored, 1);
  if (code == TENON_CLIENT_REFUSED && receipt == NULL && tenon_client_error_response() == 13)
    atomic_fetch_add(&seen->failed, 1);
}

static int32_t no_drops(void* arg, const tenon_delivery* message) {
  (void)arg;
  size_t length = 0;
  const char* body = tenon_delivery_body(message, &length);
  return !(length == 4 && memcmp(body, "drop", 4) == 0);
}

static void before_call(void* arg, const tenon_consume_call* call) {
  struct seen* seen = arg;
  if (strcmp(call->group, "c_hooked") == 0 && strcmp(call->queue.topic, "T") == 0 &&
      strcmp(call->queue.broker, "broker-a") == 0 && call->count == 1 &&
      tenon_delivery_queue_id(call->messages[0]) == call->queue.id && call->done == 0)
    atomic_fetch_add(&seen->calls, 1);
}

static void after_call(void* arg, const tenon_consume_call* call) {
  struct seen* seen = arg;
  if (call->outcome == TENON_CONSUMED && call->done == 1 && call->cost_ms >= 0)
    atomic_fetch_add(&seen->ended, 1);
}

static int32_t listen(void* arg,
                      const tenon_delivery* const* messages,
                      size_t count,
                      tenon_ack_details* details) {
  (void)messages, (void)details;
  struct seen* seen = arg;
  atomic_fetch_add(&seen->listened, count);
  return TENON_ACK_SUCCESS;
}

/* The broker refuses one send with code 13. */
int scenario_hooks(const char* name_servers, const char* topic) {
  struct seen seen = {0};
  tenon_client* client = connect_to(name_servers);
  const tenon_send_hook hook = {.size = sizeof hook,
                                .arg = &seen,
                                .check = refuse_secret,
                                .before = before_send,
                                .after = after_send};
  tenon_producer_options sending = {
      .size = sizeof sending, .group = "c_hooks", .retries = -1, .hook = &hook};
  tenon_producer* producer = NULL;
  EXPECT(tenon_producer_open(client, &sending, &producer) == TENON_CLIENT_OK);
  tenon_message message = text(topic, "keep");
  message.tag = "t";
  message.keys = "k1 k2";
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_REFUSED);
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  message.body = "drop";
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_OK);
  message = text(topic, "secret");
  EXPECT(tenon_producer_send(producer, &message, NULL) == TENON_CLIENT_MESSAGE_ILLEGAL);
  EXPECT(strstr(tenon_client_error_text(), "no secrets") != NULL);
  EXPECT(atomic_load(&seen.checks) == 4 && atomic_load(&seen.before) == 3);
  EXPECT(atomic_load(&seen.stored) == 2 && atomic_load(&seen.failed) == 1);

  const tenon_consume_hook watching = {.size = sizeof watching,
                                       .arg = &seen,
                                       .wants = no_drops,
                                       .before = before_call,
                                       .after = after_call};
  const tenon_subscription subscription = {.topic = topic};
  const tenon_consumer_options consuming = {.size = sizeof consuming,
                                            .group = "c_hooked",
                                            .subscriptions = &subscription,
                                            .subscription_count = 1,
                                            .start = TENON_START_FIRST,
                                            .hook = &watching};
  tenon_consumer* consumer = NULL;
  EXPECT(tenon_consumer_open(client, &consuming, listen, &seen, &consumer) == TENON_CLIENT_OK);
  EXPECT(reached(&seen.ended, 1));
  EXPECT(tenon_consumer_close(consumer) == TENON_CLIENT_OK);
  tenon_consumer_destroy(consumer);
  EXPECT(atomic_load(&seen.listened) == 1 && atomic_load(&seen.calls) == 1);

  const tenon_pull_options pulling = {.size = sizeof pulling,
                                      .group = "c_hooked",
                                      .subscriptions = &subscription,
                                      .subscription_count = 1,
                                      .start = TENON_START_FIRST,
                                      .hook = &watching};
  tenon_pull* pull = NULL;
  EXPECT(tenon_pull_open(client, &pulling, &pull) == TENON_CLIENT_OK);
  const tenon_message_queue queue = {.topic = topic, .broker = "broker-a", .id = 0};
  const time_t deadline = time(NULL) + 30; /* the queue has to be ours before */
  while (tenon_pull_seek(pull, &queue, -1) != TENON_CLIENT_OK && time(NULL) <= deadline)
    thrd_yield();
  const tenon_delivery* const* polled = NULL;
  size_t count = 0;
  EXPECT(tenon_pull_poll(pull, 30000, &polled, &count) == TENON_CLIENT_OK && count == 1);
  EXPECT(atomic_load(&seen.calls) == 2 && atomic_load(&seen.ended) == 2);
  tenon_pull_destroy(pull);

  const tenon_send_hook sizeless = {.arg = &seen};
  sending.hook = &sizeless;
  sending.group = "other";
  tenon_producer* none = NULL;
  EXPECT(tenon_producer_open(client, &sending, &none) == TENON_CLIENT_INVALID_ARGUMENT);
  EXPECT(strstr(tenon_client_error_text(), "hook.size") != NULL);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);
  return 0;
}

static void on_trace(void* arg, const tenon_delivery* message) {
  size_t length = 0;
  const char* body = tenon_delivery_body(message, &length);
  *(size_t*)arg += length > 4 && memcmp(body, "Pub\1", 4) == 0;
}

/* url answers with the list of name servers; topic is in no namespace. */
int scenario_client_options(const char* url, const char* topic) {
  tenon_client_options options = {.size = sizeof options,
                                  .name_server_url = url,
                                  .unit_name = "unit",
                                  .name_space = "space",
                                  .trace_topic = "Traces",
                                  .trace = 1,
                                  .stream_requests = 1};
  tenon_client* client = NULL;
  EXPECT(tenon_client_connect(&options, &client) == TENON_CLIENT_OK);
  EXPECT(strstr(tenon_client_id(client), "@unit@STREAM") != NULL);
  tenon_producer* producer = producer_of(client);
  tenon_receipt receipt = {.size = sizeof receipt};
  const tenon_message message = text(topic, "traced");
  EXPECT(tenon_producer_send(producer, &message, &receipt) == TENON_CLIENT_OK);
  tenon_producer_destroy(producer);
  tenon_client_destroy(client);

  options = (tenon_client_options){.size = sizeof options, .name_server_url = url};
  EXPECT(tenon_client_connect(&options, &client) == TENON_CLIENT_OK);
  tenon_admin* admin = NULL;
  EXPECT(tenon_admin_open(client, &admin) == TENON_CLIENT_OK);
  struct names names = {.wanted = "space%T"};
  EXPECT(tenon_admin_topics(admin, on_text, &names) == TENON_CLIENT_OK && names.found == 1);
  size_t records = 0;
  const time_t deadline = time(NULL) + 30;
  while (records == 0 && time(NULL) <= deadline) {
    const int32_t code =
        tenon_admin_messages_by_key(admin, "Traces", receipt.id, 0, 0, 0, on_trace, &records);
    EXPECT(code == TENON_CLIENT_OK || code == TENON_CLIENT_NOT_FOUND ||
           code == TENON_CLIENT_REFUSED);
  }
  EXPECT(records == 1);
  tenon_admin_destroy(admin);
  tenon_client_destroy(client);
  options.name_server_url = "ftp://x";
  EXPECT(tenon_client_connect(&options, &client) == TENON_CLIENT_INVALID_ARGUMENT);
  return 0;
}
