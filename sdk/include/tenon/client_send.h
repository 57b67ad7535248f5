/* The C interface of what a producer does beyond sending one message. Part of tenon/client.h, whose rules hold. */
#ifndef TENON_CLIENT_SEND_H
#define TENON_CLIENT_SEND_H

#include "tenon/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stores messages of one topic together; not delayed. `messages` are `count` structures one after another, all with the size
 * of the first. What is too large for one request is split. Where they go and how long it may take says the first.
 * `receipts`: NULL, or `*receipt_count` structures, the size of the first set; *receipt_count becomes how many were written,
 * one for each request. `count` are always enough. On an error they tell what was stored before it. Not in a callback. */
TENON_CLIENT_API int32_t tenon_producer_send_batch(tenon_producer* producer,
                                                   const tenon_message* messages,
                                                   size_t count,
                                                   tenon_receipt* receipts,
                                                   size_t* receipt_count) TENON_CLIENT_NOTHROW;

/* Calls `each` for the writable queues of a topic, in the order that all clients see. Blocks if the route is not known. */
TENON_CLIENT_API int32_t tenon_producer_queues(tenon_producer* producer,
                                               const char* topic,
                                               tenon_queue_fn each,
                                               void* arg) TENON_CLIENT_NOTHROW;

/* Sends a message and waits for the answer of whoever consumes it, which calls tenon_producer_reply(). The time-out is for both
 * ways. *answer is to be freed by tenon_delivery_free(). Not in a callback.
 * @return TENON_CLIENT_REQUEST_TIMEOUT if it was sent and nobody replied in time */
TENON_CLIENT_API int32_t tenon_producer_request(tenon_producer* producer,
                                                const tenon_message* message,
                                                tenon_delivery** answer) TENON_CLIENT_NOTHROW;

/* Called exactly once, as tenon_send_fn. `answer` is NULL unless code is TENON_CLIENT_OK and valid during the call. */
typedef void (*tenon_answer_fn)(void* arg, int32_t code, const tenon_delivery* answer);
TENON_CLIENT_API int32_t tenon_producer_request_async(tenon_producer* producer,
                                                      const tenon_message* message,
                                                      tenon_answer_fn done,
                                                      void* arg) TENON_CLIENT_NOTHROW;

/* Answers a request that a consumer received; topic and addressee come from the request, so the topic of `answer` is NULL.
 * Blocks, as in a listener. receipt may be NULL.
 * @return TENON_CLIENT_CREATE_REPLY if the message is no request */
TENON_CLIENT_API int32_t tenon_producer_reply(tenon_producer* producer,
                                              const tenon_delivery* request,
                                              const tenon_message* answer,
                                              tenon_receipt* receipt) TENON_CLIENT_NOTHROW;

/* Takes back a message delayed to any time that is not delivered yet: tenon_receipt.recall_handle. Its id is written to `id`,
 * which may be NULL, as far as `room` bytes go. Blocks. */
TENON_CLIENT_API int32_t tenon_producer_recall(tenon_producer* producer,
                                               const char* topic,
                                               const char* recall_handle,
                                               char* id,
                                               size_t room) TENON_CLIENT_NOTHROW;

#ifdef __cplusplus
}
#endif
#endif /* TENON_CLIENT_SEND_H */
