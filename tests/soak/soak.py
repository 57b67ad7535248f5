#!/usr/bin/env python3
"""Mixed long run: all kinds of messages against one broker that is killed (SIGKILL) again and again, then an audit.

    python3 tests/soak/soak.py                       # 3 minutes of load, 5000 messages a second, a kill every 20 s
    python3 tests/soak/soak.py --seconds 3600        # longer
    python3 tests/soak/soak.py --kinds plain,txn     # only these
    python3 tests/soak/soak.py --lose plain          # checks the audit: one acknowledged message is missing, must fail

What holds at the end: each acknowledged message was consumed, or is pending where it belongs; it was found where it was
acknowledged and, where the broker promises it, once; each transaction has the fate that its producer decided; nothing
delayed came early; the order of each key was kept; refused messages came back as often as they were refused and then became
dead letters; replies reached who asked.
"""
import argparse
import multiprocessing
import os
import pickle
import random
import shutil
import sys
import tempfile
import time

import audit
import roles
from link import remoting
from lib import cluster

KINDS = ("plain", "batch", "ordered", "delay", "timer", "txn", "retry", "sql", "reply")
SHARES = {"plain": 0.60, "batch": 0.20, "ordered": 0.08, "delay": 0.03, "timer": 0.02, "txn": 0.02, "retry": 0.01, "sql": 0.03, "reply": 0.01}
LEVELS = {1: 1000, 2: 3000, 3: 8000, 4: 3600_000}
QUIET = 12.0  # s without anything new after which the load counts as consumed: longer than the longest delay of the load
DRAIN_LIMIT = 180.0  # s


class Run:
    """One broker, its folder and the roles."""

    def __init__(self, options, folder):
        self.options, self.folder, self.seed = options, folder, options.seed
        self.store = os.path.join(folder, "store")
        self.port = cluster.free_port((0, -2, 1))
        self.broker = f"127.0.0.1:{self.port}"
        self.stop_sending, self.stop = multiprocessing.Event(), multiprocessing.Event()
        self.moved = multiprocessing.Value("d", 0.0)
        self.roles, self.kills, self.slowest = {}, 0, 0.0

    # --- the broker
    def configure(self):
        """Writes the broker's configuration; keys of parts that this broker lacks are an error that names them."""
        levels = " ".join(f"{ms // 1000}s" for ms in LEVELS.values())
        text = (f'[broker]\nname = "broker-soak"\nlisten_host = "127.0.0.1"\nport = {self.port}\nstore_root = "{self.store}"\n'
                + ("" if "[retention]" in self.options.broker_toml else cluster.KEEP_ALL) +
                f'[topics]\nproperty_filter = true\n'
                f'[send]\nmessage_delay_level = "{levels}"\n'
                f'[storage.options]\ncommitlog_file = "64MiB"\n' + self.options.broker_toml)
        filters = ["tenon.filter.tag"] + (["tenon.filter.sql92"] if "sql" in self.options.kinds else [])
        text += "".join(f'[[filter]]\nplugin = "{f}"\n' for f in filters)
        if "txn" in self.options.kinds:
            text += TXN_TOML
        path = os.path.join(self.folder, "broker.toml")
        with open(path, "w") as f:
            f.write(text)
        return [os.path.join(cluster.BIN, "tenon-broker"), "--config", path]

    def start(self):
        t0 = time.monotonic()
        self.process = cluster.Process(self.argv, os.path.join(self.folder, "broker.log"), lambda: cluster.listening(self.broker), seconds=60)
        self.slowest = max(self.slowest, time.monotonic() - t0)

    def topic(self, name):
        with remoting.Client(self.broker) as c:
            a = c.call(remoting.UPDATE_TOPIC, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": roles.QUEUES, "writeQueueNums": roles.QUEUES, "perm": 6,
                                               "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
            assert a.code == 0, (name, a.code, a.remark)

    # --- the roles
    def add(self, kind):
        topic, rate, lose = "Soak" + kind.capitalize(), self.options.rate * SHARES[kind] / sum(SHARES[k] for k in self.options.kinds), kind == self.options.lose
        self.topic(topic)
        queues = {topic: roles.QUEUES}
        group = f"Soak{kind.capitalize()}Group"
        make = {"plain": lambda: (roles.Producer(kind, self, topic, rate, lose=lose), roles.Consumer(kind + "-in", self, group, queues)),
                "batch": lambda: (roles.BatchProducer(kind, self, topic, rate / roles.BatchProducer.SIZE, lose=lose), roles.Consumer(kind + "-in", self, group, queues)),
                "ordered": lambda: (roles.OrderedProducer(kind, self, topic, rate, lose=lose), roles.OrderedConsumer(kind + "-in", self, group, queues)),
                "delay": lambda: (roles.DelayProducer(kind, self, topic, rate, LEVELS, lose=lose), roles.Consumer(kind + "-in", self, group, queues)),
                "timer": lambda: (roles.TimerProducer(kind, self, topic, rate, lose=lose), roles.Consumer(kind + "-in", self, group, queues)),
                "txn": lambda: (roles.TxnProducer(kind, self, topic, rate, lose=lose), roles.Consumer(kind + "-in", self, group, queues)),
                "sql": lambda: (roles.SqlProducer(kind, self, topic, rate, lose=lose), roles.Consumer(kind + "-in", self, group, queues, roles.SQL, "SQL92")),
                "retry": lambda: (roles.RetryProducer(kind, self, topic, rate, lose=lose), roles.RetryConsumer(kind + "-in", self, roles.RETRY_GROUP, dict(queues, **{"%RETRY%" + roles.RETRY_GROUP: 1}))),
                "reply": lambda: (roles.Requester(kind, self, topic, rate, lose=lose), roles.Replier(kind + "-in", self, group, queues))}[kind]
        for role in make():
            self.roles[role.name] = role
            role.start()

    def check_alive(self):
        dead = [r.name for r in self.roles.values() if not r.is_alive() and r.exitcode]
        assert not dead, f"roles ended by themselves: {dead} (see above)"

    def load(self):
        self.argv = self.configure()
        self.start()
        for kind in self.options.kinds:
            self.add(kind)
        end = time.monotonic() + self.options.seconds
        kill_at = time.monotonic() + self.options.kill_every
        while time.monotonic() < end:
            time.sleep(0.1)
            self.check_alive()
            if time.monotonic() >= kill_at and end - time.monotonic() > 2:
                time.sleep(random.uniform(0, 0.5))  # not in step with anything
                self.process.kill()
                self.kills += 1
                self.start()
                kill_at = time.monotonic() + self.options.kill_every
        self.stop_sending.set()
        print(f"load over: {self.kills} kills, slowest start {self.slowest:.2f} s", flush=True)

    def drain(self):
        """Until nothing new has been consumed for a while."""
        t0 = time.monotonic()
        self.moved.value = t0
        while time.monotonic() - self.moved.value < QUIET:
            time.sleep(0.2)
            self.check_alive()
            if time.monotonic() - t0 > DRAIN_LIMIT:
                return [f"still consuming {DRAIN_LIMIT:.0f} s after the load"]
        print(f"drained in {time.monotonic() - t0 - QUIET:.1f} s", flush=True)
        return []

    def notes(self):
        self.stop.set()
        out = {}
        for name, role in self.roles.items():
            role.join(20)
            with open(role.file, "rb") as f:
                out[name] = pickle.load(f)
        return out

    # --- the audit
    def judge(self):
        notes, bad = self.notes(), []
        for name, n in notes.items():
            if "error" in n:
                bad.append(f"{name}: {n['error']}")
            bad += [f"{name}: {text} ({count} times)" for text, count in list(n.get("refused", {}).items()) + list(n.get("odd", {}).items()) if not self.expected(name, text)]
            bad += [f"{name}: offsets went backwards at {b}" for b in n.get("backwards", [])[:3]]
        for kind in self.options.kinds:
            out, into = notes[kind], notes[kind + "-in"]
            complaints = getattr(self, "judge_" + kind)(out, into)
            bad += complaints
            seen = len(into["seen"])
            print(f"{'FAIL' if complaints else 'PASS'} {kind}: {out['sent'] * (roles.BatchProducer.SIZE if kind == 'batch' else 1)} sent, {len(out['acknowledged'])} acknowledged, {seen} consumed"
                  + (f", asked about {len(out['asked'])}" if kind == "txn" else f", {len(out['replies'])} replies" if kind == "reply" else ""), flush=True)
            if not out["acknowledged"] or not seen:
                bad.append(f"{kind}: nothing happened")
        total = sum(len(notes[k]["acknowledged"]) for k in self.options.kinds)
        print(f"{total} messages acknowledged, {total / self.options.seconds:.0f} a second over the whole load", flush=True)
        return bad

    @staticmethod
    def expected(name, text):
        """The retry topic exists from the first refusal on; a broker that comes up may be busy for a moment; a reply may meet a requester that is not back yet."""
        return text.startswith(("%RETRY%", "2 ", "14 ")) or (name == "reply-in" and text.startswith("reply ")) or " 24 " in text or " 25 " in text or " 27 " in text

    def judge_plain(self, out, into, name="plain"):
        seen = audit.seen_by_id(into)
        return audit.no_loss(name, out["acknowledged"], seen) + audit.once(name, seen) + audit.in_place(name, out["acknowledged"], seen) + audit.gapless(name, into)

    def judge_batch(self, out, into):
        return self.judge_plain(out, into, "batch")

    def judge_ordered(self, out, into):
        return self.judge_plain(out, into, "ordered") + audit.ordered("ordered", into)

    def judge_delay(self, out, into):
        """A kill may bring delayed messages twice (the progress is written every few seconds), never lose one."""
        far = max(LEVELS)
        seen = audit.seen_by_id(into)
        bad = audit.no_loss("delay", out["acknowledged"], seen, lambda n, delay: delay < LEVELS[far]) + audit.not_early("delay", out["acknowledged"], seen)
        wanted = {n for n, (_, _, delay, _) in out["acknowledged"].items() if delay == LEVELS[far]}
        lost = wanted - audit.pending_delayed(self.broker, far)
        return bad + ([f"delay: {len(lost)} of {len(wanted)} messages of level {far} are not pending: {audit.first(lost)}"] if lost else [])

    def judge_timer(self, out, into):
        seen = audit.seen_by_id(into)
        return (audit.no_loss("timer", out["acknowledged"], seen, lambda n, delay: delay < 3600_000) + audit.once("timer", seen)
                + audit.not_early("timer", out["acknowledged"], seen, audit.TIMER_EARLY_MS))

    def judge_txn(self, out, into):
        return audit.transactions(out, into)

    def judge_retry(self, out, into):
        return audit.retries(out, into, set(audit.dead_letters(self.broker)))

    def judge_sql(self, out, into):
        seen = audit.seen_by_id(into)
        return audit.no_loss("sql", out["acknowledged"], seen, lambda n, matches: matches) + audit.once("sql", seen)

    def judge_reply(self, out, into):
        return audit.replies(out, into)


TXN_TOML = '[txn_check]\nplugin = "tenon.txn.default"\noptions = { timeout = "2s", interval = "2s" }\n'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=180, help="how long the load lasts")
    p.add_argument("--rate", type=float, default=5000, help="messages a second in all")
    p.add_argument("--kill-every", type=float, default=20, help="seconds between two kills")
    p.add_argument("--kinds", default=",".join(KINDS), help="of " + ", ".join(KINDS))
    p.add_argument("--lose", choices=KINDS, help="count one message as acknowledged that was never sent: the audit must fail")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--bin", help="folder of the programs (default build/release/bin)")
    p.add_argument("--keep", action="store_true", help="keep store and logs")
    p.add_argument("--broker-toml", default="", help="more lines for the broker's file")
    options = p.parse_args()
    options.kinds = options.kinds.split(",")
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        p.error(f"unknown kinds: {sorted(unknown)}")
    if options.bin:
        cluster.BIN = os.path.abspath(options.bin)
    random.seed(options.seed)
    print(f"seed {options.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="tenon-soak-")
    run = Run(options, folder)
    bad = []
    try:
        run.load()
        bad += run.drain()
        bad += run.judge()
        run.process.stop()
    finally:
        run.stop.set()
        for role in run.roles.values():
            role.join(5)
            if role.is_alive():
                role.kill()
        if hasattr(run, "process"):
            run.process.kill()
        if options.keep or bad:
            print("kept in " + folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for b in bad:
        print("FAIL " + b)
    print("the mixed long run found nothing wrong" if not bad else f"{len(bad)} complaints (seed {options.seed})")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
