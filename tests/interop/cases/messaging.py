"""Request and reply, pull consumers, broadcasting, dead letters, trace: by unmodified clients."""
from cases.clients import create_topic, raw_send, unique, wait_routed
from lib import messages as msg
from lib import remoting
from lib.clients import Missing, command
from lib.cluster import wait_for
from lib.runner import case

JAVA = ("java-4.9.8", "java-5.3.3")


def available(ctx, names=JAVA):
    """Those clients that can be had; the others are reported as skipped."""
    out = []
    for n in names:
        try:
            command(n)
            out.append(n)
        except Missing as e:
            ctx.runner.result(f"{ctx.name}/{n}", "SKIP", 0, str(e))
    return out


def more(ctx, name, action, cluster, **options):
    return ctx.client(name, action, cluster.namesrv, program="More" if name.startswith("java") else None, **options)


def lines(run, key):
    with run.condition:
        return [l for l in run.lines if key in l]


@case("request-reply", java_too=True)
def request_reply(ctx):
    """request() of a producer is answered by a consumer with a reply message, across versions."""
    cluster, names = ctx.shared(), available(ctx, (*JAVA, "go"))
    for replier in names:
        topic = unique("Request_")
        create_topic(cluster, topic)
        answers = more(ctx, replier, "reply", cluster, group=unique("replier_"), topic=topic)
        answers.started()
        for requester in (n for n in names if n != "java-5.3.3"):  # cannot, see README
            asks = more(ctx, requester, "request", cluster, group=unique("requester_"), topic=topic, count=5)
            code = asks.wait(90)
            got = [l["reply"] for l in lines(asks, "reply")]
            wanted = [f"REQUEST {i}" for i in range(5)]
            # Go sends its first request before its first heartbeat: that reply has no way back, see README.
            bad = [] if code == 0 and (got == wanted or requester == "go" and got == wanted[1:]) else [f"exit {code}, {got}, {lines(asks, 'failure')}, {asks.describe()}"]
            ctx.sub(f"{requester}-asks-{replier}", bad)
        replied = lines(answers, "replied")
        bad = [l for l in replied if l.get("status") != "SEND_OK" and l["replied"] not in ("request 0", "request 4")]
        assert not bad, bad  # the first see above; at the last one its requester may be gone already
        answers.stop()
    with remoting.Client(cluster.broker) as c:  # replies are stored as well
        stored = c.read_queue("DefaultCluster_REPLY_TOPIC", 0)
    assert len(stored) >= 5 * len(names) and all(r.props.get("MSG_TYPE") == "reply" for r in stored), len(stored)


@case("pull-consumer", java_too=True)
def pull_consumer(ctx):
    """DefaultMQPullConsumer reads every queue, with and without a tag; a blocking pull at the end waits."""
    cluster = ctx.shared()
    for n in available(ctx):
        topic = unique("PullC_")
        create_topic(cluster, topic)
        messages = [msg.Message(topic, f"p-{i}", f"text:p{i}", tags="TagA" if i % 3 else "TagB") for i in range(120)]
        raw_send(cluster, messages)
        for tag in ("*", "TagB"):
            run = more(ctx, n, "pull", cluster, group=unique("PullGroup_"), topic=topic, tag=tag)
            code = run.wait(90)
            wanted = sorted(f"p{i}" for i in range(120) if tag == "*" or i % 3 == 0)
            got = sorted(l["text"] for l in lines(run, "text"))
            ends = lines(run, "queue")
            blocked = lines(run, "blocked")
            bad = [] if code == 0 and got == wanted else [f"exit {code}, {len(got)} of {len(wanted)}, {run.describe()}"]
            bad += [] if len(ends) == 4 and all(e["next"] == e["max"] == 30 for e in ends) else [f"ends {ends}"]
            bad += [] if blocked and blocked[0]["blocked"] == "NO_NEW_MSG" and 15_000 <= blocked[0]["ms"] <= 30_000 else [f"blocked {blocked}"]
            ctx.sub(f"{n}/{tag}", bad)


@case("lite-pull", java_too=True)
def lite_pull(ctx):
    """DefaultLitePullConsumer (5.3.3 sends LITE_PULL_MESSAGE, 361), and Go's pull consumer that is polled, get everything once."""
    cluster = ctx.shared()
    for n in available(ctx, (*JAVA, "go")):
        topic = unique("Lite_")
        create_topic(cluster, topic)
        messages = [msg.Message(topic, f"l-{i}", f"text:l{i}") for i in range(60)]
        raw_send(cluster, messages)
        run = more(ctx, n, "lite", cluster, group=unique("LiteGroup_"), topic=topic, expect=60)
        code = run.wait(90)
        got = sorted(l["text"] for l in lines(run, "text"))
        ctx.sub(n, [] if code == 0 and got == sorted(f"l{i}" for i in range(60)) else [f"exit {code}, {len(got)} of 60, {run.describe()}"])


@case("broadcast", java_too=True)
def broadcast(ctx):
    """Each member of a broadcasting group gets every message."""
    cluster, names = ctx.shared(), available(ctx, (*JAVA, "go", "node"))
    topic, group = unique("Broad_"), unique("BroadGroup_")
    create_topic(cluster, topic)
    runs = [more(ctx, n, "broadcast", cluster, group=group, topic=topic) for n in names]
    for r in runs:
        r.started()
    raw_send(cluster, [msg.Message(topic, f"b-{i}", f"text:b{i}") for i in range(40)])
    for n, r in zip(names, runs):
        r.until("all messages", lambda r: len({l["text"] for l in lines(r, "text")}) == 40, 40)
        ctx.sub(n, [] if len(lines(r, "text")) == 40 else [f"{len(lines(r, 'text'))} received"])
        r.stop()


@case("dead-letter", java_too=True)
def dead_letter(ctx):
    """What is refused more often than allowed lies in %DLQ%group, with the id of its first form."""
    cluster = ctx.shared()
    for n in available(ctx, (*JAVA, "go")):  # Node refuses for ever
        topic, group = unique("Refused_"), unique("RefuseGroup_")
        create_topic(cluster, topic, 1)
        with remoting.Client(cluster.broker) as c:
            sent = c.send(topic, b"poison", 0, {"UNIQ_KEY": unique("U")})
            assert sent.code == 0, sent.remark
        run = more(ctx, n, "refuse", cluster, group=group, topic=topic, max=1)
        run.until("first try and one repetition", lambda r: {l["reconsumeTimes"] for l in lines(r, "text")} == {0, 1}, 60)

        def dead():
            with remoting.Client(cluster.broker) as c:
                return c.read_queue("%DLQ%" + group, 0)
        found = wait_for("the dead letter", dead)
        run.stop()
        m = found[0]
        bad = [] if len(found) == 1 and m.body == b"poison" and m.props.get("ORIGIN_MESSAGE_ID") == sent.ext["msgId"] and m.props.get("RETRY_TOPIC") == topic else [f"{found}"]
        again = [l for l in lines(run, "text") if l["reconsumeTimes"] == 1]
        bad += [] if len(again) == 1 and again[0]["topic"] == topic else [f"repeated {again}"]
        ctx.sub(n, bad)


@case("trace", java_too=True)
def trace(ctx):
    """A producer with message trace writes its records to RMQ_SYS_TRACE_TOPIC; they are found by message id."""
    cluster = ctx.shared()
    for n in available(ctx, (*JAVA, "go")):
        topic = unique("Traced_")
        create_topic(cluster, topic)
        run = more(ctx, n, "trace", cluster, group=unique("tracer_"), topic=topic, count=5)
        code = run.wait(90)
        sent = lines(run, "msgId")
        bad = [] if code == 0 and len(sent) == 5 and all(l["traceOn"] and l["region"] == "DefaultRegion" for l in sent) else [f"exit {code}, {sent}, {run.describe()}"]

        def traced():
            with remoting.Client(cluster.broker) as c:
                text = b"".join(r.body for q in range(4) for r in c.read_queue("RMQ_SYS_TRACE_TOPIC", q))
            return all(l["msgId"].encode() in text for l in sent)
        if not bad:
            wait_for("trace records of all messages", traced)
        ctx.sub(n, bad)
