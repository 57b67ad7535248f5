"""Transactions of unmodified clients: decisions, questions, deaths of producers and of the broker."""
import collections
import os
import time

from lib import cluster as clusters
from lib import remoting
from lib.runner import case

from .clients import create_topic, unique, wait_routed

END_TRANSACTION = 37
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CLIENTS = ("java-4.9.8", "java-5.3.3", "go")


class Quick(clusters.Tenon):
    """Asks about undecided transactions after a second, every second."""

    def argv(self):
        path = os.path.join(self.folder, "quick.toml")
        with open(path, "w") as f:
            f.write('[txn_check]\nplugin = "tenon.txn.default"\noptions = { timeout = "1s", interval = "1s" }\n')
        return super().argv() + ["--config", path]


def quick_java(folder, **kw):
    return clusters.Java(folder, settings=["transactionTimeOut=1000", "transactionCheckInterval=1000"], **kw)


def quick(ctx):
    folder = ctx.temp("cluster")
    return ctx.keep((quick_java(folder) if ctx.runner.against == "java" else Quick(folder)).start())


def committed(cluster, topic):
    """How often each transaction is in the topic, by its number; complaints about its form."""
    found, bad = collections.Counter(), []
    with remoting.Client(cluster.broker) as c:
        for q in range(4):
            for r in c.read_queue(topic, q):
                found[int(r.props["i"])] += 1
                if r.sys_flag & 12 != 8 or r.props.get("REAL_TOPIC") != topic or r.body != b"transaction %d" % int(r.props["i"]):
                    bad.append(f"{r.props['i']}: sysFlag {r.sys_flag}, {r.props}, {r.body[:40]}")
    return found, bad


def wait_committed(cluster, topic, wanted, seconds=60):
    clusters.wait_for(f"transactions {sorted(wanted)} in {topic}", lambda: set(committed(cluster, topic)[0]) == set(wanted), seconds, 0.2)


def checks(run):
    return [l for l in run.lines if l.get("event") == "check"]


def check_exactly(cluster, topic, wanted):
    found, bad = committed(cluster, topic)
    assert found == collections.Counter(wanted) and not bad, (dict(found), wanted, bad)


def decisions(ctx, name):
    cluster, topic, group = quick(ctx), unique("Txn_"), unique("TxnGroup_")
    create_topic(cluster, topic)
    run = ctx.client(name, "transact", cluster.namesrv, group=group, topic=topic, count=4, decide="commit,rollback,unknown,unknown", answer="unknown,unknown,commit,rollback", timeout=120)
    run.started()
    assert len(run.acknowledged()) == 4, run.describe()
    wait_committed(cluster, topic, [0, 2], 90)
    run.until("a question about the last one", lambda r: any(l["n"] == 3 for l in checks(r)), 90)
    with remoting.Client(cluster.broker) as c:
        if cluster.kind == "tenon":  # Java does not let it be read
            clusters.wait_for("every decision in the op topic", lambda: len(ops(c)) >= 4, 30, 0.2)
        assert any(rests(c) for _ in range(3)), "a decided transaction is still asked about"
    check_exactly(cluster, topic, [0, 2])
    bad = [l for l in checks(run) if l["n"] not in (2, 3) or l["topic"] != topic or not l["transactionId"] or int(l["checks"]) < 1 or l["length"] != len("transaction 2")]
    assert not bad, bad
    consumer = ctx.client("java-4.9.8", "consume", cluster.namesrv, group=unique("g"), topic=topic, expect=2, timeout=40)
    consumer.wait(70)
    assert sorted(l["props"]["i"] for l in consumer.received()) == ["0", "2"], consumer.describe()
    return f"{len(checks(run))} questions"


def rests(c):
    """Whether nothing is asked about for two rounds. What was under way when the last decision came may be one question more."""
    at = c.offset(remoting.MAX_OFFSET, HALF, 0)
    time.sleep(2.5)
    return c.offset(remoting.MAX_OFFSET, HALF, 0) == at


def ops(c):
    """Half offsets in the op topic, both forms."""
    out = set()
    for r in c.read_queue(OP, 0):
        out.update(int(o) for o in r.body.decode().split(",") if o)
    return out


for _name in CLIENTS:
    case(f"transactions-{_name}", java_too=True, needs=(_name,))(lambda ctx, name=_name: decisions(ctx, name))


@case("transactions-other-producer", java_too=True, needs=("java-4.9.8", "java-5.3.3"))
def other_producer(ctx):
    """The first producer dies undecided; another one of its group is asked and commits."""
    cluster, topic, group = quick(ctx), unique("Txn_"), unique("TxnGroup_")
    create_topic(cluster, topic)
    first = ctx.client("java-4.9.8", "transact", cluster.namesrv, group=group, topic=topic, count=3, timeout=120)
    first.started()
    first.kill()
    assert not committed(cluster, topic)[0]
    other = unique("Other_")
    create_topic(cluster, other)
    second = ctx.client("java-5.3.3", "transact", cluster.namesrv, group=group, topic=other, count=1, decide="rollback", answer="commit", timeout=120)
    second.started()
    wait_committed(cluster, topic, [0, 1, 2], 60)
    check_exactly(cluster, topic, [0, 1, 2])
    return f"{len(checks(second))} questions to the second one"


def end(c, group, record, state):
    return c.call(END_TRANSACTION, {"producerGroup": group, "tranStateTableOffset": record.offset, "commitLogOffset": record.physical, "commitOrRollback": state,
                                    "msgId": record.props["UNIQ_KEY"], "fromTransactionCheck": "false"})


@case("transactions-sigkill", needs=("java-4.9.8", "go"))
def sigkill(ctx):
    """SIGKILL of the broker between half and commit: committed exactly once, also when the commit is repeated."""
    cluster, group = quick(ctx), unique("TxnGroup_")
    for name in ("java-4.9.8", "go"):
        topic = unique("Txn_")
        create_topic(cluster, topic)
        run = ctx.client(name, "transact", cluster.namesrv, group=group + name[:2], topic=topic, count=1, decide="commit", answer="commit", hold=3000, timeout=120)
        run.until("the half", lambda r: any(l.get("event") == "half" for l in r.lines), 60)
        cluster.kill()
        cluster.start()
        wait_routed(cluster, topic)
        wait_committed(cluster, topic, [0], 90)
        with remoting.Client(cluster.broker) as c:
            for r in [r for r in c.read_queue(HALF, 0) if r.props["REAL_TOPIC"] == topic]:
                a = end(c, group + name[:2], r, 8)
                assert a.code == 0, (a.code, a.remark)
        cluster.kill()
        cluster.start()
        wait_routed(cluster, topic)
        with remoting.Client(cluster.broker) as c:
            for r in [r for r in c.read_queue(HALF, 0) if r.props["REAL_TOPIC"] == topic]:
                assert end(c, group + name[:2], r, 8).code == 0
        check_exactly(cluster, topic, [0])
        run.kill()


@case("transactions-java-goes-on", needs=("java-4.9.8", "java"))
def java_goes_on(ctx):
    """A Java broker opens our folder: it asks about what is undecided and leaves the rest alone."""
    cluster, topic, group = quick(ctx), unique("Txn_"), unique("TxnGroup_")
    create_topic(cluster, topic)
    first = ctx.client("java-4.9.8", "transact", cluster.namesrv, group=group, topic=topic, count=3, decide="commit,rollback,unknown", timeout=120)
    first.started()
    first.until("two questions", lambda r: len(checks(r)) >= 2, 60)
    first.kill()
    cluster.stop()
    folder = ctx.temp("java")
    clusters.copy_store(cluster.store, os.path.join(folder, "store"))
    java = ctx.keep(quick_java(folder, version="4.9.7").start())
    wait_routed(java, topic)
    other = ctx.client("java-4.9.8", "transact", java.namesrv, group=group, topic=create_and_return(java), count=1, decide="rollback", answer="commit", timeout=120)
    other.started()
    wait_committed(java, topic, [0, 2], 90)
    time.sleep(2.5)  # two rounds of questions, in which nothing may be committed again
    check_exactly(java, topic, [0, 2])
    asked = checks(other)
    assert asked and all(l["n"] == 2 for l in asked), asked
    return f"questions of Java: {len(asked)}"


def create_and_return(cluster):
    topic = unique("Other_")
    create_topic(cluster, topic)
    return topic
