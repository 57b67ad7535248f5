"""The way back: a folder with all that Tenon writes, left by SIGKILL, in the Java brokers 4.9.7 and 5.3.3, and then in Tenon again."""
import os
import struct
import threading
import time
import zlib

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import create_topic, unique
from .store import tool

QUEUES = 4
END_TRANSACTION, DELETE_EXPIRED = 37, 329
CONFIG = """[storage.options]
commitlog_file = "64KiB"
queue_file_bytes = 2000
index_slots = 100
index_items = 200
multi_dispatch = true
[send]
message_max_bytes = "32KiB"
[retention]
file_reserved_hours = 0
delete_when = ""
round_ms = 100
clean_forcibly = false
disk_clean_pct = 100
disk_full_pct = 100
"""
JAVA = ["mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=2000", "maxHashSlotNum=100", "maxIndexNum=200", "maxMessageSize=32768", "fileReservedTime=87600", "diskMaxUsedSpaceRatio=95",
        "cleanFileForciblyEnable=false", "enableLmq=true", "enableMultiDispatch=true", "messageIndexSafe=true", "timerWheelEnable=true"]
HALF, OP, TIMER, SCHEDULE = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"


def batch_part(body, props):
    text = remoting.properties(props).encode()
    return struct.pack(">iiiii", 22 + len(body) + len(text), 0, zlib.crc32(body) & 0x7FFFFFFF, 0, len(body)) + body + struct.pack(">h", len(text)) + text


class Features:
    """A topic and its light queues, delays, timers and transactions, and what is in them."""

    def __init__(self):
        self.topic, self.lights, self.keys, self.number = unique("WayBack_"), [unique("%LMQ%a"), unique("%LMQ%b")], [], 0

    def places(self):
        return [(self.topic, q) for q in range(QUEUES)] + [(t, 0) for t in self.lights] + [(HALF, 0), (OP, 0), (TIMER, 0), (SCHEDULE, 17)]

    def key(self):
        self.number += 1
        return f"{self.topic}-{self.number}"

    def plain(self, c, count, size=600):
        for _ in range(count):
            key = self.key()
            a = c.send(self.topic, key.encode().ljust(size, b"x"), self.number % QUEUES, {"KEYS": key, "TAGS": f"T{self.number % 3}"})
            assert a.code == 0, (a.code, a.remark)
            self.keys.append(key)

    def batch(self, c):
        keys = [self.key() for _ in range(5)]
        body = b"".join(batch_part(k.encode(), {"KEYS": k, "UNIQ_KEY": "U" + k}) for k in keys)
        a = c.call(remoting.SEND_BATCH, c.send_header(self.topic, 1, batch=True), body)
        assert a.code == 0, (a.code, a.remark)
        self.keys += keys

    def light(self, c):
        key = self.key()
        a = c.send(self.topic, b"light", 0, {"KEYS": key, "INNER_MULTI_DISPATCH": ",".join(self.lights)})
        assert a.code == 0, (a.code, a.remark)
        self.keys.append(key)

    def transaction(self, c, decision):
        """decision: 8 commit, 12 rollback, 0 none."""
        key = self.key()
        unique_key = "U" + key
        a = c.send(self.topic, b"half", 2, {"KEYS": key, "UNIQ_KEY": unique_key, "TRAN_MSG": "true", "PGROUP": "WayBackProducers"}, sys_flag=4, group="WayBackProducers")
        assert a.code == 0, (a.code, a.remark)
        if decision:
            a = c.call(END_TRANSACTION, {"producerGroup": "WayBackProducers", "tranStateTableOffset": a.ext["queueOffset"], "commitLogOffset": int(a.ext["msgId"][16:], 16), "commitOrRollback": decision,
                                         "fromTransactionCheck": "false", "msgId": unique_key, "transactionId": unique_key})
            assert a.code == 0, (a.code, a.remark)

    def everything(self, c, timers):
        self.plain(c, 60)
        self.batch(c)
        for _ in range(3):
            self.light(c)
        for decision in (8, 12, 0):
            self.transaction(c, decision)
        later = {"KEYS": self.key(), "UNIQ_KEY": self.key()}
        assert c.send(self.topic, b"delayed", 3, dict(later, DELAY="18")).code == 0
        if timers:
            due = int(time.time() * 1000)
            for at in (due + 300, due + 3600_000):
                assert c.send(self.topic, b"timed", 3, {"KEYS": self.key(), "UNIQ_KEY": self.key(), "TIMER_DELIVER_MS": at}).code == 0


class Contents:
    """All records, bounds and units that a broker serves, by queue."""

    def __init__(self, c, features):
        self.records, self.mins = {}, {}
        for where in features.places():
            self.mins[where] = c.offset(remoting.MIN_OFFSET, *where)
            self.records[where] = c.read_queue(*where)
        self.units = {where: units(c, where, self.mins[where], len(r)) for where, r in self.records.items() if r}

    def count(self, topic):
        return sum(len(r) for (t, _), r in self.records.items() if t == topic)


def units(c, where, first, count):
    from .store_matrix import Folder
    return Folder.units(None, c, where, first, count)


def continued(before, after, exact=True):
    """What is wrong with after, if it has to be before, and, unless exact, more behind it. Complaints."""
    bad = []
    for where, old in before.records.items():
        new = after.records[where]
        if before.mins[where] != after.mins[where]:
            bad.append(f"{where} begins with {after.mins[where]}, not {before.mins[where]}")
        if [r.raw for r in new[:len(old)]] != [r.raw for r in old]:
            bad.append(f"records of {where} differ")
        # Checks of transactions are repeated. A 5.x broker builds its wheel from the oldest pending timer on and so delivers later ones again.
        known = {r.props.get("UNIQ_KEY") for r in old}
        if exact and where[0] not in (HALF, OP) and not all("TIMER_OUT_MS" in r.props and r.props["UNIQ_KEY"] in known for r in new[len(old):]):
            bad.append(f"{where} has {len(new)} records, not {len(old)}")
        if not where[0].startswith("%LMQ%") and [r.offset for r in new] != list(range(after.mins[where], after.mins[where] + len(new))):
            bad.append(f"offsets of {where} have holes")
        if [(u[0], u[1]) for u in after.units.get(where, [])] != [(r.physical, r.size) for r in new]:
            bad.append(f"units of {where} are not those of its records")
        if before.units.get(where, []) != after.units.get(where, [])[:len(old)]:
            bad.append(f"units of {where} differ")
    return bad


def keys_found(c, f):
    """Complaints about keys of messages that are still there."""
    there = {r.props.get("KEYS"): r for q in range(QUEUES) for r in c.read_queue(f.topic, q)}
    bad = []
    for key in f.keys[-90::7]:
        code, found = c.query(f.topic, key)
        if key in there and (code != 0 or there[key].raw not in [r.raw for r in found]):
            bad.append(f"query of {key} answers {code}")
    for r in list(there.values())[::40]:
        code, found = c.view(r.physical)
        if code != 0 or found[0].raw != r.raw:
            bad.append(f"view of {r.msg_id} answers {code}")
    return bad


def write_all(ctx, f):
    """A folder with roll-over, a deleted front, batches, light queues, timers, delays, transactions, a recovery; killed. @return broker, contents"""
    tenon = ctx.keep(clusters.Tenon(ctx.temp("tenon"), config=CONFIG).start())
    create_topic(tenon, f.topic, QUEUES)
    with remoting.Client(tenon.broker) as c:
        f.plain(c, 400)
        assert c.call(DELETE_EXPIRED).code == 0
        clusters.wait_for("the deletion of the front", lambda: c.offset(remoting.MIN_OFFSET, f.topic, 0) > 0)
        f.everything(c, timers=True)
        clusters.wait_for("the timer and the committed transaction", lambda: any(r.props.get("TIMER_DELIVER_MS") for r in c.read_queue(f.topic, 3)))
        for q in range(QUEUES):
            assert c.call(remoting.UPDATE_OFFSET, {"consumerGroup": "WayBackGroup", "topic": f.topic, "queueId": q, "commitOffset": 90 + q}).code == 0
    tenon.stop()  # consumer offsets are written
    tenon.start()
    killer = threading.Timer(0.4, tenon.kill)
    killer.start()
    try:
        with remoting.Client(tenon.broker) as c:
            while True:
                f.plain(c, 10)
    except (OSError, remoting.Closed):
        pass
    killer.join()
    tenon.start()
    with remoting.Client(tenon.broker) as c:
        f.everything(c, timers=True)
        clusters.wait_for("the second timer", lambda: sum("TIMER_DELIVER_MS" in r.props for r in c.read_queue(f.topic, 3)) == 2)
        clusters.wait_for("the key index", lambda: c.query(f.topic, f.keys[-1])[0] == 0)
        bad = keys_found(c, f)
        contents = Contents(c, f)
    tenon.kill()
    assert not bad, bad
    assert contents.mins[f.topic, 0] > 0 and contents.count(f.lights[1]) == 6 and contents.count(TIMER) == 4 and contents.count(SCHEDULE) == 2, {k: len(v) for k, v in contents.records.items()}
    files = sorted(os.listdir(os.path.join(tenon.store, "commitlog")))
    assert len(files) >= 3 and int(files[0]) > 0, files
    return tenon, contents


def way_back(ctx, version):
    f = Features()
    tenon, written = write_all(ctx, f)
    java = clusters.Java(ctx.temp("java"), version=version, namesrv=f"127.0.0.1:{clusters.free_port()}", settings=JAVA)
    clusters.copy_store(tenon.store, java.store)
    ctx.keep(java.start())
    with remoting.Client(java.broker) as c:
        clusters.wait_for("Java's queues", lambda: c.offset(remoting.MAX_OFFSET, f.topic, 0) >= written.mins[f.topic, 0] + len(written.records[f.topic, 0]))
        served = Contents(c, f)
        bad = continued(written, served) + keys_found(c, f)
        for q in range(QUEUES):
            a = c.call(remoting.QUERY_OFFSET, {"consumerGroup": "WayBackGroup", "topic": f.topic, "queueId": q})
            bad += [] if a.code == 0 and int(a.ext["offset"]) == 90 + q else [f"consumer offset of queue {q}: {a.code} {a.ext}"]
        ctx.sub("java-serves", bad)
        f.everything(c, timers=False)
        clusters.wait_for("Java's dispatch", lambda: c.offset(remoting.MAX_OFFSET, f.lights[1], 0) == 9)
        clusters.wait_for("Java's index", lambda: c.query(f.topic, f.keys[-1])[0] == 0)
        later = Contents(c, f)
        ctx.sub("java-goes-on", continued(served, later, exact=False) + ([] if later.count(f.topic) == served.count(f.topic) + 60 + 5 + 3 + 1 else [f"{later.count(f.topic)} after {served.count(f.topic)}"]))
    java.stop()
    back = clusters.Tenon(ctx.temp("back"), config=CONFIG.replace("file_reserved_hours = 0", "file_reserved_hours = 87600"))
    os.rename(java.store, back.store)
    ctx.keep(back.start())
    with remoting.Client(back.broker) as c:
        bad = continued(later, Contents(c, f)) + keys_found(c, f)
        ctx.sub("tenon-serves", bad)
        f.everything(c, timers=True)
        end = Contents(c, f)
        ctx.sub("tenon-goes-on", continued(later, end, exact=False) + ([] if end.count(f.lights[0]) == 12 else ["light queues do not go on"]))
    back.stop()
    ctx.sub("nothing-wrong-with-it", [] if "all is well" in tool("check", back.store) else ["tenon store check finds something"])
    return f"{sum(len(r) for r in end.records.values())} records in {len(end.records)} queues"


for _version in ("4.9.7", "5.3.3"):
    case(f"way-back-{_version}", needs=("java",))(lambda ctx, version=_version: way_back(ctx, version))
