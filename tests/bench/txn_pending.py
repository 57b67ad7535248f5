#!/usr/bin/env python3
"""Ordinary sends beside 100 000 undecided transactions.

    txn_pending.py               two brokers of this build: one holds the halves, the other none
    txn_pending.py --quick       only shows that it works

Both are up all the time and get short slices of the same sends in turn, the order changing from round to round, so that
whatever else the machine does meets both. Printed is the median over the rounds of with / without for the rate and for the
broker's CPU time per message, first while nobody of the producers' group is there to be asked, then with a producer that is
asked about all of them and never answers (each question is a message that the broker stores, so its CPU time is for
information). Fails if the rate is worse than --bar in the first part, or if a half was lost.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time

import compare
from compare import bench_tenon, clusters
from lib import remoting
from regress import Broker, quartiles
from timer import blast

TOPIC, GROUP, HALF = "TxnBench", "TxnBenchProducers", "RMQ_SYS_TRANS_HALF_TOPIC"


class Silent(threading.Thread):
    """A producer of the group: takes every question and answers none."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client, self.asked, self.stopping = remoting.Client(address, timeout=1), 0, False
        self.beat()
        self.start()

    def beat(self):
        body = json.dumps({"clientID": "silent", "producerDataSet": [{"groupName": GROUP}]}).encode()
        self.client.start(remoting.HEARTBEAT, {}, body)
        self.last = time.monotonic()

    def run(self):
        while not self.stopping:
            if time.monotonic() - self.last > 20:
                self.beat()
            try:
                self.asked += not self.client.read().flag & 1
            except TimeoutError:
                pass  # nothing to read for a second

    def stop(self):
        self.stopping = True
        self.join(10)
        self.client.close()


def fill(broker, count):
    with remoting.Client(broker, timeout=60) as c:
        t0 = time.monotonic()
        blast(c, lambda i: {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"half-{i}"}, count, topic=TOPIC, sys_flag=4, group=GROUP)
        stored = c.offset(remoting.MAX_OFFSET, HALF, 0)
        assert stored == count, (stored, count)
        print(f"pending: {count} halves, sent in {time.monotonic() - t0:.0f} s", flush=True)


def compared(withs, withouts, rounds, count, size):
    """The ratios with / without of the rate and of CPU time per message, by round."""
    rates, cpus = [], []
    for n in range(rounds):
        got = {}
        for which in ((withs, withouts) if n % 2 else (withouts, withs)):
            got[which] = bench_tenon(which, "send", "--size", size, "--count", count, "--warmup", 2000, "--connections", 1)
        rates.append(got[withs]["per_second"] / got[withouts]["per_second"])
        cpus.append(got[withs]["broker_cpu"] / max(got[withouts]["broker_cpu"], 0.01))
    return rates, cpus


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pending", type=int, default=100_000)
    p.add_argument("--rounds", type=int, default=31)
    p.add_argument("--count", type=int, default=60_000, help="messages of a slice")
    p.add_argument("--bar", type=float, default=0.03)
    p.add_argument("--quick", action="store_true")
    a = p.parse_args()
    if a.quick:
        a.pending, a.rounds, a.count = 2000, 2, 5000
    with tempfile.TemporaryDirectory(prefix="tenon-txn-bench-") as folder:
        withs, withouts = (Broker(os.path.join(folder, name), compare.BIN) for name in ("with", "without"))
        running = []
        try:
            for b in (withs, withouts):
                b.start()
                running.append(b)
            with remoting.Client(withs.namesrv) as c:
                address = c.route("TBW102")["brokerDatas"][0]["brokerAddrs"]["0"]
            fill(address, a.pending)
            rates, cpus = compared(withs, withouts, a.rounds, a.count, 1024)
            print(f"nobody is asked:      rate {quartiles(rates)}, CPU per message {quartiles(cpus)}", flush=True)
            with remoting.Client(address) as c:
                assert c.offset(remoting.MAX_OFFSET, HALF, 0) == a.pending, "halves were written although nobody can be asked"
            silent = Silent(address)
            try:
                asked_rates, asked_cpus = compared(withs, withouts, a.rounds, a.count, 1024)
                clusters.wait_for("a question about each", lambda: silent.asked >= a.pending, 180, 0.5)
            finally:
                silent.stop()
            print(f"all are asked about:  rate {quartiles(asked_rates)}, CPU per message {quartiles(asked_cpus)}; {silent.asked} questions", flush=True)
        finally:
            for b in running:
                b.kill()
    return 0 if a.quick or statistics.median(rates) >= 1 - a.bar else 1


if __name__ == "__main__":
    sys.exit(main())
