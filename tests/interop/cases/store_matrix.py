"""Each recorded store folder: Tenon reads it, appends, Java opens it again and appends, Tenon opens it again."""
import base64
import hashlib
import json
import os
import re
import tarfile
import time

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import unique

DATA = os.path.join(clusters.ROOT, "tests", "data", "store")
FOLDERS = sorted(name for name in os.listdir(DATA) if os.path.isdir(os.path.join(DATA, name)))
SYSTEM = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
# Of the recorded broker's settings those that say how the files look; nothing is deleted for its age.
FORM = ("mappedFileSize", "maxHash", "maxIndex", "diskMax", "enableConsumeQueueExt", "enableCalcFilterBitMap", "enablePropertyFilter", "expectConsumerNum", "timerWheel")
EXTENSION = '[topics]\nproperty_filter = true\ncalc_filter_bitmap = true\nexpected_filter_groups = 4\n[storage.options]\nqueue_ext = true\nqueue_ext_file = "2KiB"\n'
GROUP, UPDATE_GROUP = "MatrixGroup", 200


def java_json(text):
    """A configuration file of either broker; whole-number keys may lack their quotes."""
    return json.loads(re.sub(r"([{,]\s*)(-?\d+)\s*:", r'\1"\2":', text))


def fields(r, tags_code):
    """All of a record, named as in expected.json."""
    out = {"topic": r.topic, "queueId": r.queue, "queueOffset": r.offset, "storeTimestamp": r.stored, "bornTimestamp": r.born, "bornHost": r.born_host, "storeHost": r.store_host,
           "sysFlag": r.sys_flag, "flag": r.flag, "reconsumeTimes": r.reconsume, "preparedTransactionOffset": r.prepared, "bodyCRC": r.crc, "magic": f"{r.magic:08x}", "properties": r.props,
           "storedBodyLength": len(r.stored_body), "storeSize": r.size, "commitLogOffset": r.physical, "msgId": r.msg_id, "recordSha256": r.sha, "tagsCode": tags_code}
    if r.compression in (None, 0, 3):  # the standard library knows neither LZ4 nor ZSTD; the hash of the record covers these
        body = r.body
        out["bodyLength"] = len(body)
        out["body"], out["bodySha256"] = base64.b64encode(body).decode(), hashlib.sha256(body).hexdigest()
    return out


class Folder:
    """What has to be in a folder: what was recorded, and what was sent since."""
    MOVED = ("commitLogOffset", "msgId", "recordSha256", "storeHost")  # differ after a log was written anew

    def __init__(self, name, folder):
        with open(os.path.join(DATA, name, "expected.json"), encoding="utf-8") as f:
            self.expected = json.load(f)
        with tarfile.open(os.path.join(DATA, name, "store.tar.gz")) as t:
            t.extractall(folder)
        for path, _, names in os.walk(folder):  # what is deleted goes by the age of the file
            for n in names:
                os.utime(os.path.join(path, n))
        self.name, self.store = name, os.path.join(folder, "store")
        self.moved = name == "dledger"
        self.ext = name == "filter-bitmap"
        self.v5 = self.expected["brokerVersion"].startswith("5")
        self.units_per_file = int(self.expected["brokerSettings"]["mappedFileSizeConsumeQueue"]) // 20
        self.records, self.by_queue, self.sent, self.mins, self.committed = {}, {}, [], {}, {}
        for m in self.expected["messages"]:
            self.by_queue.setdefault((m["topic"], m["queueId"]), []).append(m)
        for q in self.expected["queues"]:
            self.mins[q["topic"], q["queueId"]] = q["minOffset"]

    # --- what waits in the folder for its time
    def waiting(self):
        """{unique key: topic} of messages that their time has come for, and that are not delivered in the recording."""
        ms, now = self.expected["messages"], time.time() * 1000
        done = {m["properties"].get("UNIQ_KEY") for m in ms if m["topic"] not in SYSTEM}
        return {m["properties"]["UNIQ_KEY"]: m["properties"]["REAL_TOPIC"] for m in ms if m["topic"] in SYSTEM[:2] and m["properties"]["UNIQ_KEY"] not in done and int(m["properties"].get("TIMER_OUT_MS", m["tagsCode"])) < now}

    def delivered(self, c):
        return sum(c.offset(remoting.MAX_OFFSET, *q) - len(self.by_queue.get(q, [])) - self.mins[q] for q in self.mins if q[0] not in SYSTEM)

    def settle(self, c):
        """After the first start: what was waiting comes once; from then on nothing moves by itself."""
        waiting = self.waiting()
        if waiting:
            clusters.wait_for("what was waiting in the folder", lambda: self.delivered(c) >= len(waiting), 20)
        self.records = {q: [r.raw for r in c.read_queue(*q)] for q in self.mins}
        bad = []
        came = {}
        for q, raws in self.records.items():
            for raw in raws[len(self.by_queue.get(q, [])):]:
                r = remoting.Record(raw)
                if q[0] not in SYSTEM:
                    came.setdefault(r.props.get("UNIQ_KEY"), []).append(r.topic)
                elif not waiting:
                    bad.append(f"a new message in {q}")
        if came != {k: [t] for k, t in waiting.items()}:
            bad.append(f"{len(waiting)} messages were waiting, {came} came")
        return bad

    # --- comparison
    def check(self, c):
        """Every record, unit, bound, key, time and offset. Complaints."""
        return self.check_records(c) + self.check_keys(c) + self.check_times(c) + self.check_offsets(c)

    def units(self, c, where, first, count):
        out = []
        while len(out) < count:  # Java answers up to the end of a file
            a = c.call(remoting.QUERY_CONSUME_QUEUE, {"topic": where[0], "queueId": where[1], "index": first + len(out), "count": count - len(out)})
            assert a.code == 0, (where, a.code, a.remark)
            found = json.loads(a.body)["queueData"] if a.body else []
            out += [(u["physicOffset"], u["physicSize"], u["tagsCode"]) for u in found]
            if not found:
                break
        return out

    def check_records(self, c):
        bad = []
        for where, raws in self.records.items():
            bounds = c.offset(remoting.MIN_OFFSET, *where), c.offset(remoting.MAX_OFFSET, *where)
            if bounds != (self.mins[where], self.mins[where] + len(raws)):
                bad.append(f"{where} goes from {bounds[0]} to {bounds[1]}, not from {self.mins[where]} for {len(raws)}")
            found = c.read_queue(*where)
            if [r.raw for r in found] != raws:
                bad.append(f"the {len(found)} records of {where} are not the {len(raws)} of before")
                continue
            if not found:
                continue
            if c.offset(remoting.EARLIEST_TIME, *where) != found[0].stored:
                bad.append(f"earliest time of {where} is {c.offset(remoting.EARLIEST_TIME, *where)}, not {found[0].stored}")
            units = self.units(c, where, self.mins[where], len(found))
            if [(u[0], u[1]) for u in units] != [(r.physical, r.size) for r in found]:
                bad.append(f"the {len(units)} units of {where} are not those of the {len(found)} records")
                continue
            for r in (found[0], found[len(found) // 2], found[-1]):
                code, by_id = c.view(r.physical)
                if code != 0 or len(by_id) != 1 or by_id[0].raw != r.raw:
                    bad.append(f"view of {r.msg_id} answers {code}")
            for r, unit, m in zip(found, units, self.by_queue.get(where, [])):
                got = fields(r, unit[2])
                for k, v in got.items():
                    if k not in m or (self.moved and k in self.MOVED) or (self.ext and k == "tagsCode"):
                        continue
                    if v != m[k]:
                        bad.append(f"{where} {r.offset}: {k} is {v!r}, not {m[k]!r}")
        return bad

    def check_keys(self, c):
        bad = []
        places = {m["commitLogOffset"]: (m["topic"], m["queueId"], m["queueOffset"]) for m in self.expected["messages"]}
        for k in self.expected["keyQueries"]:
            a = c.call(remoting.QUERY, {"topic": k["topic"], "key": k["key"], "maxNum": 64, "beginTimestamp": k["beginTs"], "endTimestamp": k["endTs"],
                                        "_UNIQUE_KEY_QUERY": "true" if k["uniqKeyQuery"] else "false"})
            found = [(r.topic, r.queue, r.offset) for r in remoting.records(a.body)] if a.code == 0 else []
            # A message that came in its time has the keys of the one that waited.
            found = [p for p in found if p in places.values()]
            wanted = [places.get(at) for at in k["offsets"]]
            if None not in wanted and len(wanted) < k["maxNum"] and sorted(found) != sorted(wanted):
                bad.append(f"query of {k['key']!r} in {k['topic']} answers {a.code} with {found}, not {wanted}")
        for topic, key, raw in self.sent:
            code, found = c.query(topic, key)
            if code != 0 or [r.raw for r in found] != [raw]:
                bad.append(f"query of {key!r} answers {code} with {len(found)}")
        return bad

    def check_times(self, c):
        bad = []
        boundary = {"boundaryType": "lower"} if self.v5 else {}
        for s in self.expected["searchOffset"]:
            where = s["topic"], s["queueId"]
            times = [remoting.Record(raw).stored for raw in self.records[where]]
            got = c.offset(remoting.SEARCH_OFFSET, *where, timestamp=s["timestamp"], **boundary) - self.mins[where]
            # Java first chooses a queue file by its modification time and so misses messages; the exact answer is right too, and a nearer one.
            # Messages of one time: whichever the search meets. Behind the last one of then, what was sent since counts.
            exact = got < len(times) and times[got] >= s["timestamp"] and (got == 0 or times[got - 1] < s["timestamp"] or times[got] == s["timestamp"])
            nearer = not boundary and got < len(times) and abs(times[got] - s["timestamp"]) <= abs(times[s["offset"] - self.mins[where]] - s["timestamp"])
            behind = s["timestamp"] > times[len(self.by_queue[where]) - 1] and got + self.mins[where] - s["offset"] in (0, 1)
            # That time is the one of the unpacking here, and then Java's search ends with that file.
            cut_off = (got + self.mins[where] + 1) % self.units_per_file == 0
            if got + self.mins[where] not in (s["offset"], s.get("offsetAfterReopen")) and not (exact or nearer or behind or cut_off):
                bad.append(f"search by time {s} gives {got + self.mins[where]}")
        return bad

    def check_offsets(self, c):
        bad = []
        wanted = {(where.split("@")[0], where.split("@")[1], int(q)): n for where, queues in self.expected["config"].get("consumerOffset.json", {}).get("offsetTable", {}).items() for q, n in queues.items()}
        wanted.update(self.committed)
        for (topic, group, q), want in wanted.items():
            a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": q})
            if a.code != 0 or int(a.ext["offset"]) != want:
                bad.append(f"consumer offset of {group} in {topic} queue {q}: {a.code} {a.ext}, not {want}")
        return bad

    def check_config(self):
        """The files of a stopped broker: nothing of the recorded topics and groups is lost, also what only 5.x knows (store §25.7, store §26.24)."""
        bad = []
        for name, table in (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")):
            if name not in self.expected["config"]:
                continue
            with open(os.path.join(self.store, "config", name), encoding="utf-8") as f:
                now = java_json(f.read())
            for entry, want in self.expected["config"][name][table].items():
                got = now[table].get(entry, {})
                if entry not in ("broker-a", "DefaultCluster", "SELF_TEST_TOPIC"):  # belong to the broker that runs
                    bad += [f"{name}: {k} of {entry} is {got.get(k)!r}, not {v!r}" for k, v in want.items() if got.get(k) != v]
        return bad

    # --- going on
    def append(self, c, who):
        """Messages of every kind to the first, the middle and the last queue, more than a log file of them. Complaints."""
        bad = []
        if not self.committed:  # a 5.x broker takes no offset of an unknown group
            a = c.call(UPDATE_GROUP, body=json.dumps({"groupName": GROUP}).encode())
            bad += [] if a.code == 0 else [f"making a group: {a.code} {a.remark}"]
        topics = sorted(q for q in self.mins if q[0] not in SYSTEM)
        for where in dict.fromkeys((topics[0], topics[len(topics) // 2], topics[-1])):
            news = []
            # An empty body is too much for a 5.3.3 broker.
            for n, (body, props) in enumerate(((b"e" if self.v5 else b"", {}), ("grün 😀 \0".encode(), {"TAGS": "标签", "name äöü": "=&% 值"}), (os.urandom(100_000), {"TAGS": "roll"}), (b"x" * 3000, {"TAGS": "last"}))):
                key = unique(f"{who}-{n}-")
                a = c.send(where[0], body, where[1], dict(props, KEYS=key), flag=n)
                if a.code != 0 or int(a.ext["queueOffset"]) != self.mins[where] + len(self.records[where]) + n:
                    return bad + [f"send to {where}: {a.code} {a.remark} {a.ext}"]
                news.append((key, body, n))
            clusters.wait_for("the new messages", lambda: c.offset(remoting.MAX_OFFSET, *where) == self.mins[where] + len(self.records[where]) + len(news))
            found = c.read_queue(*where, begin=self.mins[where] + len(self.records[where]))
            if [(r.props["KEYS"], r.body, r.flag) for r in found] != news:
                return bad + [f"{len(found)} of {len(news)} new messages read from {where}"]
            self.records[where] += [r.raw for r in found]
            self.sent += [(where[0], key, r.raw) for (key, _, _), r in zip(news, found)]
            a = c.call(remoting.UPDATE_OFFSET, {"consumerGroup": GROUP, "topic": where[0], "queueId": where[1], "commitOffset": len(self.sent)})
            bad += [] if a.code == 0 else [f"commit: {a.code} {a.remark}"]
            self.committed[where[0], GROUP, where[1]] = len(self.sent)
        clusters.wait_for("the key index", lambda: c.query(*self.sent[-1][:2])[0] == 0)
        return bad


def matrix(ctx, name):
    base = ctx.temp(name)
    f = Folder(name, base)
    if f.moved:  # the way of such a folder into a plain store
        from .store import tool
        plain = os.path.join(ctx.temp("plain"), "store")
        tool("import-dledger", f.store, "--to", plain)
        f.store, base = plain, os.path.dirname(plain)
    against_java = ctx.runner.against == "java"
    version = "5.3.3" if f.v5 else "4.9.7"
    settings = [f"{k}={v}" for k, v in f.expected["brokerSettings"].items() if k.startswith(FORM)] + ["fileReservedTime=87600"]

    def java():
        return clusters.Java(base, version=version, namesrv=f"127.0.0.1:{clusters.free_port()}", settings=settings)  # nobody asks a name server here

    def ours():
        return java() if against_java else clusters.Tenon(base, store=f.store, config=EXTENSION if f.ext else "")

    first = ctx.keep(ours().start())
    with remoting.Client(first.broker) as c:
        ctx.sub("tenon-reads", f.settle(c) + f.check(c))
        ctx.sub("tenon-appends", f.append(c, "tenon") + f.check(c))
    first.stop()
    bad = f.check_config()
    second = ctx.keep(java().start())
    with remoting.Client(second.broker) as c:
        ctx.sub("java-reopens", bad + f.check(c) + f.append(c, "java"))
    second.stop()
    third = ctx.keep(ours().start())
    with remoting.Client(third.broker) as c:
        ctx.sub("tenon-reopens", f.check(c) + f.append(c, "again") + f.check(c))
    third.stop()
    if not against_java:
        from .store import tool
        ctx.sub("nothing-wrong-with-it", [] if "all is well" in tool("check", f.store) else ["tenon store check finds something"])
    return f"{len(f.expected['messages'])} recorded, {len(f.waiting())} due, {len(f.sent)} appended"


for _name in FOLDERS:
    case(f"store-matrix-{_name}", java_too=_name not in ("dledger", "transaction"), needs=("java",))(lambda ctx, name=_name: matrix(ctx, name))
