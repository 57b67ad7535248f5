#!/usr/bin/env python3
"""Two builds against each other in one run (see regress.sh).

Both brokers are up all the time; short slices of the same work go to one and the other in turn, the order changing from
round to round, so that whatever else the machine does meets both. Printed is, for each case, the median over the rounds of
present / base for the rate and for the broker's CPU time per message, with the middle half of the rounds. A rate is worse
if its median is below 1 - --bar; on a busy machine the CPU ratio is the one to trust.
"""
import argparse
import os
import statistics
import sys
import tempfile

import compare
from compare import bench_tenon, clusters
from lib import remoting


class Broker:
    """Name server and broker of a build."""

    def __init__(self, folder, binaries):
        os.makedirs(folder)
        self.folder, self.binaries = folder, binaries
        self.namesrv_port, self.broker_port = clusters.free_port(), clusters.free_port((0, -2, 1))
        self.namesrv = f"127.0.0.1:{self.namesrv_port}"

    def start(self):
        argvs = (clusters.namesrv_argv(self.folder, self.namesrv_port), clusters.broker_argv(self.folder, self.broker_port, self.namesrv))
        self.processes = []
        for argv, port in zip(argvs, (self.namesrv_port, self.broker_port)):
            program = os.path.join(self.binaries, os.path.basename(argv[0]))
            self.processes.append(clusters.Process([program] + argv[1:], os.path.join(self.folder, os.path.basename(program) + ".log"), lambda p=port: clusters.listening(f"127.0.0.1:{p}")))
        with remoting.Client(self.namesrv) as c:
            clusters.wait_for("registration", lambda: c.route("TBW102"))

    def kill(self):
        for p in self.processes:
            p.kill()

    @property
    def pid(self):
        return self.processes[1].pid


def quartiles(values):
    q = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{statistics.median(values):.3f} ({q[0]:.3f} to {q[2]:.3f})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--base", required=True, help="folder of the programs of the earlier build")
    p.add_argument("--present", required=True, help="folder of the programs of this build")
    p.add_argument("--client", help="folder of the program `tenon` that makes the load (default: of the present build)")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--count", type=int, default=60000, help="messages of a slice")
    p.add_argument("--bar", type=float, default=0.03)
    a = p.parse_args()
    sends = {"send 1 KiB, 4 connections × 32": (4, 32, 1024, a.count), "send 128 B, 4 connections × 64": (4, 64, 128, 2 * a.count),
             "send 128 B, 1 connection × 1": (1, 1, 128, max(a.count // 10, 1000))}
    compare.BIN = a.client or a.present
    clusters.KEEP_ALL = ""  # an earlier build may not know the table, and a run is too short for it
    folder = tempfile.mkdtemp(prefix="tenon-regress-")
    names = ("base", "present")
    brokers = {n: Broker(os.path.join(folder, n), getattr(a, n)) for n in names}
    figures = {c: {n: [] for n in names} for c in [*sends, "consume 1 KiB"]}
    topic = "Regress_1024"
    try:
        for b in brokers.values():
            b.start()
            bench_tenon(b, "send", "--topic", topic, "--connections", 4, "--window", 32, "--size", 1024, "--count", 2 * a.count)  # warm, and what is consumed
        for i in range(a.rounds):
            for case in figures:
                for n in names if i % 2 == 0 else names[::-1]:
                    if case in sends:
                        c = sends[case]
                        d = bench_tenon(brokers[n], "send", "--topic", f"Regress_{c[0]}_{c[1]}_{c[2]}", "--connections", c[0], "--window", c[1], "--size", c[2], "--count", c[3], "--warmup", c[3] // 10)
                    else:
                        d = bench_tenon(brokers[n], "consume", "--topic", topic, "--count", 2 * a.count)
                    figures[case][n].append((d["per_second"], d["broker_cpu"] / d["count"]))
            print(f"round {i + 1} of {a.rounds}", file=sys.stderr, flush=True)
    finally:
        for b in brokers.values():
            b.kill()
        clusters.remove(folder)
    worse = []
    print("| case | base | present | rate present / base (middle half) | CPU per message present / base (middle half) |\n|---|---|---|---|---|")
    for case, by in figures.items():
        rates = [new[0] / old[0] for old, new in zip(by["base"], by["present"])]
        cpus = [new[1] / old[1] for old, new in zip(by["base"], by["present"]) if old[1] > 0]
        print(f"| {case} | {statistics.median(r for r, _ in by['base']):,.0f}/s | {statistics.median(r for r, _ in by['present']):,.0f}/s | {quartiles(rates)} | {quartiles(cpus) if cpus else '-'} |")
        if statistics.median(rates) < 1 - a.bar:
            worse.append(case)
    print(f"worse by more than {a.bar:.0%}: {', '.join(worse)}" if worse else f"no case is worse by more than {a.bar:.0%}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
