"""Sends three messages and consumes them, over the C interface: send_consume.py TOPIC (name servers from NAMESRV_ADDR)"""
import queue
import sys

import tenon_client

topic = sys.argv[1]
# [python]
got = queue.Queue()
with tenon_client.Client() as client:
    with tenon_client.Producer(client, "python_producer") as producer:
        for i in range(3):
            receipt = producer.send(topic, b"hello %d" % i, tag="greeting", keys=f"hello-{i}")
            print("sent", receipt.id.decode(), "to queue", receipt.queue_id)
    with tenon_client.Consumer(client, "python_consumer", topic, from_first=True,
                               listener=lambda message: got.put((message.body, message.tag)) or True) as consumer:
        bodies = sorted(got.get(timeout=10)[0] for _ in range(3))
        consumer.close()
print(bodies)
# [/python]
assert bodies == [b"hello 0", b"hello 1", b"hello 2"]
try:
    with tenon_client.Client() as client, tenon_client.Producer(client, "python_producer") as producer:
        producer.send("not.legal", b"x")
    raise AssertionError("an illegal topic was accepted")
except tenon_client.Error as error:
    assert error.code == 1 and not error.outcome_unknown, error
