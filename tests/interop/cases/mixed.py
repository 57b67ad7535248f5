"""Clients of different languages and versions that work together: one group, delays, what one refuses another gets."""
import time

from lib import messages as msg
from lib import remoting
from lib.cluster import wait_for
from lib.runner import case

from .clients import Feed, available, create_topic, queues_since, raw_send, unique, wait_routed

QUEUES = 4
LEVEL_SECONDS = {1: 1, 2: 5, 3: 10}


@case("mixed-group", java_too=True)
def mixed_group(ctx):
    """A group of a Java 4.9.8, a Java 5.3.3, a Go and a Node consumer: each gets a queue; after a kill and a leave the other two share all."""
    cluster, names, topic, group = ctx.shared(), available(ctx), unique("MixedGroup_"), unique("Mixed_")
    assert len(names) == QUEUES, f"only {names}"
    create_topic(cluster, topic, QUEUES)
    feed = Feed(cluster, topic)
    ctx.keep(feed)
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=group, topic=topic, timeout=240) for n in names}

    def shares(members, seconds=1.5):
        """Who got what lately: the queues of each, or None while two have the same one or some are missing."""
        since = time.monotonic() - seconds
        got = {n: queues_since(runs[n], since) for n in members}
        every = [q for queues in got.values() for q in queues]
        return got if len(every) == QUEUES and set(every) == set(range(QUEUES)) else None

    def settled(members):
        now = shares(members)
        return now if now and all(len(queues) == QUEUES // len(members) for queues in now.values()) else None
    wait_for("one queue for each of four", lambda: settled(names), 90)  # the Node client looks every 10 s only
    runs["go"].kill()
    runs["java-4.9.8"].stop()
    wait_for("two queues for each of two", lambda: settled(("java-5.3.3", "node")), 90)
    feed.stop()
    assert feed.error is None, feed.error

    def missing():
        got = {l["props"].get("ident") for r in runs.values() for l in r.received()}
        return set(feed.acknowledged) - got
    wait_for("every message", lambda: not missing(), 40)
    return f"{len(feed.acknowledged)} messages"


@case("refused-by-one-client", java_too=True, needs=("go", "java-4.9.8"))
def refused_by_one(ctx):
    """What a Go consumer refuses before it is killed comes back to the Java consumer of its group, through the retry topic."""
    cluster, topic, group = ctx.shared(), unique("Refused_"), unique("RefusedGroup_")
    create_topic(cluster, topic, QUEUES)
    messages = [msg.Message(topic, f"refused-{i}", f"text:{i}", tags="TagR", keys=f"r{i}", fail="once") for i in range(8)]
    first = ctx.client("go", "consume", cluster.namesrv, group=group, topic=topic, timeout=120)
    first.started()
    raw_send(cluster, messages)
    first.until("all messages", lambda r: len(r.received()) >= len(messages), 40)

    def sent_back():
        with remoting.Client(cluster.broker) as c:
            a = c.call(remoting.MAX_OFFSET, {"topic": "%RETRY%" + group, "queueId": 0})
            stored = int(a.ext["offset"]) if a.code == 0 else 0
            return stored + sum(c.offset(remoting.MAX_OFFSET, "SCHEDULE_TOPIC_XXXX", level - 1) for level in (3,)) >= len(messages)
    wait_for("the refusals", sent_back, 20)
    first.kill()
    second = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, timeout=120)
    second.until("all of them again", lambda r: {l["props"]["ident"] for l in r.received() if l["reconsumeTimes"] == 1} == {m.ident for m in messages}, 60)
    bad = [d for d in (m.difference(dict(l, reconsumeTimes=0, topic=topic)) for m in messages for l in second.received() if l["props"]["ident"] == m.ident and l["reconsumeTimes"] == 1) if d]
    assert not bad, bad


@case("delay-levels", java_too=True)
def delay_levels(ctx):
    """Delayed messages of every client: not early, unchanged, received by a client of another language. How exact: tests/bench/timer.py."""
    cluster, names = ctx.shared(), available(ctx)
    topic = unique("DelayLevels_")
    create_topic(cluster, topic, QUEUES)
    sent = {n: [msg.Message(topic, f"{n}-{level}", f"text:{n}%20{level}", tags="TagD", keys=f"{n}{level}", DELAY=str(level)) for level in LEVEL_SECONDS] for n in names}
    for n in names:
        ctx.produce(n, cluster.namesrv, sent[n], group=unique("DelayProducer_"))
    everything = [m for messages in sent.values() for m in messages]
    runs = {n: ctx.client(n, "consume", cluster.namesrv, group=unique("DelayGroup_"), topic=topic, expect=len(everything), timeout=60, quiet=1) for n in names[:1] + names[-1:]}
    for n, run in runs.items():
        run.wait(90)
        bad = msg.compare(everything, run.received())
        ctx.sub("received-by-" + n, bad + ([run.describe()] if bad else []))
    with remoting.Client(cluster.broker) as c:
        found = [r for q in range(QUEUES) for r in c.read_queue(topic, q)]
        waited = {r.props["ident"]: r.stored for level in LEVEL_SECONDS for r in c.read_queue("SCHEDULE_TOPIC_XXXX", level - 1) if r.props.get("REAL_TOPIC") == topic}
    # Both times are the broker's: when a message was stored to wait, and when in its topic. Seconds are for what else the machine does.
    late = {r.props["ident"]: r.stored - waited[r.props["ident"]] - 1000 * LEVEL_SECONDS[int(r.props["DELAY"])] for r in found}
    bad = [f"{i} came {ms} ms after its time" for i, ms in late.items() if not 0 <= ms <= 3000]
    assert not bad, bad
    return f"{len(late)} messages, at most {max(late.values())} ms late"
