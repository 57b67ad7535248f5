"""Messages for any time: unmodified 5.3.3 client, kills with much pending, folders that change between the brokers."""
import os
import random
import time

from lib import cluster as clusters
from lib import messages as msg
from lib import remoting
from lib.clients import write_messages
from lib.runner import case

from .clients import create_topic, unique

QUEUES, RECALL_MESSAGE = 4, 370
SECOND = 1000
LATE = 3000  # ms; what a machine that does much else at the same time may add


def now_ms():
    return int(time.time() * SECOND)


class Alone:
    """Our name server and broker as two programs, with a configuration of their own; the broker restarts on its folder."""

    def __init__(self, ctx, more):
        self.folder = ctx.temp("alone")
        self.namesrv_port, self.broker_port = clusters.free_port(), clusters.free_port((0, -2, 1))
        self.namesrv, self.broker = f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        self.argv = clusters.broker_argv(self.folder, self.broker_port, self.namesrv)
        with open(os.path.join(self.folder, "broker.toml"), "a") as f:
            f.write(more)
        self.server = ctx.keep(clusters.Program(clusters.namesrv_argv(self.folder, self.namesrv_port), self.folder, self.namesrv))
        self.process = None
        ctx.keep(self)

    def start(self):
        self.process = clusters.Process(self.argv, os.path.join(self.folder, "broker.log"), lambda: clusters.listening(self.broker))
        return self

    def stop(self):
        if self.process:
            process, self.process = self.process, None
            process.stop()

    def kill(self):
        if self.process:
            process, self.process = self.process, None
            process.kill()


def read_all(c, topic):
    return [r for q in range(QUEUES) for r in c.read_queue(topic, q)]


def audit(c, topic, wanted):
    """Complaints about wanted {ident: deliver ms or None for never}: each once, none early."""
    found, bad = {}, []
    for r in read_all(c, topic):
        found.setdefault(r.props["UNIQ_KEY"], []).append(r.stored)
    for ident, due in wanted.items():
        times = found.get(ident, [])
        if len(times) != (0 if due is None else 1):
            bad.append(f"{ident} came {len(times)} times")
        elif due is not None and times[0] < due:
            bad.append(f"{ident} came {due - times[0]} ms early")
    return bad + [f"{ident} came, nobody sent it" for ident in set(found) - set(wanted)]


@case("timer-sigkill", alone=True)
def timer_sigkill(ctx):
    """SIGKILL at random moments with timers pending and coming due: every acknowledged one comes exactly once, none early."""
    seed = random.randrange(1 << 30)
    random.seed(seed)
    cluster, topic = ctx.fresh(), unique("TimerKill_")
    create_topic(cluster, topic, QUEUES)
    acknowledged, doubtful, number = {}, set(), 0
    for _ in range(12):
        end = time.monotonic() + random.uniform(0.4, 1.5)
        try:
            with remoting.Client(cluster.broker, timeout=5) as c:
                while time.monotonic() < end:
                    flying = {}
                    for _ in range(50):
                        ident, due = f"{topic}-{number}", now_ms() + random.randrange(50, 9000)
                        flying[c.start(remoting.SEND, c.send_header(topic, number % QUEUES, {"UNIQ_KEY": ident, "TIMER_DELIVER_MS": due}), b"x" * random.randrange(1, 300))] = ident, due
                        number += 1
                    doubtful.update(i for i, _ in flying.values())
                    for opaque, (ident, due) in flying.items():
                        a = c.wait(opaque)
                        assert a.code == 0, (a.code, a.remark)
                        acknowledged[ident] = due
                        doubtful.discard(ident)
        except (OSError, remoting.Closed):
            pass
        cluster.kill()
        time.sleep(random.uniform(0, 1.2))
        cluster.start()

    def complete():
        with remoting.Client(cluster.broker) as c:
            return sum(c.offset(remoting.MAX_OFFSET, topic, q) for q in range(QUEUES)) >= len(acknowledged)
    clusters.wait_for("all timers", complete, 40, 0.2)
    time.sleep(1)  # what comes a second time
    with remoting.Client(cluster.broker) as c:
        bad = [b for b in audit(c, topic, acknowledged) if not b.endswith("nobody sent it") or b.split()[0] not in doubtful]
    assert not bad, (f"seed {seed}", len(bad), bad[:5])
    return f"seed {seed}, {len(acknowledged)} timers over 12 kills, each once"


@case("timer-java-5.3.3", needs=("java-5.3.3",))
def timer_java(ctx):
    """The unmodified 5.3.3 client: delay in seconds, in ms, to a time, and recall; received by the same client. How exact: tests/bench/timer.py."""
    cluster, topic = Alone(ctx, "\n[timer]\nrecall_message = true\n").start(), unique("TimerJava_")
    create_topic(cluster, topic, QUEUES)
    begin = now_ms()
    wishes = {"sec": {"TIMER_DELAY_SEC": "3"}, "ms": {"TIMER_DELAY_MS": "2500"}, "abs": {"TIMER_DELIVER_MS": str(begin + 14000)}, "back": {"TIMER_DELAY_SEC": "10", "RECALL": "true"}}
    sent = [msg.Message(topic, ident, f"text:{ident}", **wish) for ident, wish in wishes.items()]
    run = ctx.client("java-5.3.3", "produce", cluster.namesrv, messages=write_messages(ctx.folder, sent))
    assert run.wait(60) == 0, run.describe()
    recalled = [l for l in run.acknowledged() if l.get("recalled")]
    assert len(recalled) == 1 and recalled[0]["recalled"] == recalled[0]["msgId"], recalled
    consumer = ctx.client("java-5.3.3", "consume", cluster.namesrv, group=unique("TimerGroup_"), topic=[topic], expect=3, timeout=40, quiet=6)
    consumer.wait(60)
    assert sorted(l["props"]["ident"] for l in consumer.received()) == ["abs", "ms", "sec"], consumer.describe()
    with remoting.Client(cluster.broker) as c:
        found = {r.props["ident"]: r for r in read_all(c, topic)}
        waiting = {r.props.get("ident"): r for r in c.read_queue("rmq_sys_wheel_timer", 0)}
    for ident, delay in (("sec", 3000), ("ms", 2500)):
        late = found[ident].stored - waiting[ident].stored - delay
        assert -5 <= late <= LATE, (ident, late)
    due = max(begin + 14000, found["abs"].born)  # the client may have needed longer than that to start
    assert 0 <= found["abs"].stored - due <= LATE, found["abs"].stored - due
    return f"lateness ms: {[found[i].stored - int(found[i].props['TIMER_OUT_MS']) - 1 for i in found]}"


@case("timer-folder-to-and-fro", needs=("java",), alone=True)
def timer_folder(ctx):
    """A 5.3.3 broker's pending timers come from Tenon on its folder, and Tenon's from the 5.3.3 broker."""
    java = clusters.Java(ctx.temp("java"), version="5.3.3", settings=["timerWheelEnable=true", "autoCreateTopicEnable=true"])
    ctx.keep(java)
    java.start()
    topic, wanted = unique("TimerFolder_"), {}
    create_topic(java, topic, QUEUES)

    def send_one(c, ident, queue, due):
        a = c.send(topic, b"x", queue, {"UNIQ_KEY": ident, "TIMER_DELIVER_MS": due})
        assert a.code == 0, (a.code, a.remark)
        return a

    def send(address, count, delay_ms):
        with remoting.Client(address) as c:
            for _ in range(count):
                ident = f"{topic}-{len(wanted)}"
                wanted[ident] = now_ms() + delay_ms
                send_one(c, ident, (len(wanted) - 1) % QUEUES, wanted[ident])
    # The oldest stays, so that all that is delivered later lies behind it in the queue.
    with remoting.Client(java.broker) as c:
        send_one(c, "far", 0, now_ms() + 86_400_000)
    send(java.broker, 10, 1000)   # delivered by Java
    send(java.broker, 10, 30000)  # left to Tenon

    def arrived(address, n):
        def count():
            with remoting.Client(address) as c:
                return sum(c.offset(remoting.MAX_OFFSET, topic, q) for q in range(QUEUES)) >= n
        return count
    clusters.wait_for("Java's own timers", arrived(java.broker, 10), 20, 0.2)
    time.sleep(2)  # what comes a second time
    java.stop()
    tenon = clusters.Tenon(ctx.temp("tenon"), store=java.store, config="\n[timer]\nrecall_message = true\n")
    ctx.keep(tenon)
    tenon.start()
    send(tenon.broker, 10, 1000)
    clusters.wait_for("Java's pending timers", arrived(tenon.broker, 30), 60, 0.2)
    with remoting.Client(tenon.broker) as c:
        # Java comes up to a second early, because it rounds down.
        bad = audit(c, topic, {i: d - 1000 for i, d in wanted.items()})
    assert not bad, bad[:5]
    send(tenon.broker, 10, 30000)  # left to Java
    with remoting.Client(tenon.broker) as c:
        a = send_one(c, "recalled", 0, now_ms() + 25000)
        a = c.call(RECALL_MESSAGE, {"producerGroup": "TimerGroup", "topic": topic, "recallHandle": a.ext["recallHandle"]})
        assert a.code == 0, (a.code, a.remark)
    tenon.stop()
    java.start()
    clusters.wait_for("Tenon's pending timers", arrived(java.broker, 40), 70, 0.5)
    time.sleep(2)  # what comes a second time
    with remoting.Client(java.broker) as c:
        bad = audit(c, topic, {i: d - 1000 for i, d in wanted.items()})
    assert not bad, bad[:5]
    return f"{len(wanted)} timers, each once"
