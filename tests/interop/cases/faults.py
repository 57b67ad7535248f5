"""Faults and bad input: kills, floods of connections, garbage, peers that do not read, start-up problems."""
import hashlib
import os
import random
import re
import resource
import select
import socket
import struct
import subprocess
import threading
import time

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import create_topic, unique

QUEUES = 4


class KillProducer(threading.Thread):
    """Sends numbered messages with a window in flight, over every kill; an unanswered number is never sent again."""

    def __init__(self, cluster, topic, name, window=16):
        super().__init__(daemon=True)
        self.cluster, self.topic, self.prefix, self.window = cluster, topic, name, window
        self.acknowledged, self.sent, self.stopping, self.error = {}, 0, False, None

    def run(self):
        try:
            while not self.stopping:
                try:
                    with remoting.Client(self.cluster.broker, timeout=5) as c:
                        self._connection(c)
                except (OSError, remoting.Closed):
                    time.sleep(0.01)
        except Exception as e:
            self.error = e

    def _connection(self, c):
        flying = {}
        while not self.stopping or flying:
            while len(flying) < self.window and not self.stopping:
                ident = f"{self.prefix}-{self.sent}"
                self.sent += 1
                opaque = c.start(remoting.SEND, c.send_header(self.topic, self.sent % QUEUES, {"ident": ident, "KEYS": ident}), b"x" * random.randrange(1, 900))
                flying[opaque] = ident
            a = c.read()
            ident = flying.pop(a.opaque)
            if a.code == 0:
                self.acknowledged[ident] = int(a.ext["queueId"]), int(a.ext["queueOffset"])
            elif a.code not in (2, 14):
                raise AssertionError(f"send answered {a.code} {a.remark}")


@case("sigkill-under-load", java_too=True, alone=True)
def sigkill(ctx):
    """50 times SIGKILL at random moments under load: everything acknowledged is there, no offset twice, consumers go on."""
    rounds = 50 if ctx.runner.against == "tenon" else 4
    seed = random.randrange(1 << 30)
    random.seed(seed)
    cluster = ctx.fresh()
    topics = [unique("Kill_") for _ in range(2)]
    for t in topics:
        create_topic(cluster, t)
    consumers = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("KillGroup_"), topic=topics, timeout=600) for n in ("go", "java-4.9.8")}
    for r in consumers.values():
        r.started()
    producers = [KillProducer(cluster, t, f"p{i}") for i, t in enumerate(topics + topics[:1])]
    for p in producers:
        p.start()
    starts = []
    for _ in range(rounds):
        time.sleep(random.uniform(0.05, 0.45))
        cluster.kill()
        t0 = time.monotonic()
        cluster.start()
        starts.append(time.monotonic() - t0)
    time.sleep(0.5)  # some more after the last start
    for p in producers:
        p.stopping = True
    for p in producers:
        p.join(20)
        assert p.error is None, p.error
    acknowledged = {(p.topic, i): where for p in producers for i, where in p.acknowledged.items()}
    stored, bad = {}, []
    with remoting.Client(cluster.broker) as c:
        for t in topics:
            for q in range(QUEUES):
                found = c.read_queue(t, q)
                if [r.offset for r in found] != list(range(len(found))):
                    bad.append(f"offsets of {t} queue {q} are not 0, 1, 2 …: {[(i, r.offset) for i, r in enumerate(found) if i != r.offset][:3]}")
                for r in found:
                    if (t, r.props["ident"]) in stored:
                        bad.append(f"{r.props['ident']} stored twice")
                    stored[t, r.props["ident"]] = q, r.offset
        lost = [(k, w) for k, w in acknowledged.items() if stored.get(k) != w]
        if lost:
            bad.append(f"{len(lost)} of {len(acknowledged)} acknowledged are not where they were acknowledged, e.g. {[(k, w, stored.get(k)) for k, w in lost[:3]]}")
        for t in topics:  # the index has a thread of its own and goes by the log
            last = max((where[1], i) for (topic, i), where in stored.items() if topic == t)[1]
            clusters.wait_for("the key index", lambda t=t, i=last: c.query(t, i)[0] == 0)
        for t, i in random.sample(sorted(acknowledged), min(200, len(acknowledged))):
            code, hits = c.query(t, i)
            if code != 0 or i not in [r.props["ident"] for r in hits]:
                bad.append(f"key {i} not found: {code}")
    assert not bad, (f"seed {seed}", bad[:5])
    for n, r in consumers.items():
        missing = set()

        def complete(run):
            missing.clear()
            missing.update(set(stored) - {(l["topic"], l["props"]["ident"]) for l in run.received()})
            return not missing
        try:
            r.until("every message", complete, 60)
            ctx.sub(n + "-goes-on", [])
        except AssertionError as e:
            ctx.sub(n + "-goes-on", [f"{len(missing)} of {len(stored)} never received, e.g. {sorted(missing)[:3]}", str(e)])
    return f"seed {seed}, {len(acknowledged)} acknowledged, {len(stored)} stored, restart at most {max(starts):.2f} s"


class Bystander(threading.Thread):
    """An ordinary client that must not notice anything: sends and pulls, and remembers its slowest call."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.topic, self.calls, self.slowest, self.error, self.stopping = cluster, unique("Bystander_"), 0, 0.0, None, False
        create_topic(cluster, self.topic)
        self.start()

    def run(self):
        try:
            with remoting.Client(self.cluster.broker, timeout=15) as c, remoting.Client(self.cluster.namesrv, timeout=15) as ns:
                while not self.stopping:
                    t0 = time.monotonic()
                    a = c.send(self.topic, b"bystander %d" % self.calls, self.calls % QUEUES)
                    assert a.code == 0, (a.code, a.remark)
                    b = c.pull(self.topic, self.calls % QUEUES, int(a.ext["queueOffset"]), suspend_ms=10000)
                    assert b.code == 0 and remoting.records(b.body)[0].body == b"bystander %d" % self.calls, (b.code, b.remark)
                    assert ns.route(self.topic), "route"
                    self.slowest = max(self.slowest, time.monotonic() - t0)
                    self.calls += 1
                    time.sleep(0.005)
        except Exception as e:
            self.error = e

    def stop(self):
        self.stopping = True
        self.join(20)

    def check(self, slowest):
        end = time.monotonic() + 15
        while self.calls <= 10 and self.error is None and time.monotonic() < end:
            time.sleep(0.01)
        self.stop()
        assert self.error is None, f"another client was disturbed: {type(self.error).__name__} {self.error}"
        assert self.calls > 10, f"another client got only {self.calls} calls through"
        if self.cluster.kind == "java":
            slowest += 10  # its long polls miss a wake-up now and then and look again after 5 s
        assert self.slowest < slowest, f"another client waited {self.slowest:.1f} s"
        return f"bystander: {self.calls} rounds, slowest {self.slowest * 1000:.0f} ms"


def broker_pid(cluster):
    if cluster.kind == "tenon":
        return cluster.pid
    with open(os.path.join(cluster.folder, "broker.pid")) as f:
        return int(f.read())


@case("idle-connections", java_too=True, alone=True)
def idle_connections(ctx):
    """10 000 idle connections: memory stays bounded and another client works."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10000, hard - 1000)
    assert count == 10000, f"needs 11000 file descriptors, the limit is {hard}"
    cluster = ctx.fresh()
    bystander = ctx.keep(Bystander(cluster))
    before = clusters.memory_kb(broker_pid(cluster))
    host, port = cluster.broker.split(":")
    idle = []
    try:
        for i in range(count):
            s = socket.create_connection((host, int(port)), 10)
            if i % 2:  # half of them have talked before
                s.sendall(remoting.frame(remoting.MAX_OFFSET, {"topic": bystander.topic, "queueId": 0}, opaque=i))
            idle.append(s)
        for i in range(1, count, 500):
            idle[i].settimeout(10)
            assert idle[i].recv(4), "closed"
        time.sleep(1)  # memory that the last of them would take
        grown = clusters.memory_kb(broker_pid(cluster)) - before
        text = bystander.check(5)
        with remoting.Client(cluster.broker) as c:  # and new ones are still accepted
            assert c.send(bystander.topic, b"late", 0).code == 0
    finally:
        for s in idle:
            s.close()
    assert cluster.kind != "tenon" or grown < 64 * 1024, f"RssAnon grew by {grown} kB"
    return f"{count} connections, RssAnon +{grown} kB, {text}"


def garbage_frames():
    header = b'{"code":11,"flag":0,"language":"JAVA","opaque":1,"version":409}'
    bad_map = struct.pack(">hbhiii", 105, 0, 409, 1, 0, 0) + struct.pack(">i", 5000) + b"abc"
    noise = random.Random(7).randbytes(4096)
    return {
        "length negative": struct.pack(">iI", -5, 10) + b"x" * 64,
        "length zero": struct.pack(">iI", 0, 0) + b"x" * 64,
        "length below four": struct.pack(">iI", 3, 0) + b"x" * 64,
        "length huge": struct.pack(">iI", 0x7FFFFFFF, 10) + b"x" * 64,
        "length over the limit": struct.pack(">iI", 16777213, 10) + b"x" * 64,
        "header longer than the frame": struct.pack(">iI", 20, 5000) + b"x" * 6000,
        "unknown serialisation": struct.pack(">iI", 4 + len(header), (9 << 24) | len(header)) + header,
        "invalid JSON": struct.pack(">iI", 4 + 12, 12) + b'{"code":11,,' + b"x" * 16,
        "JSON that is no object": struct.pack(">iI", 4 + 2, 2) + b"[]" + b"x" * 16,
        "binary header with a map beyond its end": struct.pack(">iI", 4 + len(bad_map), (1 << 24) | len(bad_map)) + bad_map,
        "binary header too short": struct.pack(">iI", 4 + 5, (1 << 24) | 5) + b"\0\1\0\0\0" + b"x" * 16,
        "noise": b"\xff" + noise,
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b" " * 64,
    }


def closed_within(s, seconds):
    """True when the peer closes; whatever it says before is read."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([s], [], [], 0.2)
        if ready:
            try:
                if not s.recv(65536):
                    return True
            except OSError:
                return True
    return False


@case("garbage", java_too=True, alone=True)
def garbage(ctx):
    """Garbage of each kind closes its connection (or gets an answer); other clients are not disturbed; memory and log stay small."""
    cluster = ctx.fresh()
    bystander = ctx.keep(Bystander(cluster))
    log = os.path.join(cluster.folder, "tenon.log")
    half = []
    for address in (cluster.broker, cluster.namesrv):
        host, port = address.split(":")
        for _ in range(20):  # half frames: they wait, and must not cost their announced size
            s = socket.create_connection((host, int(port)))
            s.sendall(struct.pack(">iI", 16000000, 50) + b'{"code":11')
            half.append(s)
    before = clusters.memory_kb(broker_pid(cluster))
    size = os.path.getsize(log) if cluster.kind == "tenon" else 0
    for address in (cluster.broker, cluster.namesrv):
        host, port = address.split(":")
        for kind, data in garbage_frames().items():
            bad = []
            for i in range(20):
                with socket.create_connection((host, int(port)), 5) as s:
                    if i % 2:  # after something valid on the same connection
                        s.sendall(remoting.frame(remoting.ROUTE, {"topic": "TBW102"}))
                        s.settimeout(5)
                        s.recv(4)
                    try:
                        s.sendall(data)
                    except OSError:
                        continue
                    if not closed_within(s, 5):
                        bad.append(f"connection {i} still open after 5 s")
                        break
            ctx.sub(kind + (" (broker)" if address == cluster.broker else " (name server)"), bad)
    # A frame that is valid JSON but nonsense gets an answer.
    with remoting.Client(cluster.broker) as c:
        a = c.call(29999, {"x": "y"})
        assert a.code == 3, (a.code, a.remark)
    grown = clusters.memory_kb(broker_pid(cluster)) - before
    text = bystander.check(3)
    for s in half:
        s.close()
    if cluster.kind == "tenon":
        assert grown < 32 * 1024, f"RssAnon grew by {grown} kB"
        logged = os.path.getsize(log) - size
        assert logged < 260 * 2 * 400, f"{logged} bytes of log for 520 bad connections"
    return f"RssAnon +{grown} kB, {text}"


@case("client-stops-reading", alone=True)
def stops_reading(ctx):
    """A client that asks for megabytes and never reads: memory bounded, another client works, and it can leave."""
    cluster, topic = ctx.fresh(), unique("Unread_")
    create_topic(cluster, topic)
    with remoting.Client(cluster.broker) as c:
        for _ in range(8):
            assert c.send(topic, os.urandom(1 << 20), 0).code == 0
    bystander = ctx.keep(Bystander(cluster))
    before = clusters.memory_kb(broker_pid(cluster))
    host, port = cluster.broker.split(":")
    sockets, asked = [], 0
    for _ in range(10):
        s = socket.create_connection((host, int(port)))
        s.setblocking(False)
        sockets.append(s)
    end = time.monotonic() + 5
    pull = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0, "expressionType": "TAG"}
    one = remoting.frame(remoting.PULL, pull)
    open_sockets = set(sockets)
    while time.monotonic() < end and asked < 20000:
        for s in list(open_sockets):
            try:
                s.send(one)
                asked += 1
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                open_sockets.discard(s)  # closed on us: fine
    grown = clusters.memory_kb(broker_pid(cluster)) - before
    text = bystander.check(5)
    for s in sockets:
        s.close()
    if cluster.kind == "tenon":
        assert grown < 96 * 1024, f"RssAnon grew by {grown} kB for {asked} unread answers of 1 MiB"
    with remoting.Client(cluster.broker) as c:
        assert c.pull(topic, 0, 0).code == 0
    return f"{asked} pulls of 1 MiB unread, RssAnon +{grown} kB, {text}"


def requests_like(topic):
    """Requests that a client gets wrong: name → (code, ext, body)."""
    header = remoting.Client.send_header
    pull = {"consumerGroup": "LikeGroup", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0, "expressionType": "TAG"}
    send, where = remoting.SEND, {"topic": topic, "queueId": 0}
    out = {
        "send to an illegal topic": (send, header("bad topic!"), b"x"),
        "send to an empty topic": (send, header(""), b"x"),
        "send to a blank topic": (send, header("  "), b"x"),
        "send to a topic of 128 characters": (send, header("t" * 128), b"x"),
        "send to a topic of 127 characters": (send, header("t" * 127), b"x"),
        "send to SCHEDULE_TOPIC_XXXX": (send, header("SCHEDULE_TOPIC_XXXX"), b"x"),
        "send to TBW102": (send, header("TBW102"), b"x"),
        "send with an unknown default topic": (send, dict(header("LikeUnknown_1"), c="NoSuchTopic"), b"x"),
        "send to queue 99": (send, header(topic, 99), b"x"),
        "send to queue -7": (send, header("LikeRandom", -7), b"x"),
        "send 4 MiB": (send, header(topic, 0), b"x" * (4 << 20)),
        "send 4 MiB and one": (send, header(topic, 0), b"x" * ((4 << 20) + 1)),
        "send nothing": (send, header(topic, 0), b""),
        "send with 32 700 bytes of properties": (send, header(topic, 0, {"p": "v" * 32650}), b"x"),
        "send with 32 768 bytes of properties": (send, header(topic, 0, {"p": "v" * 32766}), b"x"),
        "send without a topic": (send, {k: v for k, v in header(topic).items() if k != "b"}, b"x"),
        "send with a queue id that is no number": (send, dict(header(topic), e="five"), b"x"),
        "send with code 10": (10, {"producerGroup": "g", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1, "sysFlag": 0, "bornTimestamp": 1, "flag": 0,
                                   "properties": "", "reconsumeTimes": 0, "unitMode": "false"}, b"x"),
        "batch that is cut": (remoting.SEND_BATCH, header(topic, 0, batch=True), b"\0\0\0\x40abc"),
        "pull of an unknown topic": (remoting.PULL, dict(pull, topic="NoSuchTopic"), b""),
        "pull of queue 99": (remoting.PULL, dict(pull, queueId=99), b""),
        "pull of queue -1": (remoting.PULL, dict(pull, queueId=-1), b""),
        "pull at the end": (remoting.PULL, dict(pull, queueId=2, queueOffset=3), b""),
        "pull beyond the end": (remoting.PULL, dict(pull, queueId=2, queueOffset=50), b""),
        "pull before the begin": (remoting.PULL, dict(pull, queueId=2, queueOffset=-1), b""),
        "pull of an empty queue at 0": (remoting.PULL, dict(pull, queueId=3), b""),
        "pull of an empty queue at 5": (remoting.PULL, dict(pull, queueId=3, queueOffset=5), b""),
        "pull of a tag that is not there": (remoting.PULL, dict(pull, queueId=2, subscription="NoSuchTag"), b""),
        "pull without a subscription by a group that is not online": (remoting.PULL, dict(pull, sysFlag=0), b""),
        "pull without an offset": (remoting.PULL, {k: v for k, v in pull.items() if k != "queueOffset"}, b""),
        "maximum offset of an unknown topic": (remoting.MAX_OFFSET, {"topic": "NoSuchTopic", "queueId": 0}, b""),
        "minimum offset of queue 99": (remoting.MIN_OFFSET, {"topic": topic, "queueId": 99}, b""),
        "maximum offset without a queue": (remoting.MAX_OFFSET, {"topic": topic}, b""),
        "search by time in an unknown topic": (remoting.SEARCH_OFFSET, {"topic": "NoSuchTopic", "queueId": 0, "timestamp": 1}, b""),
        "search by time before everything": (remoting.SEARCH_OFFSET, dict(where, queueId=2, timestamp=1), b""),
        "search by time after everything": (remoting.SEARCH_OFFSET, dict(where, queueId=2, timestamp=1 << 50), b""),
        "earliest time of an unknown topic": (remoting.EARLIEST_TIME, {"topic": "NoSuchTopic", "queueId": 0}, b""),
        "view beyond the end": (remoting.VIEW, {"offset": 1 << 40}, b""),
        "view at -1": (remoting.VIEW, {"offset": -1}, b""),
        "query of an unknown key": (remoting.QUERY, {"topic": topic, "key": "no such key", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60, "_UNIQUE_KEY_QUERY": "false"}, b""),
        "offset of an unknown group": (remoting.QUERY_OFFSET, dict(where, consumerGroup="NoSuchGroup"), b""),
        "offset of an unknown group on a queue with messages": (remoting.QUERY_OFFSET, dict(where, queueId=2, consumerGroup="NoSuchGroup"), b""),
        "offset update of an unknown group": (remoting.UPDATE_OFFSET, dict(where, consumerGroup="LikeOffsets", commitOffset=7), b""),
        "heartbeat that is no JSON": (remoting.HEARTBEAT, {}, b"no json"),
        "members of an unknown group": (38, {"consumerGroup": "NoSuchGroup"}, b""),
        "unregister an unknown client": (35, {"clientID": "nobody", "consumerGroup": "NoSuchGroup"}, b""),
        "unknown code": (29998, {}, b""),
        "create an illegal topic": (remoting.UPDATE_TOPIC, {"topic": "bad topic!", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
                                                             "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}, b""),
    }
    name_server = {
        "route of an unknown topic": (remoting.ROUTE, {"topic": "NoSuchTopic"}, b""),
        "unknown value": (101, {"namespace": "NoSuch", "key": "none"}, b""),
        "list of an unknown namespace": (219, {"namespace": "NoSuch"}, b""),
        "delete of an unknown value": (102, {"namespace": "NoSuch", "key": "none"}, b""),
    }
    return out, name_server


def neutral(text, cluster):
    """A remark without what differs by nature: addresses, ports, times, Java's own class and file names."""
    text = re.sub(r"127\.0\.0\.1(:\d+)?", "ADDRESS", text or "")
    return re.sub(r"\b1[67]\d{11}\b", "TIME", text)


@case("errors-like-java", needs=("java",))
def errors_like_java(ctx):
    """Wrong requests get the code, the remark and the fields that the Java broker 4.9.7 answers."""
    results = {}
    ours, java = ctx.fresh(), ctx.keep(clusters.Java(ctx.temp("java")).start())
    for cluster in (ours, java):
        topic = "LikeTopic"
        create_topic(cluster, topic)
        with remoting.Client(cluster.broker) as c:
            for i in range(3):
                assert c.send(topic, b"x", 2, {"TAGS": "TagA", "KEYS": "like"}).code == 0
        requests, name_server = requests_like(topic)
        for address, group in ((cluster.broker, requests), (cluster.namesrv, name_server)):
            for name, (code, ext, body) in group.items():
                with remoting.Client(address, timeout=8) as c:
                    try:
                        a = c.call(code, ext, body)
                        results.setdefault(name, {})[cluster.kind] = a.code, neutral(a.remark, cluster), a.ext
                    except (remoting.Closed, OSError) as e:
                        results.setdefault(name, {})[cluster.kind] = type(e).__name__, "", {}
    changing = {"msgId", "queueId"}  # the queue of "queue -7" is random
    for name, r in results.items():
        bad, a, b = [], r["tenon"], r["java"]
        if a[0] != b[0]:
            bad.append(f"code {a[0]}, Java's {b[0]} (remarks {a[1][:120]!r}, {b[1][:120]!r})")
        # An exception's text names Java's classes; what clients and tools rely on are the texts of the checks.
        if a[1] != b[1] and "Exception" not in b[1] and "at java." not in b[1]:
            bad.append(f"remark {a[1][:200]!r}, Java's {b[1][:200]!r}")
        if set(a[2]) != set(b[2]):
            bad.append(f"fields {sorted(a[2])}, Java's {sorted(b[2])}")
        elif a[0] == 0 or "nextBeginOffset" in a[2]:
            bad += [f"field {k} is {a[2][k]}, Java's {v}" for k, v in b[2].items() if k not in changing and a[2][k] != v]
        ctx.sub(name, bad)
    return f"{len(results)} requests compared"


def tree(folder):
    """Path, size and content hash of everything below a folder."""
    out = {}
    for root, _, files in os.walk(folder):
        for f in files:
            path = os.path.join(root, f)
            h = hashlib.sha256()
            with open(path, "rb") as file:
                h.update(file.read(1 << 20))
            out[path] = os.path.getsize(path), h.hexdigest()
    return out


def refused(cluster, *words, user=None, seconds=10):
    """Starting must fail soon, with a text that contains every word. Returns the text."""
    def become():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    t0 = time.monotonic()
    done = subprocess.run(cluster.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds,
                          preexec_fn=become if user else None, cwd="/")
    assert done.returncode not in (0, -6, -11), f"exit {done.returncode}: {done.stdout[-500:]}"
    for w in words:
        assert re.search(w, done.stdout, re.I), f"no {w!r} in: {done.stdout[-800:]}"
    assert time.monotonic() - t0 < seconds
    return done.stdout


@case("port-taken")
def port_taken(ctx):
    """A port that is taken: a start-up error that names it, and no store folder is left behind."""
    for which in ("namesrv_port", "broker_port"):
        cluster = clusters.Tenon(ctx.temp("taken"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", getattr(cluster, which)))
            s.listen()
            refused(cluster, str(getattr(cluster, which)), "in use|taken|bind")


@case("store-locked")
def store_locked(ctx):
    """A store that another process uses: a start-up error that names it, and the owner works on."""
    owner = ctx.fresh()
    create_topic(owner, "LockTopic")
    with remoting.Client(owner.broker) as c:
        assert c.send("LockTopic", b"one", 0).code == 0
        second = clusters.Tenon(ctx.temp("second"), store=owner.store)
        refused(second, re.escape(owner.store), "lock|another|in use")
        assert c.send("LockTopic", b"two", 0).code == 0
        assert [r.body for r in c.read_queue("LockTopic", 0)] == [b"one", b"two"]


@case("store-not-writable")
def store_not_writable(ctx):
    """A store folder without permission, or that is a file: a start-up error that names it."""
    file = os.path.join(ctx.temp("file"), "plain")
    with open(file, "w") as f:
        f.write("a file")
    refused(clusters.Tenon(ctx.temp("c"), store=file), re.escape(file))
    refused(clusters.Tenon(ctx.temp("c"), store=os.path.join(file, "below")), re.escape(file))
    folder = ctx.temp("readonly")
    os.chmod(folder, 0o555)
    cluster = clusters.Tenon(ctx.temp("c"), store=os.path.join(folder, "store"))
    if os.getuid() != 0:
        refused(cluster, re.escape(folder), "permission|writ")
    else:  # root may write everywhere: try as nobody, if that user can reach the program
        path = cluster.argv()[0]
        while path != "/" and os.stat(path).st_mode & 0o001:
            path = os.path.dirname(path)
        if path != "/":
            return f"as root only; {path} keeps other users from the program"
        os.chmod(ctx.runner.root, 0o755)
        refused(cluster, re.escape(folder), "permission|writ", user=65534)
    assert os.listdir(folder) == []


@case("store-foreign-or-damaged")
def store_damaged(ctx):
    """A foreign or damaged file in the store: a start-up error that names it and what to do, and nothing on disk changes."""
    written = ctx.fresh()
    create_topic(written, "DamageTopic")
    with remoting.Client(written.broker) as c:
        for i in range(50):
            assert c.send("DamageTopic", b"x" * 200, i % 4, {"KEYS": f"k{i}"}).code == 0
    written.stop()

    def foreign(store):
        path = os.path.join(store, "commitlog", "notes.txt")
        with open(path, "w") as f:
            f.write("not a log file")
        return path

    def short(store):
        path = os.path.join(store, "commitlog", sorted(os.listdir(os.path.join(store, "commitlog")))[0])
        second = os.path.join(store, "commitlog", "%020d" % os.path.getsize(path))
        with open(second, "wb") as f:
            f.write(b"x" * 1000)
        return second

    def is_folder(store):
        path = os.path.join(store, "config", "topics.json")
        if os.path.exists(path + ".bak"):
            os.remove(path + ".bak")  # the broker would start with it
        os.remove(path)
        os.mkdir(path)
        return path
    for damage in (foreign, short, is_folder):
        store = os.path.join(ctx.temp(damage.__name__), "store")
        clusters.copy_store(written.store, store)
        path = damage(store)
        before = tree(store)
        try:
            refused(clusters.Tenon(ctx.temp("c"), store=store), re.escape(os.path.basename(path)))
            after = tree(store)
            changed = [p for p in before if after.get(p) != before[p]] + [p for p in after if p not in before and not p.endswith("/lock")]
            ctx.sub(damage.__name__, [f"changed on disk: {changed}"] if changed else [])
        except AssertionError as e:
            ctx.sub(damage.__name__, [str(e)])
