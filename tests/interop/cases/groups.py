"""Consumer groups as their clients and administrators use them: every command of the official tool, resets, ordered consumption."""
import json
import os
import re
import subprocess
import time

from lib import clients, remoting
from lib import messages as msg
from lib.cluster import BIN, Process, mqadmin, wait_for
from lib.runner import case

from .clients import Feed, create_topic, raw_send, unique, wait_routed

LOCK_SECONDS = 60
EXCEPTION = re.compile(r"(\S*Exception\b.*|\S*Error:.*)")


def committed(cluster, group, topic, queue):
    with remoting.Client(cluster.broker) as c:
        a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": queue, "setZeroIfNotFound": "false"})
        return int(a.ext["offset"]) if a.code == 0 else -1


def wait_consumed(cluster, group, topic, counts):
    wait_for("the consumer's offsets", lambda: [committed(cluster, group, topic, q) for q in range(len(counts))] == counts, 30)


def heartbeat(client_id, producer=None):
    return json.dumps({"clientID": client_id, "consumerDataSet": [], "producerDataSet": [{"groupName": producer}] if producer else []}).encode()


def tool_commands(cluster, version, topic, group, producer, client_id, record):
    """name → (arguments, what the output must have)."""
    b, brk = cluster.broker, re.escape(cluster.broker)
    broker_name = r"\S+"
    return {
        "clusterList": (["clusterList"], [r"DefaultCluster\s+\S+\s+0\s+" + brk]),
        "clusterList-m": (["clusterList", "-m"], [r"DefaultCluster\s+\S+\s+\d+\s+\d+"]),
        "brokerStatus": (["brokerStatus", "-b", b], [r"^putTps\s*: [\d.]+ [\d.]+ [\d.]+", r"^commitLogDirCapacity\s*: Total : [\d.]+ \S+, Free : [\d.]+ \S+\.", r"^runtime\s*: \[ 0 days"]),
        "topicStatus": (["topicStatus", "-t", topic], [r"\S+\s+0\s+0\s+3\s+20\d\d-"]),
        "topicRoute": (["topicRoute", "-t", topic], [brk]),
        "topicList-c": (["topicList", "-c"], [topic + r"\s+" + re.escape(group)]),
        "topicClusterList": (["topicClusterList", "-t", topic], ["^DefaultCluster"]),
        "consumerProgress": (["consumerProgress"], [re.escape(group[:60]) + r"\S*\s+1\s+V"]),
        "consumerProgress-g": (["consumerProgress", "-g", group], [topic + r"\s+" + broker_name + r"\s+0\s+3\s+3\s", r"Diff Total: 0"]),
        "consumerConnection": (["consumerConnection", "-g", group], [re.escape(client_id), topic + r"\s+\*", r"MessageModel: CLUSTERING"]),
        "producerConnection": (["producerConnection", "-g", producer, "-t", topic], ["raw-producer-client"]),
        "producer": (["producer", "-b", b], [re.escape(producer)]),
        "consumerStatus": (["consumerStatus", "-g", group], [re.escape(client_id) + r"\s+V", "Same subscription in the same group", "Rebalance OK"]),
        "consumerStatus-i": (["consumerStatus", "-g", group, "-i", client_id], ["#Consumer Properties#", r"Topic: " + topic, "#Consumer Offset#", topic + r"\s+" + broker_name + r"\s+0\s+3"]),
        "consumerStatus-s": (["consumerStatus", "-g", group, "-i", client_id, "-s"], ["#Consumer jstack#", "ConsumeMessageThread|NettyClient"]),
        "brokerConsumeStats": (["brokerConsumeStats", "-b", b], [topic + r"\s+" + re.escape(group) + r"\s+" + broker_name + r"\s+0\s+3\s+3\s+0", r"Diff Total: \d+"]),
        "brokerConsumeStats-o": (["brokerConsumeStats", "-b", b, "-o", "true"], [r"Diff Total: 0"]),
        "statsAll": (["statsAll", "-t", topic], [topic + r"\s+" + re.escape(group) + r"\s+0\s+[\d.]+\s+[\d.]+\s+\d+\s+\d+"]),
        "getBrokerConfig": (["getBrokerConfig", "-b", b], [r"^listenPort\s+=\s+\d+", r"^maxMessageSize\s+=\s+\d+"]),
        "updateBrokerConfig": (["updateBrokerConfig", "-b", b, "-k", "maxTransferCountOnMessageInMemory", "-v", "33"], ["update broker config success"]),
        "getConsumerConfig": (["getConsumerConfig", "-g", group], [re.escape(group), r"retryMaxTimes\s+=\s+16"]),
        "queryCq": (["queryCq", "-b", b, "-t", topic, "-q", "0", "-i", "0", "-c", "3", "-g", group], [r"max: 3, min: 0", r"physicOffset=\d+, physicSize=\d+, tagsCode=2598919"]),
        "queryMsgById": (["queryMsgById", "-i", record.msg_id] + (["-t", topic] if version == "5.3.3" else []), [r"OffsetID:\s+" + record.msg_id]),
        "queryMsgByOffset": (["queryMsgByOffset", "-t", topic, "-b", None, "-i", "0", "-o", "0"], [r"Queue Offset:\s+0"]),
        "consumeMessage": (["consumeMessage", "-t", topic, "-b", None, "-g", unique("Reader_"), "-i", "0", "-o", "0", "-c", "2"], ["Consume ok"]),
        "printMsg": (["printMsg", "-t", topic, "-d", "true"], ["MSGID: "]),
        "queryMsgByUniqueKey-direct": (["queryMsgByUniqueKey", "-t", topic, "-i", record.props["UNIQ_KEY"], "-g", group, "-d", client_id], ["consumeResult=CR_SUCCESS"]),
        "sendMessage": (["sendMessage", "-t", topic, "-p", "by_mqadmin", "-b", None, "-i", "3"], ["SEND_OK"]),
        "cloneGroupOffset": (["cloneGroupOffset", "-s", group, "-d", group + "_clone", "-t", topic], ["clone group offset success"]),
        "resetOffset-offline": (["resetOffsetByTime", "-g", group + "_clone", "-t", topic, "-s", "0"], [r"\s0\s+3\s+3\s+0\s+0|" + broker_name + r"\s+0\s+0"]),
        "resetOffset-online": (["resetOffsetByTime", "-g", group, "-t", topic, "-s", "-1"], [broker_name + r"\s+0\s+3"]),
        "skipAccumulated": (["skipAccumulatedMessage", "-g", group, "-t", topic], [broker_name + r"\s+0\s+3"]),
        "cleanExpiredCQ": (["cleanExpiredCQ", "-b", b], ["success"]),
        "cleanUnusedTopic": (["cleanUnusedTopic", "-b", b], ["success"]),
        "updateSubGroup": (["updateSubGroup", "-b", b, "-g", group + "_set", "-r", "5"], ["success"]),
        "deleteSubGroup": (["deleteSubGroup", "-b", b, "-g", group + "_set"], ["success"]),
    }


def run_tool(ctx, version):
    cluster = ctx.fresh()  # updateBrokerConfig and the cleaning must not disturb other tests
    topic, group, producer = unique("Tool_"), unique("ToolGroup_"), unique("ToolProducer_")
    create_topic(cluster, topic)
    raw_send(cluster, [msg.Message(topic, f"tool-{i}", f"text:{i}", tags="TagA", keys=f"tool-key-{i}") for i in range(12)])
    run = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, timeout=600)
    run.until("all messages", lambda r: len(r.received()) >= 12, 60)
    wait_consumed(cluster, group, topic, [3, 3, 3, 3])
    with remoting.Client(cluster.broker) as c:
        record = c.read_queue(topic, 0)[0]
        connections = json.loads(c.call(203, {"consumerGroup": group}).body)
        client_id = connections["connectionSet"][0]["clientId"]
    with remoting.Client(cluster.namesrv) as c:
        name = c.route(topic)["queueDatas"][0]["brokerName"]
    with remoting.Client(cluster.broker, timeout=600) as live:
        assert live.call(remoting.HEARTBEAT, body=heartbeat("raw-producer-client", producer)).code == 0
        for command, (args, patterns) in tool_commands(cluster, version, topic, group, producer, client_id, record).items():
            live.start(remoting.HEARTBEAT, body=heartbeat("raw-producer-client", producer))  # this connection stays a member
            try:
                output = mqadmin(cluster.namesrv, *[name if a is None else a for a in args], seconds=120, version=version)
            except subprocess.TimeoutExpired:
                ctx.sub(command, ["no end within 120 s"])
                continue
            found = EXCEPTION.search(output)
            bad = [f"{found.group(0)!r} in: {output[-900:]}"] if found else []
            bad += [f"no {p!r} in: {output[-900:]}" for p in patterns if not re.search(p, output, re.M)]
            ctx.sub(command, bad)
    run.kill()


@case("mqadmin-all-4", java_too=True, needs=("java", "java-4.9.8"))
def admin_tool_4(ctx):
    """Every reading command of mqadmin 4.9.7, and those that change groups, offsets and settings, without an exception."""  # broker §23.53
    run_tool(ctx, "4.9.7")


@case("mqadmin-all-5", java_too=True, needs=("java", "java-4.9.8"))
def admin_tool_5(ctx):
    """The same with mqadmin 5.3.3."""
    run_tool(ctx, "5.3.3")


@case("reset-offset", java_too=True, needs=("java-4.9.8",))
def reset_offset(ctx):
    """Running consumers of every language are sent back to the first message by the broker and consume everything again."""
    cluster = ctx.shared()
    for n in ("java-4.9.8", "java-5.3.3", "go"):
        try:
            clients.command(n)
        except clients.Missing as e:
            ctx.runner.result(f"{ctx.name}/{n}", "SKIP", 0, str(e))
            continue
        topic, group = unique("Reset_"), unique("ResetGroup_" + n.replace(".", "_") + "_")
        create_topic(cluster, topic)
        raw_send(cluster, [msg.Message(topic, f"reset-{i}", f"text:{i}") for i in range(12)])
        run = ctx.client(n, "consume", cluster.namesrv, group=group, topic=topic, timeout=240)
        run.until("all messages", lambda r: len(r.received()) >= 12, 60)
        wait_consumed(cluster, group, topic, [3, 3, 3, 3])
        with remoting.Client(cluster.broker) as c:
            a = c.call(222, {"topic": topic, "group": group, "timestamp": 0, "isForce": "true"})
        bad = [] if a.code == 0 else [f"reset answered {a.code} {a.remark}"]
        try:
            run.until("all messages again", lambda r: len(r.received()) >= 24, 60)
        except AssertionError as e:
            bad.append(str(e))
        ctx.sub(n, bad)
        run.kill()
    ctx.sub("cpp", reset_cpp(ctx, cluster))


def reset_cpp(ctx, cluster):
    """The same for our SDK, a C++ client by its language, which gets the offsets as a list. Complaints."""
    topic, group = unique("Reset_"), unique("ResetGroup_cpp_")
    create_topic(cluster, topic)
    raw_send(cluster, [msg.Message(topic, f"reset-{i}", f"text:{i}") for i in range(12)])
    run = ctx.keep(Process([os.path.join(BIN, "tenon"), "--json", "--namesrv", cluster.namesrv, "consume", "-t", topic, "-g", group, "--timeout", "240s"], os.path.join(ctx.temp("cpp"), "log")))

    def received():
        return sum(line.startswith("{") and topic in line for line in run.text().splitlines())
    wait_for("all messages", lambda: received() >= 12, 60)
    wait_consumed(cluster, group, topic, [3, 3, 3, 3])
    with remoting.Client(cluster.broker) as c:
        if cluster.kind == "tenon":  # Java's list shows what the client says of itself, too
            connections = json.loads(c.call(203, {"consumerGroup": group}).body)["connectionSet"]
            assert [m["language"] for m in connections] == ["CPP"], connections
        # A Java broker makes the list if the one who asks is a C++ program.
        a = c.call(222, {"topic": topic, "group": group, "timestamp": 0, "isForce": "true"})
    bad = [] if a.code == 0 else [f"reset answered {a.code} {a.remark}"]
    try:
        wait_for("all messages again", lambda: received() >= 24, 60)
    except AssertionError as e:
        bad.append(str(e))
    return bad


def orderly(version):
    """Command line of Orderly.java, known to the harness under a name of its own."""
    name = "java-orderly-" + version
    jars = clients.command("java-" + version)[-2].split(":", 1)[1]
    classes, source = os.path.join(clients.OUT, "classes-orderly-" + version), os.path.join(clients.SOURCES, "java", "Orderly.java")
    if not clients._fresh(os.path.join(classes, "Orderly.class"), source):
        clients._run(["javac", "-cp", jars, "-d", classes, source], clients.SOURCES)
    clients._built[name] = ["java", *clients.JVM, "-cp", f"{classes}:{jars}", "Orderly"]
    return name


def events(run, queue):
    with run.condition:
        return [l for l in run.lines if l.get("queueId") == queue]


@case("orderly-killed", java_too=True, needs=("java-4.9.8",))
def orderly_killed_java(ctx):
    """Two orderly consumers of the Java client 4.9.8, see orderly_killed."""
    name = orderly("4.9.8")
    return orderly_killed(ctx, ctx.shared(), LOCK_SECONDS, lambda **options: ctx.client(name, "consume", **options))


@case("orderly-killed-go", java_too=True, needs=("go",))
def orderly_killed_go(ctx):
    """Two orderly consumers of the Go client, which is slow to share: locks that lapse sooner."""
    ours = ctx.runner.against == "tenon"
    cluster = ctx.fresh(config="[clients]\nlock_expired_ms = 30000\nlock_orphaned_ms = 30000\n") if ours else ctx.shared()
    return orderly_killed(ctx, cluster, 30 if ours else LOCK_SECONDS, lambda **options: ctx.client("go", "orderly", **options))


def orderly_killed(ctx, cluster, lock_seconds, start):
    """Two orderly consumers share four queues; one is killed: after its locks have lapsed the other goes on where it stopped, in order, nothing at the same time."""
    topic, group = unique("Orderly_"), unique("OrderlyGroup_")
    create_topic(cluster, topic)
    feed = ctx.keep(Feed(cluster, topic, 0.02))
    runs = [start(namesrv=cluster.namesrv, group=group, topic=topic, timeout=600) for _ in range(2)]

    def queues(run, since):
        with run.condition:
            return {l["queueId"] for l in run.lines if l.get("event") == "end" and l["at"] > since}
    def shared():
        now = [queues(r, time.monotonic() - 2) for r in runs]
        return now if [len(q) for q in now] == [2, 2] else None
    orphans = wait_for("two queues each", shared, 150)[0]
    t0 = time.monotonic()
    runs[0].kill()
    wait_for("the queues of the dead one", lambda: queues(runs[1], t0) >= orphans, lock_seconds + 60)
    took = time.monotonic() - t0
    time.sleep(2)  # some more that the second one alone has to take
    feed.stop()
    assert feed.error is None, feed.error
    total = [sum(1 for q, _ in feed.acknowledged.values() if q == queue) for queue in range(4)]
    wait_for("every message", lambda: all(events(runs[1], q) and events(runs[1], q)[-1]["event"] == "end" and events(runs[1], q)[-1]["queueOffset"] == total[q] - 1 for q in range(4)), 120)
    for q in range(4):
        for r, run in enumerate(runs):
            offsets = [l["queueOffset"] for l in events(run, q) if l["event"] == "begin"]
            # A member may be given a queue twice: what is missing in between was the other one's.
            others = {l["queueOffset"] for l in events(runs[1 - r], q)}
            back = [i for i in range(1, len(offsets)) if not others.issuperset(range(offsets[i - 1] + 1, offsets[i]))]
            assert not back, f"queue {q}, consumer {r}: gap at {offsets[back[0] - 1]} → {offsets[back[0]]}"
        assert {l["queueOffset"] for run in runs for l in events(run, q) if l["event"] == "end"} == set(range(total[q])), f"queue {q} is not complete"
    for q in orphans:  # what the dead one had not finished comes first, then the rest
        last_of_dead = max(l["queueOffset"] for l in events(runs[0], q) if l["event"] == "end")
        after = [l for l in events(runs[1], q) if l["event"] == "begin" and l["at"] > t0]
        assert after[0]["queueOffset"] <= last_of_dead + 1, f"queue {q}: {last_of_dead} consumed, then {after[0]['queueOffset']}"
        # Renewed every 20 s, so it was valid for a third of its time at least.
        assert after[0]["at"] - t0 > lock_seconds / 4, f"queue {q} was taken over {after[0]['at'] - t0:.0f} s after the kill, while the lock was valid"
    return f"taken over after {took:.0f} s, {sum(total)} messages"


@case("order-topic", java_too=True, needs=("java",))
def order_topic(ctx):
    """mqadmin updateOrderConf: the name server's table makes the broker's topic an order topic, and its deletion takes that back."""
    cluster, topic = ctx.shared(), unique("OrderConf_")
    create_topic(cluster, topic)
    with remoting.Client(cluster.namesrv) as c:
        name = c.route(topic)["queueDatas"][0]["brokerName"]

    def order():
        with remoting.Client(cluster.broker) as c:
            table = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', c.call(21).body.decode()))
        return table["topicConfigTable"][topic]["order"]
    assert not order()
    output = mqadmin(cluster.namesrv, "updateOrderConf", "-t", topic, "-m", "put", "-v", f"{name}:4")
    assert "update orderConf success" in output, output
    create_topic(cluster, unique("Trigger_"))  # brokers hear of the table when they register
    wait_for("the order flag", order, 70)
    output = mqadmin(cluster.namesrv, "updateOrderConf", "-t", topic, "-m", "delete")
    assert "delete orderConf success" in output, output


@case("group-show", needs=("java-4.9.8",))
def group_show(ctx):
    """`tenon group show`: members that subscribe differently are told, with what each wants; reset-offset reaches a running consumer."""
    cluster, topic, group = ctx.shared(), unique("Show_"), unique("ShowGroup_")
    create_topic(cluster, topic)
    raw_send(cluster, [msg.Message(topic, f"show-{i}", f"text:{i}", tags="TagA") for i in range(8)])

    def show():
        done = subprocess.run([os.path.join(BIN, "tenon"), "--namesrv", cluster.namesrv, "--json", "group", "show", group], stdout=subprocess.PIPE, text=True, timeout=60)
        return json.loads(done.stdout)
    first = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, timeout=240)
    first.until("all messages", lambda r: len(r.received()) >= 8, 60)
    wait_consumed(cluster, group, topic, [2, 2, 2, 2])
    assert show()["lag"] == 0, show()
    one = show()
    assert one["online"] and not one["subscription_mismatch"] and len(one["members"]) == 1, one
    second = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=group, topic=topic, tag="TagB", timeout=240)
    second.started()
    wait_for("the mismatch", lambda: show()["subscription_mismatch"], 40)
    wanted = sorted(s["expression"] for m in show()["members"] for s in m["subscriptions"])
    assert wanted == ["*", "TagB"], wanted
    second.stop()
    wait_for("no mismatch any more", lambda: not show()["subscription_mismatch"], 40)
    done = subprocess.run([os.path.join(BIN, "tenon"), "--namesrv", cluster.namesrv, "group", "reset-offset", group, "--topic", topic, "--to-start"], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done
    first.until("all messages again", lambda r: len(r.received()) >= 16, 60)
