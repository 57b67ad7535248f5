"""Unmodified clients of all languages against one cluster."""
import os
import threading
import time

from lib import messages as msg
from lib import remoting
from lib.clients import NAMES, Missing, command, write_messages
from lib.cluster import wait_for
from lib.runner import case

_serial = [0]
_serial_lock = threading.Lock()


def unique(text):
    with _serial_lock:
        _serial[0] += 1
        return f"{text}{_serial[0]}_{os.getpid()}"


def available(ctx, names=NAMES):
    """The clients that can be had; those that cannot are reported as skipped."""
    out = []
    for n in names:
        try:
            command(n)
            out.append(n)
        except Missing as e:
            ctx.runner.result(f"{ctx.name}/{n}", "SKIP", 0, str(e))
    return out


def broker_of(namesrv, topic):
    with remoting.Client(namesrv) as c:
        return c.route(topic)["brokerDatas"][0]["brokerAddrs"]["0"]


def raw_send(cluster, messages):
    """Sends with the small client of this harness, round robin over four queues."""
    with remoting.Client(cluster.broker) as c:
        for i, m in enumerate(messages):
            a = c.send(m.topic, msg.body(m.spec), i % 4, m.raw_properties())
            assert a.code == 0, (m.ident, a.code, a.remark)


def create_topic(cluster, topic, queues=4):
    with remoting.Client(cluster.broker) as c:
        a = c.call(remoting.UPDATE_TOPIC, {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                           "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
        assert a.code == 0, (topic, a.code, a.remark)
    wait_routed(cluster, topic)


def wait_routed(cluster, topic):
    def routed():
        with remoting.Client(cluster.namesrv) as c:
            return c.route(topic)
    wait_for(f"route of {topic}", routed)


@case("matrix", java_too=True)
def matrix(ctx):
    """Every producer to a topic that does not exist yet; every consumer gets everything exactly once, unchanged."""
    cluster, names = ctx.shared(), available(ctx)
    sent, producers = {}, {}
    for n in names:
        topic = unique("Matrix_" + n.replace(".", "_") + "_")
        if n == "node":  # see node-new-topic
            create_topic(cluster, topic)
        sent[n] = msg.full_set(topic, n)
        producers[n] = ctx.client(n, "produce", cluster.namesrv, messages=write_messages(ctx.folder, sent[n]), group=unique("p"))
    for n, run in producers.items():
        code = run.wait(90)
        complaints = [] if code == 0 and len(run.acknowledged()) == len(sent[n]) else [f"exit {code}, {len(run.acknowledged())} of {len(sent[n])} acknowledged, {run.describe()}"]
        ctx.sub("send-" + n, complaints)
        if complaints:
            del sent[n]
    sent["raw"] = msg.full_set(unique("Matrix_raw_"), "raw", plain=True)
    raw_send(cluster, sent["raw"])
    total = sum(map(len, sent.values()))
    topics = [m[0].topic for m in sent.values()]
    for t in topics:
        wait_routed(cluster, t)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("MatrixGroup_" + n.replace(".", "_") + "_"), topic=topics, expect=total, timeout=60, quiet=2) for n in names}
    for n, run in runs.items():
        run.wait(100)
        for p, messages in sent.items():
            got = [l for l in run.received() if l["topic"] == messages[0].topic]
            bad = msg.compare(messages, got)
            if p in producers:  # what the producer was told is what the consumer sees
                acks = {messages[a["n"]].ident: a for a in producers[p].acknowledged()}
                for l in got:
                    a = acks.get(l["props"].get("ident"), {})
                    bad += [f"{l['props'].get('ident')}: {k} acknowledged as {a.get(k)}, received as {l[k]}" for k in ("queueId", "queueOffset") if a.get(k) != l[k]]
                    id_known = a.get("offsetMsgId" if n == "node" else "msgId")  # the Node consumer never looks at UNIQ_KEY
                    bad += [f"{l['props'].get('ident')}: id acknowledged as {id_known}, received as {l['msgId']}"] if (id_known or "").upper() != l["msgId"].upper() else []
            ctx.sub(f"{p}-to-{n}", bad + ([run.describe()] if bad else []))
        others = [l for l in run.received() if l["topic"] not in topics]
        assert not others, f"{n} received from foreign topics: {others[:3]}"
    return f"{total} messages to each of {len(runs)} consumers"


@case("node-new-topic", needs=("node",))
def node_new_topic(ctx):
    """The Node producer sends to a topic that does not exist yet (it cannot with the Java name server, see README)."""
    cluster, topic = ctx.shared(), unique("NodeNew_")
    messages = msg.full_set(topic, "new")[:5]
    ctx.produce("node", cluster.namesrv, messages)
    wait_routed(cluster, topic)
    with remoting.Client(cluster.broker) as c:
        found = {r.props.get("ident"): r for q in range(4) for r in c.read_queue(topic, q)}
    assert set(found) == {m.ident for m in messages}, found.keys()


@case("empty-body", java_too=True)
def empty_body(ctx):
    """A body of 0 bytes is stored and delivered, to every client that can take one (Java 4.9.8 cannot)."""
    cluster, topic = ctx.shared(), unique("Empty_")
    messages = [msg.Message(topic, f"empty-{i}", "text:", tags="TagE", keys=f"e{i}") for i in range(8)]
    raw_send(cluster, messages)
    wait_routed(cluster, topic)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("EmptyGroup_"), topic=topic, expect=len(messages), timeout=40, quiet=1)
            for n in available(ctx, ("java-5.3.3", "go", "node"))}
    for n, run in runs.items():
        run.wait(70)
        bad = msg.compare(messages, run.received())
        ctx.sub(n, bad + ([run.describe()] if bad else []))


@case("tags", java_too=True)
def tags(ctx):
    """A subscription to tags gets exactly those, also where two tags have equal hash codes."""
    cluster, topic = ctx.shared(), unique("Tags_")
    all_tags = ["TagA", "TagB", "", "Aa", "BB", "标签", "TagAA"]
    messages = [msg.Message(topic, f"tag-{i}", f"text:{i}", tags=all_tags[i % len(all_tags)]) for i in range(140)]
    raw_send(cluster, messages)
    wait_routed(cluster, topic)

    def wanted(n):  # the Go client hashes UTF-8 bytes, not UTF-16 units; Java's broker trusts its hashes, ours makes them from the text
        return [m for m in messages if m.tags in ("TagA", "Aa") or (m.tags == "标签" and (n != "go" or ctx.runner.against == "tenon"))]
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("TagGroup_"), topic=topic, tag="TagA || Aa || 标签", expect=len(wanted(n)), timeout=40, quiet=1) for n in available(ctx)}
    for n, run in runs.items():
        run.wait(70)
        bad = msg.compare(wanted(n), run.received())
        ctx.sub(n, bad + ([run.describe()] if bad else []))


@case("batch", java_too=True)
def batch(ctx):
    """Batches of the Java and Go clients arrive as single messages."""
    cluster = ctx.shared()
    for n in available(ctx, ("java-4.9.8", "java-5.3.3", "go")):
        topic = unique("Batch_")
        messages = [msg.Message(topic, f"{n}-{i}", f"rnd:{50 * i + 1}:{i}", tags="TagA", keys=f"k{i}") for i in range(40)]
        run = ctx.client(n, "produce", cluster.namesrv, messages=write_messages(ctx.folder, messages), batch=1)
        code = run.wait(60)
        wait_routed(cluster, topic)
        with remoting.Client(cluster.broker) as c:
            found = [r for q in range(4) for r in c.read_queue(topic, q)]
        bad = [] if code == 0 else [run.describe()]
        by_ident = {r.props.get("ident"): r for r in found}
        bad += [f"{m.ident} missing or changed" for m in messages if m.ident not in by_ident or by_ident[m.ident].body != msg.body(m.spec) or by_ident[m.ident].props.get("KEYS") != m.keys]
        bad += [] if len(found) == len(messages) else [f"{len(found)} messages stored"]
        ctx.sub(n, bad)


@case("binary-header", java_too=True, needs=("java-4.9.8",))
def binary_header(ctx):
    """The Java client with the ROCKETMQ header encoding instead of JSON sends and receives."""
    cluster, topic = ctx.shared(), unique("Binary_")
    messages = msg.full_set(topic, "binary")[:8]
    ctx.produce("java-4.9.8", cluster.namesrv, messages, binary=True)
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, binary=True, group=unique("BinaryGroup_"), topic=topic, expect=len(messages), timeout=40, quiet=1)
    run.wait(60)
    bad = msg.compare(messages, run.received())
    assert not bad, (bad, run.describe())


@case("retry", java_too=True)
def retry(ctx):
    """What a listener refuses comes back through the retry topic, once, with its properties and a count of 1."""
    cluster, topic = ctx.shared(), unique("Retry_")
    messages = [msg.Message(topic, f"retry-{i}", f"text:{i}", tags="TagR", keys=f"r{i}", **({"fail": "once"} if i % 2 else {})) for i in range(8)]
    raw_send(cluster, messages)
    wait_routed(cluster, topic)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("RetryGroup_"), topic=topic, expect=12, timeout=80, quiet=1) for n in available(ctx)}
    for n, run in runs.items():
        run.wait(110)
        first = [l for l in run.received() if l["reconsumeTimes"] == 0]
        again = [dict(l, reconsumeTimes=0, topic=topic) for l in run.received() if l["reconsumeTimes"] == 1]
        bad = msg.compare(messages, first) + msg.compare([m for m in messages if "fail" in m.props], again)
        bad += [] if len(run.received()) == 12 else [f"{len(run.received())} received"]
        ctx.sub(n, bad + ([run.describe()] if bad else []))


class Feed:
    """Sends one message every few milliseconds to the four queues until stopped, and remembers the acknowledged."""

    def __init__(self, cluster, topic, pause=0.004):
        self.cluster, self.topic, self.pause, self.acknowledged, self.stopping, self.error = cluster, topic, pause, {}, False, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            with remoting.Client(self.cluster.broker) as c:
                i = 0
                while not self.stopping:
                    a = c.send(self.topic, b"feed", i % 4, {"ident": str(i)})
                    assert a.code == 0, (a.code, a.remark)
                    self.acknowledged[str(i)] = (int(a.ext["queueId"]), int(a.ext["queueOffset"]))
                    i += 1
                    time.sleep(self.pause)
        except Exception as e:
            self.error = e

    def stop(self):
        self.stopping = True
        self.thread.join(10)


def queues_since(run, t):
    return {l["queueId"] for l in run.received() if l["at"] > t}


def share(ctx, cluster, name, topic, feed):
    """Two consumers share the four queues; one leaves, then one is killed: the other takes over. Complaints."""
    group = unique("Share_" + name.replace(".", "_") + "_")
    first = ctx.client(name, "consume", cluster.namesrv, group=group, topic=topic, timeout=300)
    first.until("messages of all queues", lambda r: queues_since(r, 0) == {0, 1, 2, 3}, 40)
    runs = [first]
    for way in ("leaves", "is killed"):
        other = ctx.client(name, "consume", cluster.namesrv, group=group, topic=topic, timeout=300)
        runs.append(other)

        def shared():
            t = time.monotonic() - 1.5
            a, b = queues_since(first, t), queues_since(other, t)
            return len(a) == 2 and len(b) == 2 and not a & b
        other.until(f"two queues each before the other {way}", lambda _: shared(), 60)
        t0 = time.monotonic()
        if way == "leaves":
            other.stop()
        else:
            other.kill()
        first.until(f"all queues after the other {way}", lambda r: queues_since(r, max(t0, time.monotonic() - 3)) == {0, 1, 2, 3}, 60)
    return runs


@case("share", java_too=True)
def sharing(ctx):
    """Two consumers of a group share the queues; when one leaves or is killed the other takes over and nothing is lost."""
    cluster, topic = ctx.shared(), unique("Share_")
    raw_send(cluster, [msg.Message(topic, f"before-{i}", "text:b") for i in range(4)])
    wait_routed(cluster, topic)
    feed = ctx.keep(Feed(cluster, topic))
    names = available(ctx)
    results = {}

    def one(name):
        try:
            results[name] = share(ctx, cluster, name, topic, feed)
        except Exception as e:
            results[name] = e
    threads = [threading.Thread(target=one, args=(n,)) for n in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    feed.stop()
    assert feed.error is None, feed.error
    for n, runs in results.items():
        if isinstance(runs, Exception):
            ctx.sub(n, [str(runs)])
            continue
        missing = set()

        def complete(_):
            seen = {l["props"]["ident"] for r in runs for l in r.received()}
            missing.clear()
            missing.update(i for i in feed.acknowledged if i not in seen)
            return not missing
        try:
            runs[0].until("every message", complete, 20)
            ctx.sub(n, [])
        except AssertionError as e:
            ctx.sub(n, [f"{len(missing)} of {len(feed.acknowledged)} messages never received, e.g. {sorted(missing)[:5]}", str(e)])
    return f"{len(feed.acknowledged)} messages fed"


@case("offsets-restart", java_too=True)
def offsets_restart(ctx):
    """Consumed offsets survive a restart of the broker; a consumer that stays connected goes on."""
    cluster, topic = ctx.fresh(), unique("Restart_")
    before = [msg.Message(topic, f"before-{i}", f"text:{i}") for i in range(40)]
    raw_send(cluster, before)
    wait_routed(cluster, topic)
    names = available(ctx)
    groups = {n: unique("RestartGroup_" + n.replace(".", "_") + "_") for n in names}
    staying = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("Staying_"), topic=topic, timeout=300) for n in names}
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=groups[n], topic=topic, expect=len(before), timeout=60, quiet=1) for n in names}
    for n, run in runs.items():
        run.wait(90)
        bad = msg.compare(before, run.received())
        assert not bad, (n, bad, run.describe())
    for n, run in staying.items():
        run.until("the messages before the restart", lambda r: len(r.received()) >= len(before), 40)
    cluster.stop()
    cluster.start()
    wait_routed(cluster, topic)
    after = [msg.Message(topic, f"after-{i}", f"text:{i}") for i in range(20)]
    raw_send(cluster, after)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=groups[n], topic=topic, expect=len(after), timeout=60, quiet=2) for n in names}
    for n, run in runs.items():
        run.wait(90)
        bad = msg.compare(after, run.received())
        ctx.sub(n, bad + ([run.describe()] if bad else []))
    for n, run in staying.items():
        try:
            run.until("the messages after the restart", lambda r: {m.ident for m in after} <= {l["props"]["ident"] for l in r.received()}, 60)
            ctx.sub(f"{n}-stays", [])
        except AssertionError as e:
            ctx.sub(f"{n}-stays", [str(e)])
