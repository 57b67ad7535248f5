"""Who takes part in the mixed long run: each role is a process that remembers what it was told and what it saw.

Identities: every message has the property `id`, unique within its topic. A send without an answer (the broker was killed)
is never repeated, so its fate is open; an acknowledged one is not.
"""
import json
import multiprocessing
import os
import pickle
import random
import struct
import time
import zlib

from link import Link, Lost, consumer_heartbeat, now_ms, producer_heartbeat, remoting

QUEUES = 4
END_TRANSACTION, CHECK_TRANSACTION, SEND_BACK, SEND_REPLY, PUSH_REPLY, LOCK = 37, 39, 36, 325, 326, 41
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
WINDOW = 64
RETRY_GROUP, TXN_GROUP = "SoakRetryGroup", "SoakTxnProducers"
MAX_RETRIES = 2
SQL = "n BETWEEN 3 AND 6 AND colour = 'red'"


def send_header(topic, queue, props, **more):
    """The header of a send of this moment: what is born long ago counts as expired for some of the broker's services."""
    return dict(remoting.Client.send_header(topic, queue, props, **more), g=now_ms())


def sql_matches(n):
    return 3 <= n % 10 <= 6 and n % 2 == 0


class Role(multiprocessing.Process):
    """Runs work() over and over with a new connection until the run is over, then leaves what it knows in a file."""

    def __init__(self, name, run):
        super().__init__(name=name, daemon=True)
        self.broker, self.folder, self.seed = run.broker, run.folder, run.seed
        self.stop_sending, self.stop, self.moved = run.stop_sending, run.stop, run.moved
        self.notes, self.heartbeat = {}, None

    @property
    def file(self):
        return os.path.join(self.folder, self.name + ".notes")

    def run(self):
        random.seed(f"{self.seed} {self.name}")
        try:
            while not self.stop.is_set() and not self.finished():
                link = None
                try:
                    link = Link(self.broker, f"127.0.0.1@{self.name}", self.heartbeat)
                    self.work(link)
                except Lost:
                    time.sleep(0.02)
                finally:
                    if link:
                        link.close()
        except BaseException as e:
            self.notes["error"] = f"{type(e).__name__}: {e}"
            raise
        finally:
            with open(self.file + ".part", "wb") as f:
                pickle.dump(self.notes, f)
            os.rename(self.file + ".part", self.file)

    def finished(self):
        return False

    def progress(self):
        self.moved.value = time.monotonic()


class Producer(Role):
    """Sends at a rate with many in flight. acknowledged: id → what is known about it."""

    def __init__(self, name, run, topic, rate, lose=False):
        super().__init__(name, run)
        self.topic, self.rate, self.count, self.flying, self.lose = topic, rate, 0, {}, lose
        self.notes = {"acknowledged": {}, "refused": {}, "sent": 0}
        self.began = None

    def finished(self):
        return self.stop_sending.is_set()

    def message(self, n):
        """(queue, properties, body, what to remember)."""
        return n % QUEUES, {"id": str(n), "KEYS": f"{self.name}-{n}", "TAGS": "TagA"}, b"x" * random.randrange(16, 900), None

    def put(self, link, n):
        queue, props, body, note = self.message(n)
        at = now_ms()
        self.flying[link.start(remoting.SEND, send_header(self.topic, queue, props), body)] = n, note, at

    def on_answer(self, link, a, n, note, at):
        if a.code == 0:
            self.notes["acknowledged"][n] = int(a.ext["queueId"]), int(a.ext["queueOffset"]), note, at
        else:
            self.notes["refused"][f"{a.code} {a.remark}"[:120]] = self.notes["refused"].get(f"{a.code} {a.remark}"[:120], 0) + 1

    def on_request(self, link, r):
        pass

    def sending(self):
        return not self.stop_sending.is_set()

    def work(self, link):
        self.flying = {}
        if self.began is None:
            self.began = time.monotonic()
        base_time, base_count = time.monotonic(), self.count
        while not self.stop.is_set() and (self.sending() or self.flying):
            due = base_count + int((time.monotonic() - base_time) * self.rate)
            while self.sending() and self.count < due and len(self.flying) < WINDOW:
                n, self.count = self.count, self.count + 1
                if self.lose and n == 100:  # as if the broker had acknowledged and then lost it
                    self.notes["acknowledged"][n] = n % QUEUES, 0, self.message(n)[3], now_ms()
                    continue
                self.put(link, n)
            for a in link.poll(0.005):
                if not a.flag & 1:
                    self.on_request(link, a)
                elif a.opaque in self.flying:
                    self.on_answer(link, a, *self.flying.pop(a.opaque))
        self.notes["sent"] = self.count


class BatchProducer(Producer):
    """Batches of ten; the identities are counted over all of them."""
    SIZE = 10

    def put(self, link, n):
        parts = b""
        for i in range(n * self.SIZE, (n + 1) * self.SIZE):
            props = remoting.properties({"id": str(i), "KEYS": f"{self.name}-{i}"}).encode()
            body = b"b" * random.randrange(8, 200)
            parts += struct.pack(">iiiii", 22 + len(body) + len(props), 0, 0, 0, len(body)) + body + struct.pack(">h", len(props)) + props
        at = now_ms()
        self.flying[link.start(remoting.SEND_BATCH, send_header(self.topic, n % QUEUES, {}, batch=True), parts)] = n, None, at

    def on_answer(self, link, a, n, note, at):
        if a.code != 0:
            super().on_answer(link, a, n, note, at)
            return
        for i in range(self.SIZE):
            self.notes["acknowledged"][n * self.SIZE + i] = int(a.ext["queueId"]), int(a.ext["queueOffset"]) + i, None, at


class OrderedProducer(Producer):
    """Keys whose messages are numbered; a key always goes to the same queue."""
    KEYS = 20

    def message(self, n):
        key, number = n % self.KEYS, n // self.KEYS
        return key % QUEUES, {"id": str(n), "key": str(key), "number": str(number)}, b"o%d" % n, None


class DelayProducer(Producer):
    """Delay levels. The last level is far off: those messages must be pending at the end."""

    def __init__(self, name, run, topic, rate, levels, **more):
        super().__init__(name, run, topic, rate, **more)
        self.levels = levels  # level → ms

    def message(self, n):
        level = list(self.levels)[n % len(self.levels)]
        return n % QUEUES, {"id": str(n), "DELAY": str(level)}, b"d%d" % n, self.levels[level]


class TimerProducer(Producer):
    """Any delay, in the three ways in which clients say it; each fiftieth is due after the run."""

    def message(self, n):
        delay = 3600_000 if n % 50 == 49 else random.randrange(300, 12000)
        way = n % 3
        if way == 0:
            delay = delay // 1000 * 1000 + 1000
            props = {"TIMER_DELAY_SEC": str(delay // 1000)}
        elif way == 1:
            props = {"TIMER_DELAY_MS": str(delay)}
        else:
            props = {"TIMER_DELIVER_MS": str(now_ms() + delay)}
        return n % QUEUES, dict(props, id=str(n)), b"t%d" % n, delay


class SqlProducer(Producer):
    def message(self, n):
        return n % QUEUES, {"id": str(n), "n": str(n % 10), "colour": "red" if n % 2 == 0 else "blue"}, b"s%d" % n, sql_matches(n)


class RetryProducer(Producer):
    """A message says how often its consumer refuses it; 99 is for ever."""

    def message(self, n):
        fail = (0, 0, 1, 2, 99)[n % 5]
        return n % QUEUES, {"id": str(n), "fail": str(fail)}, b"r%d" % n, fail


class TxnProducer(Producer):
    """Half messages and what becomes of them: by the number, said at once or when the broker asks."""
    WAYS = (("commit", COMMIT), ("rollback", ROLLBACK), ("ask-commit", UNKNOWN), ("ask-rollback", UNKNOWN), ("silent-commit", None))

    def __init__(self, name, run, topic, rate, **more):
        super().__init__(name, run, topic, rate, **more)
        self.heartbeat = producer_heartbeat(TXN_GROUP)
        self.notes["asked"] = {}

    def finished(self):
        return False  # it still answers checks

    def way(self, n):
        # Most are decided at once; the others wait for the broker's question.
        return self.WAYS[n % 10] if n % 10 < len(self.WAYS) else self.WAYS[n % 2]

    def put(self, link, n):
        props = {"id": str(n), "TRAN_MSG": "true", "PGROUP": TXN_GROUP, "UNIQ_KEY": f"SOAKTXN{n:024d}"}
        at = now_ms()
        header = send_header(self.topic, n % QUEUES, props, sys_flag=4, group=TXN_GROUP)
        self.flying[link.start(remoting.SEND, header, b"x%d" % n)] = n, self.way(n)[0], at

    def decide(self, link, n, what, log_offset, half_offset, checked):
        link.start(END_TRANSACTION, {"producerGroup": TXN_GROUP, "commitLogOffset": log_offset, "tranStateTableOffset": half_offset, "commitOrRollback": what,
                                     "fromTransactionCheck": "true" if checked else "false", "msgId": f"SOAKTXN{n:024d}", "transactionId": f"SOAKTXN{n:024d}"}, flag=2)

    def on_answer(self, link, a, n, note, at):
        super().on_answer(link, a, n, note, at)
        if a.code == 0 and self.way(n)[1] is not None:
            self.decide(link, n, self.way(n)[1], int(a.ext["msgId"][16:], 16), a.ext["queueOffset"], False)

    def on_request(self, link, r):
        if r.code != CHECK_TRANSACTION:
            return
        m = remoting.records(r.body)[0]
        n = int(m.props["id"])
        self.notes["asked"][n] = self.notes["asked"].get(n, 0) + 1
        self.decide(link, n, ROLLBACK if "rollback" in self.way(n)[0] else COMMIT, r.ext["commitLogOffset"], r.ext["tranStateTableOffset"], True)
        self.progress()

    def sending(self):
        return not self.stop_sending.is_set()

    def work(self, link):
        super().work(link)
        while not self.stop.is_set():
            for a in link.poll(0.1):
                if not a.flag & 1:
                    self.on_request(link, a)


class Requester(Producer):
    """Requests that want a reply; replies come as requests of the broker."""

    def __init__(self, name, run, topic, rate, **more):
        super().__init__(name, run, topic, rate, **more)
        self.heartbeat = producer_heartbeat("SoakRequesters")
        self.notes["replies"] = set()

    def finished(self):
        return False

    def message(self, n):
        return n % QUEUES, {"id": str(n), "REPLY_TO_CLIENT": f"127.0.0.1@{self.name}", "CORRELATION_ID": f"c{n}", "TTL": "5000", "MSG_TYPE": "request"}, b"q%d" % n, None

    def on_request(self, link, r):
        if r.code == PUSH_REPLY:
            props = dict(p.split("\x01", 1) for p in r.ext["properties"].split("\x02") if "\x01" in p)
            self.notes["replies"].add(props["CORRELATION_ID"])
            link.answer(r)
            self.progress()

    def work(self, link):
        super().work(link)
        while not self.stop.is_set():
            for a in link.poll(0.1):
                if not a.flag & 1:
                    self.on_request(link, a)


class Consumer(Role):
    """Pulls all queues of its topics with long polls. seen: (topic, queue, offset, id, store time, consumption time, properties of interest)."""
    KEEP = ()

    def __init__(self, name, run, group, topics, expression="*", kind="TAG"):
        super().__init__(name, run)
        self.group, self.topics, self.expression, self.kind = group, topics, expression, kind  # topic → queues
        self.heartbeat = consumer_heartbeat(group, list(topics)[0], expression, kind)
        self.at = {(t, q): 0 for t, count in topics.items() for q in range(count)}
        self.notes = {"seen": [], "backwards": [], "odd": {}}

    def pull(self, link, place):
        topic, queue = place
        sql = self.kind != "TAG" and not topic.startswith("%")
        self.open[link.start(remoting.PULL, {
            "consumerGroup": self.group, "topic": topic, "queueId": queue, "queueOffset": self.at[place], "maxMsgNums": 32, "sysFlag": 7, "commitOffset": self.at[place],
            "suspendTimeoutMillis": 10000, "subscription": self.expression if sql else "*", "subVersion": 1, "expressionType": self.kind if sql else "TAG"})] = place

    def take(self, link, topic, queue, m):
        """One message. Raises Lost when it could not be dealt with, which brings it again."""
        self.notes["seen"].append((topic, queue, m.offset, m.props["id"], m.stored, now_ms(), tuple(m.props.get(k) for k in self.KEEP)))

    def before_pulls(self, link):
        pass

    def work(self, link):
        self.before_pulls(link)
        self.open, later = {}, []
        for place in self.at:
            self.pull(link, place)
        while not self.stop.is_set():
            for a in link.poll(0.1):
                if a.flag & 1 and a.opaque in self.open:
                    place = self.open.pop(a.opaque)
                    if self.on_answer(link, place, a):
                        self.pull(link, place)
                    else:
                        later.append((time.monotonic() + 0.2, place))
            while later and later[0][0] < time.monotonic():
                self.pull(link, later.pop(0)[1])

    def on_answer(self, link, place, a):
        if a.code == 0:
            for m in remoting.records(a.body):
                if m.offset >= self.at[place]:
                    self.take(link, place[0], place[1], m)
                    self.at[place] = m.offset + 1
            self.progress()
        elif a.code not in (19, 20, 21):
            self.notes["odd"][f"{place[0]} {a.code} {a.remark}"[:140]] = self.notes["odd"].get(f"{place[0]} {a.code} {a.remark}"[:140], 0) + 1
            return False
        following = int(a.ext["nextBeginOffset"])
        if following < self.at[place]:
            self.notes["backwards"].append((place, self.at[place], following))
        self.at[place] = following
        return True


class DelayConsumer(Consumer):
    pass


class OrderedConsumer(Consumer):
    """Locks the queues before it pulls, as orderly consumers do."""
    KEEP = ("key", "number")

    def before_pulls(self, link):
        wanted = [{"topic": t, "brokerName": "broker-soak", "queueId": q} for t, q in self.at if not t.startswith("%")]
        a = link.call(LOCK, {}, json.dumps({"consumerGroup": self.group, "clientId": link.client_id, "mqSet": wanted}).encode())
        got = json.loads(a.body)["lockOKMQSet"] if a.code == 0 else []
        if len(got) != len(wanted):
            self.notes["odd"]["lock refused"] = self.notes["odd"].get("lock refused", 0) + 1


class RetryConsumer(Consumer):
    """Sends back what says so; the retry topic is one of its topics."""
    KEEP = ("fail",)

    def take(self, link, topic, queue, m):
        if int(m.props["fail"]) > m.reconsume:
            a = link.call(SEND_BACK, {"offset": m.physical, "group": self.group, "delayLevel": 1, "originMsgId": m.msg_id, "originTopic": topic, "unitMode": "false",
                                      "maxReconsumeTimes": MAX_RETRIES})
            if a.code != 0:
                self.notes["odd"][f"send back {a.code} {a.remark}"[:140]] = 1
                raise Lost()
        self.notes["seen"].append((topic, queue, m.offset, m.props["id"], m.stored, now_ms(), (m.props["fail"], m.reconsume)))

    def work(self, link):
        """One pull at a time: sending back waits for its answer on the same connection."""
        while not self.stop.is_set():
            idle = True
            for place in self.at:
                a = link.call(remoting.PULL, {"consumerGroup": self.group, "topic": place[0], "queueId": place[1], "queueOffset": self.at[place], "maxMsgNums": 32, "sysFlag": 5,
                                              "commitOffset": self.at[place], "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 1, "expressionType": "TAG"})
                self.on_answer(link, place, a)
                idle = idle and a.code != 0
            if idle:
                link.poll(0.2)


class Replier(Consumer):
    """Answers each request by a reply message."""

    def __init__(self, name, run, group, topics):
        super().__init__(name, run, group, topics)
        self.notes["replied"] = set()
        self.flying = {}

    def take(self, link, topic, queue, m):
        super().take(link, topic, queue, m)
        props = {"MSG_TYPE": "reply", "REPLY_TO_CLIENT": m.props["REPLY_TO_CLIENT"], "CORRELATION_ID": m.props["CORRELATION_ID"], "TTL": m.props["TTL"]}
        header = send_header(m.props["CLUSTER"] + "_REPLY_TOPIC", 0, props, group="SoakRepliers")
        self.flying[link.start(SEND_REPLY, header, b"reply")] = m.props["CORRELATION_ID"]

    def work(self, link):
        self.flying = {}
        original = link.poll

        def poll(timeout):
            out = []
            for a in original(timeout):
                if a.flag & 1 and a.opaque in self.flying:
                    c = self.flying.pop(a.opaque)
                    if a.code == 0:
                        self.notes["replied"].add(c)
                    else:
                        self.notes["odd"][f"reply {a.code}"] = self.notes["odd"].get(f"reply {a.code}", 0) + 1
                else:
                    out.append(a)
            return out
        link.poll = poll
        super().work(link)
