"""Store folders: Tenon opens what Java wrote, Java opens what Tenon wrote."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile

from lib import cluster as clusters
from lib import messages as msg
from lib import remoting
from lib.runner import case

from .clients import raw_send, unique, wait_routed

DATA = os.path.join(clusters.ROOT, "tests", "data", "store")


def body_digest(m):
    return hashlib.sha256(base64.b64decode(m["body"])).hexdigest() if "body" in m else m["bodySha256"]


def check_golden(c, expected):
    """Everything that expected.json says about queues, messages, keys, ids, times and offsets. Complaints."""
    bad, by_queue, by_physical = [], {}, {}
    for m in expected["messages"]:
        by_queue.setdefault((m["topic"], m["queueId"]), []).append(m)
        by_physical[m["commitLogOffset"]] = m
    for q in expected["queues"]:
        where = (q["topic"], q["queueId"])
        for name, code, want in (("minOffset", remoting.MIN_OFFSET, q["minOffset"]), ("maxOffset", remoting.MAX_OFFSET, q["maxOffset"]),
                                 ("earliestMsgStoreTime", remoting.EARLIEST_TIME, q.get("earliestMsgStoreTime", -1))):
            got = c.offset(code, *where)
            if got != want:
                bad.append(f"{name} of {where} is {got}, not {want}")
        found = c.read_queue(*where)
        wanted = by_queue.get(where, [])
        if [(r.offset, r.physical, r.sha) for r in found] != [(m["queueOffset"], m["commitLogOffset"], m["recordSha256"]) for m in wanted]:
            bad.append(f"records of {where} differ: {len(found)} found, {len(wanted)} wanted")
        for tag in sorted({m["properties"].get("TAGS") for m in wanted} - {None})[:3]:
            at, got = q["minOffset"], []
            while at < q["maxOffset"]:
                a = c.pull(*where, at, expression=tag)
                got += [r.offset for r in remoting.records(a.body)] if a.code == 0 else []
                at = int(a.ext["nextBeginOffset"]) if a.code in (0, 20) else q["maxOffset"]
            code = next(m["tagsCode"] for m in wanted if m["properties"].get("TAGS") == tag)
            if got != [m["queueOffset"] for m in wanted if m["tagsCode"] == code]:
                bad.append(f"pull of {where} with tag {tag} gives offsets {got[:10]}")
    for m in expected["messages"]:
        code, found = c.view(m["commitLogOffset"])
        if code != 0 or len(found) != 1 or found[0].sha != m["recordSha256"] or found[0].msg_id != m["msgId"].upper():
            bad.append(f"view by id {m['msgId']} answers {code}")
    for k in expected["keyQueries"]:
        a = c.call(remoting.QUERY, {"topic": k["topic"], "key": k["key"], "maxNum": k["maxNum"], "beginTimestamp": k["beginTs"], "endTimestamp": k["endTs"],
                                    "_UNIQUE_KEY_QUERY": "true" if k["uniqKeyQuery"] else "false"})
        found = remoting.records(a.body) if a.code == 0 else []
        if a.code != k["code"] or [r.physical for r in found] != k["offsets"] or any(r.sha != by_physical[r.physical]["recordSha256"] for r in found if r.physical in by_physical):
            bad.append(f"query of key {k['key']!r} in {k['topic']} answers {a.code} with {[r.physical for r in found]}, not {k['code']} with {k['offsets']}")
    times = {(m["topic"], m["queueId"], m["queueOffset"]): m["storeTimestamp"] for m in expected["messages"]}
    boundary = {"boundaryType": "lower"} if expected["brokerVersion"].startswith("5") else {}  # the rule of that broker
    for s in expected["searchOffset"]:
        got = c.offset(remoting.SEARCH_OFFSET, s["topic"], s["queueId"], timestamp=s["timestamp"], **boundary)
        # Java first chooses a queue file by its modification time and so misses earlier messages; the exact answer is right too.
        exact = times.get((s["topic"], s["queueId"], got), 0) >= s["timestamp"] > times.get((s["topic"], s["queueId"], got - 1), 0)
        if got not in (s["offset"], s.get("offsetAfterReopen", s["offset"])) and not exact:
            bad.append(f"search by time {s} gives {got}")
    for where, queues in expected["config"]["consumerOffset.json"]["offsetTable"].items():
        topic, group = where.split("@")
        for q, want in queues.items():
            a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": q})
            if a.code != 0 or int(a.ext["offset"]) != want:
                bad.append(f"consumer offset of {where} queue {q}: {a.code} {a.ext}, not {want}")
    return bad


def open_golden(ctx, expected, folder):
    """The cluster under test on the unpacked store."""
    if ctx.runner.against == "java":
        sizes = [f"{k}={v}" for k, v in expected["brokerSettings"].items() if k.startswith(("mappedFileSize", "maxHash", "maxIndex", "fileReserved", "diskMax"))]
        cluster = clusters.Java(folder, version=expected["brokerVersion"], settings=sizes)
    else:
        cluster = clusters.Tenon(folder, store=os.path.join(folder, "store"))
    return ctx.keep(cluster.start())


def golden(ctx, name):
    with open(os.path.join(DATA, name, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    folder = ctx.temp("golden")
    with tarfile.open(os.path.join(DATA, name, "store.tar.gz")) as t:
        t.extractall(folder)
    for path, _, files in os.walk(folder):  # what is deleted goes by the age of the file
        for name in files:
            os.utime(os.path.join(path, name))
    cluster = open_golden(ctx, expected, folder)
    topics = sorted({q["topic"] for q in expected["queues"]})
    wait_routed(cluster, topics[-1])
    with remoting.Client(cluster.broker) as c:
        bad = check_golden(c, expected)
    with remoting.Client(cluster.namesrv) as ns:
        for t in topics:
            route, config = ns.route(t)["queueDatas"][0], expected["config"]["topics.json"]["topicConfigTable"][t]
            if any(route[k] != config[k] for k in ("readQueueNums", "writeQueueNums", "perm")):
                bad.append(f"route of {t} is {route}, topics.json says {config}")
    ctx.sub("answers", bad)
    # The Java client reads all of it, also what is compressed with LZ4 and ZSTD.
    wanted = {(m["topic"], m["queueId"], m["queueOffset"]): m for m in expected["messages"] if m["topic"] in topics}
    run = ctx.client("java-5.3.3", "consume", cluster.namesrv, group=unique("GoldenGroup_"), topic=topics, expect=len(wanted), timeout=40, quiet=1)
    run.wait(70)
    got = {(l["topic"], l["queueId"], l["queueOffset"]): l for l in run.received()}
    bad = [f"{len(run.received())} received, {len(wanted)} stored"] if set(got) != set(wanted) or len(run.received()) != len(wanted) else []
    bad += [f"{k}: body or properties differ" for k, l in got.items() if k in wanted and (l["sha256"] != body_digest(wanted[k]) or any(l["props"].get(p) != v for p, v in wanted[k]["properties"].items()))]
    ctx.sub("java-client", bad + ([run.describe()] if bad else []))
    # New messages continue the queues, and a second start finds old and new.
    last = expected["queues"][0]
    with remoting.Client(cluster.broker) as c:
        a = c.send(last["topic"], b"appended", last["queueId"], {"KEYS": "appended-key"})
        assert a.code == 0 and int(a.ext["queueOffset"]) == last["maxOffset"], (a.code, a.remark, a.ext)
    cluster.stop()
    cluster.start()
    with remoting.Client(cluster.broker) as c:
        found = c.read_queue(last["topic"], last["queueId"])
        assert len(found) == last["maxOffset"] - last["minOffset"] + 1 and found[-1].body == b"appended", len(found)
        clusters.wait_for("the key index", lambda: c.query(last["topic"], "appended-key")[0] == 0)
        code, by_key = c.query(last["topic"], "appended-key")
        assert code == 0 and by_key[0].raw == found[-1].raw, code


for _name in ("basic-clean", "basic-killed", "v5-basic"):
    case(f"golden-{_name}", java_too=True, needs=("java-5.3.3",))(lambda ctx, name=_name: golden(ctx, name))


def snapshot(c, topics):
    """What a broker serves: records, keys, offsets; comparable between brokers."""
    out = {}
    for t in topics:
        for q in range(4):
            out[t, q] = [r.sha for r in c.read_queue(t, q)], c.offset(remoting.MIN_OFFSET, t, q), c.offset(remoting.MAX_OFFSET, t, q)
        for key in ("mix-key-3", "mix-p", "mix-ключ"):
            code, found = c.query(t, key)
            out[t, key] = code, [r.sha for r in found]
        a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": "SnapshotGroup", "topic": t, "queueId": 1})
        out[t, "offset"] = a.code, a.ext.get("offset")
    return out


def java_serves(ctx, version, killed):
    writer = ctx.fresh()
    topics = [unique("JavaServes_") for _ in range(3)]
    for t in topics:
        raw_send(writer, msg.full_set(t, "mix", plain=True))
    with remoting.Client(writer.broker) as c:
        for n in range(700):  # several index and queue entries, small bodies
            assert c.send(topics[0], b"n%d" % n, n % 4, {"KEYS": f"many-{n}", "TAGS": f"T{n % 5}"}).code == 0
        for t in topics:
            assert c.call(remoting.UPDATE_OFFSET, {"consumerGroup": "SnapshotGroup", "topic": t, "queueId": 1, "commitOffset": 5}).code == 0
        clusters.wait_for("the key index", lambda: c.query(topics[-1], "mix-p")[0] == 0)
        before = snapshot(c, topics)
        one = c.read_queue(topics[0], 2)[-1]
    if killed:  # offsets are written every 5 s: not part of what must survive SIGKILL
        for t in topics:
            before.pop((t, "offset"))
        writer.kill()
    else:
        writer.stop()
    folder = ctx.temp("java")
    clusters.copy_store(writer.store, os.path.join(folder, "store"))
    java = ctx.keep(clusters.Java(folder, version=version).start())
    wait_routed(java, topics[0])
    with remoting.Client(java.broker) as c:
        after = snapshot(c, topics)
        bad = [f"{k}: {before[k][0] if isinstance(k[1], str) else len(before[k][0])} written, {v[0] if isinstance(k[1], str) else len(v[0])} served" for k, v in after.items() if k in before and before[k] != v]
        code, viewed = c.view(one.physical)
        bad += [] if code == 0 and viewed[0].sha == one.sha else [f"view by id answers {code}"]
        a = c.send(topics[0], b"from Java", 0, {"KEYS": "from-java"})
        bad += [] if a.code == 0 and int(a.ext["queueOffset"]) == before[topics[0], 0][2] else [f"send to Java: {a.code} {a.remark} {a.ext}"]
    assert not bad, bad
    java.stop()
    # And back: the writer's program opens what Java went on with.
    back = type(writer)(ctx.temp("back")) if ctx.runner.against == "tenon" else clusters.Java(ctx.temp("back"), version=version)
    os.rename(java.store, back.store)
    ctx.keep(back.start())
    with remoting.Client(back.broker) as c:
        found = c.read_queue(topics[0], 0)
        assert found[-1].body == b"from Java" and len(found) == before[topics[0], 0][2] + 1, len(found)
        clusters.wait_for("the key index", lambda: c.query(topics[0], "from-java")[0] == 0)
        code, by_key = c.query(topics[0], "from-java")
        assert code == 0 and by_key[-1].raw == found[-1].raw, code


@case("java-4.9.7-serves-our-store", java_too=True, needs=("java",))
def java_4(ctx):
    """Java 4.9.7 on a copy of the folder after a clean stop, and back."""
    java_serves(ctx, "4.9.7", killed=False)


@case("java-4.9.7-serves-our-killed-store", java_too=True, needs=("java",))
def java_4_killed(ctx):
    """The same after SIGKILL."""
    java_serves(ctx, "4.9.7", killed=True)


@case("java-5.3.3-serves-our-store", java_too=True, needs=("java",))
def java_5(ctx):
    """Java 5.3.3 on a copy of the folder after a clean stop, and back."""
    java_serves(ctx, "5.3.3", killed=False)


def unpack(name, folder):
    with open(os.path.join(DATA, name, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    with tarfile.open(os.path.join(DATA, name, "store.tar.gz")) as t:
        t.extractall(folder)
    return expected, os.path.join(folder, "store")


def tool(*argv, code=0):
    """`tenon store …`; its output."""
    done = subprocess.run([os.path.join(clusters.BIN, "tenon"), "store", *argv], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (argv, done.returncode, done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


def java_on(ctx, folder, expected):
    sizes = [f"{k}={v}" for k, v in expected["brokerSettings"].items() if k.startswith(("mappedFileSize", "maxHash", "maxIndex", "fileReserved", "diskMax"))]
    return ctx.keep(clusters.Java(folder, version="4.9.7", settings=sizes).start())


def check_moved(c, expected):
    """Messages whose positions in the log are others now. Complaints."""
    bad = []
    for q in expected["queues"]:
        where = (q["topic"], q["queueId"])
        wanted = [m for m in expected["messages"] if (m["topic"], m["queueId"]) == where]
        found = c.read_queue(*where)
        if [r.offset for r in found] != [m["queueOffset"] for m in wanted] or [len(r.raw) for r in found] != [m["storeSize"] for m in wanted]:
            bad.append(f"{where}: {len(found)} found, {len(wanted)} wanted")
        for m in wanted[:2]:
            code, by_key = c.query(m["topic"], m["properties"]["UNIQ_KEY"])
            if code != 0 or by_key[0].offset != m["queueOffset"]:
                bad.append(f"query of {m['properties']['UNIQ_KEY']} answers {code}")
    return bad


@case("java-4.9.7-opens-what-tenon-store-made", needs=("java",))
def java_opens_tool(ctx):
    """A repaired store with imported topics, and a store made of a DLedger log."""
    folder = ctx.temp("repaired")
    expected, store = unpack("basic-killed", folder)
    os.remove(os.path.join(store, "consumequeue", "TopicB", "1", "0" * 20))
    with open(os.path.join(store, "consumequeue", "TopicA", "0", "0" * 20), "r+b") as f:
        f.seek(47)
        f.write(b"\x55\x55")
    with open(os.path.join(store, "index", sorted(os.listdir(os.path.join(store, "index")))[-1]), "r+b") as f:
        f.seek(40 + 4 * 200 + 20 * 30)
        f.write(b"\x11\x22\x33\x44")
    tool("check", store, code=1)
    tool("repair", store, "--dry-run")
    assert "TopicB/1" in tool("repair", store, "--apply")
    dledger, source = unpack("dledger", ctx.temp("dledger"))
    plain = ctx.temp("plain")
    tool("import-dledger", source, "--to", os.path.join(plain, "store"))
    exported = os.path.join(plain, "TopicD.export")
    tool("export", os.path.join(plain, "store"), "--topic", "TopicD", "--to", exported)
    tool("import", store, "--from", exported)
    for root in (store, os.path.join(plain, "store")):
        assert "all is well" in tool("check", root)
    java = java_on(ctx, folder, expected)
    wait_routed(java, "TopicD")
    with remoting.Client(java.broker) as c:
        ctx.sub("repaired", check_golden(c, expected))
        ctx.sub("imported", check_moved(c, dledger))
    java.stop()
    assert "all is well" in tool("check", store)
    java = java_on(ctx, plain, dledger)
    wait_routed(java, "TopicD")
    with remoting.Client(java.broker) as c:
        ctx.sub("dledger", check_moved(c, dledger))
        last = dledger["queues"][0]
        a = c.send(last["topic"], b"goes on", last["queueId"])
        assert a.code == 0 and int(a.ext["queueOffset"]) == last["maxOffset"], (a.code, a.remark, a.ext)


LIGHT = '[storage]\nplugin = "tenon.store.file"\n[storage.options]\nmulti_dispatch = true\n'


def light_contents(c, topic):
    """Records of the topic and of its light queues, as bytes."""
    return {name: [r.raw for r in c.read_queue(name, 0)] for name in (topic, "%LMQ%a", "%LMQ%b")}


@case("java-4.9.7-serves-our-light-queues", needs=("java",))
def java_light(ctx):
    """%LMQ% queues of a killed Tenon in Java, which rebuilds them from the log; one more message there; Tenon again."""
    writer = ctx.keep(clusters.Tenon(ctx.temp("writer"), config=LIGHT).start())
    topic = unique("Light_")
    with remoting.Client(writer.broker) as c:
        for n in range(20):
            names = "%LMQ%a,%LMQ%b" if n % 2 else "%LMQ%b"
            assert c.send(topic, b"n%d" % n, 0, {"INNER_MULTI_DISPATCH": names}).code == 0
        before = light_contents(c, topic)
    assert [len(before[k]) for k in (topic, "%LMQ%a", "%LMQ%b")] == [20, 10, 20], {k: len(v) for k, v in before.items()}
    writer.kill()
    java = clusters.Java(ctx.temp("java"), settings=["enableLmq=true", "enableMultiDispatch=true"])
    clusters.copy_store(writer.store, java.store)
    shutil.rmtree(os.path.join(java.store, "consumequeue"))
    ctx.keep(java.start())
    wait_routed(java, topic)
    with remoting.Client(java.broker) as c:
        clusters.wait_for("Java's queues", lambda: c.offset(remoting.MAX_OFFSET, "%LMQ%b", 0) == 20)
        assert light_contents(c, topic) == before
        assert c.send(topic, b"from Java", 0, {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}).code == 0
        clusters.wait_for("Java's dispatch", lambda: c.offset(remoting.MAX_OFFSET, "%LMQ%b", 0) == 21)
        after = light_contents(c, topic)
    java.stop()
    last = remoting.records(after["%LMQ%a"][-1])[0]
    assert b"INNER_MULTI_QUEUE_OFFSET\x0110,20" in last.raw, last.raw
    back = clusters.Tenon(ctx.temp("back"), config=LIGHT)
    os.rename(java.store, back.store)
    ctx.keep(back.start())
    with remoting.Client(back.broker) as c:
        assert light_contents(c, topic) == after
        assert c.send(topic, b"again", 0, {"INNER_MULTI_DISPATCH": "%LMQ%a"}).code == 0
        found = c.read_queue("%LMQ%a", 0)
        assert len(found) == 12 and b"INNER_MULTI_QUEUE_OFFSET\x0111" in found[-1].raw, len(found)


ROCKSDB = ["storeType=defaultRocksDB", "mappedFileSizeCommitLog=65536", "maxMessageSize=32768", "fileReservedTime=87600", "diskMaxUsedSpaceRatio=95"]


@case("java-5.3.3-with-rocksdb", needs=("java",))
def java_rocksdb(ctx):
    """A 5.3.3 broker whose queues and tables are in RocksDB, after its export to JSON: read, gone on with, and back in files."""
    java = ctx.keep(clusters.Java(ctx.temp("java"), version="5.3.3", namesrv=f"127.0.0.1:{clusters.free_port()}", settings=ROCKSDB).start())
    topic, group = unique("Rocks_"), unique("RocksGroup_")
    with remoting.Client(java.broker) as c:
        a = c.call(remoting.UPDATE_TOPIC, {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
        assert a.code == 0, (a.code, a.remark)
        assert c.call(200, body=json.dumps({"groupName": group}).encode()).code == 0
        for n in range(200):
            assert c.send(topic, b"n%d" % n + b"x" * 500, n % 4, {"KEYS": f"key-{n}", "TAGS": f"T{n % 3}"}).code == 0
        assert c.call(remoting.UPDATE_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": 7}).code == 0
        clusters.wait_for("Java's queues", lambda: c.offset(remoting.MAX_OFFSET, topic, 3) == 50)
        before = {q: [r.raw for r in c.read_queue(topic, q)] for q in range(4)}
    assert [len(before[q]) for q in range(4)] == [50] * 4 and os.path.exists(os.path.join(java.store, "consumequeue", "CURRENT"))
    out = clusters.mqadmin(java.namesrv, "rocksDBConfigToJson", "-b", java.broker, version="5.3.3")
    assert "export done" in out, out[-700:]
    java.stop()
    tenon = ctx.keep(clusters.Tenon(ctx.temp("tenon"), store=java.store).start())
    with remoting.Client(tenon.broker) as c:
        assert {q: [r.raw for r in c.read_queue(topic, q)] for q in range(4)} == before
        a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": 1})
        assert a.code == 0 and a.ext["offset"] == "7", (a.code, a.ext)
        code, found = c.query(topic, "key-6")
        assert code == 0 and found[0].raw == before[2][1], code
        for q in range(4):
            a = c.send(topic, b"from Tenon", q)
            assert a.code == 0 and a.ext["queueOffset"] == "50", (a.code, a.remark, a.ext)
        after = {q: [r.raw for r in c.read_queue(topic, q)] for q in range(4)}
    tenon.stop()
    java.settings.remove("storeType=defaultRocksDB")  # its RocksDB knows nothing of what came since; the queue files know all
    java.start()
    with remoting.Client(java.broker) as c:
        clusters.wait_for("Java's queues", lambda: all(c.offset(remoting.MAX_OFFSET, topic, q) == 51 for q in range(4)))
        assert {q: [r.raw for r in c.read_queue(topic, q)] for q in range(4)} == after
        a = c.send(topic, b"again", 0)
        assert a.code == 0 and a.ext["queueOffset"] == "51", (a.code, a.remark, a.ext)
