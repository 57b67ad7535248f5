#!/usr/bin/env python3
"""Compares our client with the official Java client 4.9.8, both against the same broker: messages per CPU second of the client
process, rates, the latency of blocking sends beside the plain socket round trip, allocations and memory of our consumer.

The two clients take turns; every figure is the median of --runs (3). Prints Markdown and the bars. --quick: one short run, to see
that it works.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare import BIN, Java, Tenon, bench_java_class, clusters, cpu, row, run_json, table

LOAD, BENCH = os.path.join(BIN, "sdk_load"), os.path.join(BIN, "sdk_bench")
WITH_BROKER = os.path.join(os.path.dirname(BIN), "tests", "with_broker")
SENDS, FULL = "SdkBenchSends", "SdkBenchFull"
NAMES = {"sync": "128 B, 1 thread, blocking", "async": "128 B, 64 in flight", "consume 1": "consume 1 KiB, 1 per call", "consume 32": "consume 1 KiB, 32 per call"}


def key(d):
    return f"consume {d['batch']}" if d["case"] == "consume" else d["case"]


def ours(cluster, a):
    """Case → figures of our client, each a process of its own."""
    out = {}
    for arguments in (["async", SENDS, a.seconds, 128, 64], ["sync", SENDS, a.seconds, 128], ["consume", FULL, a.count, 1], ["consume", FULL, a.count, 32]):
        before = cpu(cluster.pid)
        d = run_json([LOAD, arguments[0], cluster.namesrv, *map(str, arguments[1:])])
        d["broker_cpu"] = cpu(cluster.pid) - before
        out[key(d)] = d
    return out


def java(cluster, a, folder):
    argv = bench_java_class() + [cluster.namesrv, str(a.seconds), "sdk", SENDS, FULL, str(a.count)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900, env=dict(os.environ, HOME=folder), cwd=folder)
    if done.returncode != 0:
        sys.exit(f"Bench.java: {(done.stdout + done.stderr)[-2000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {key(d): d for d in lines if d["case"] != "warm-up"}


def medians(runs):
    """Of a list of case → figures: each figure's median."""
    return {case: {k: statistics.median(r[case][k] for r in runs) for k, v in runs[0][case].items() if not isinstance(v, str)} for case in runs[0]}


def measure(kind, a, folder):
    print(f"{kind.title}", file=sys.stderr, flush=True)
    cluster = kind(os.path.join(folder, kind.kind)).start()
    try:
        run_json([LOAD, "fill", cluster.namesrv, SENDS, "0", "1"])
        run_json([LOAD, "fill", cluster.namesrv, FULL, str(a.count), "1024"])
        runs = []
        for i in range(a.runs):
            print(f"  run {i + 1}", file=sys.stderr, flush=True)
            runs.append((ours(cluster, a), java(cluster, a, folder)))
        return medians([r[0] for r in runs]), medians([r[1] for r in runs])
    finally:
        cluster.stop()
        clusters.remove(cluster.folder)


def own_consumer(a):
    """Figures of sdk_bench on a broker in memory, and the allocations per further message of a pull."""
    def bench(*arguments):
        return subprocess.run([WITH_BROKER, "--limit", "300", BENCH, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout

    few, many = (bench("consume", min(a.count, 200_000), 1024, 32, pull) for pull in (8, 32))
    per_pull = [n * float(re.search(r"([\d.]+) allocations", text)[1]) for n, text in ((8, few), (32, many))]
    text = f"{many}A pull allocates {per_pull[0]:.2f} times for 8 messages, {per_pull[1]:.2f} times for 32.\n{bench('memory', 1000)}"
    return text, (per_pull[1] - per_pull[0]) / 24


def per_cpu(d):
    return d["count"] / d["client_cpu"]


def report(a, results, text, allocations):
    print(f"Median of {a.runs}; client and broker on one machine of {os.cpu_count()} cores over loopback; asynchronous flush; the clients take turns; defaults of both clients, one connection.")
    bars = []
    for title, (us, them) in results.items():
        table(title, "Tenon msg/s", "Java msg/s", "Tenon msg per CPU s of the client", "Java", "ratio")
        for case, name in NAMES.items():
            ratio = per_cpu(us[case]) / per_cpu(them[case])
            row(name, f"{us[case]['per_second']:,.0f}", f"{them[case]['per_second']:,.0f}", f"{per_cpu(us[case]):,.0f}", f"{per_cpu(them[case]):,.0f}", f"{ratio:.1f}")
            bars.append((f"{title}: {name}, messages per CPU second : Java", ratio, 4, ">="))
        s, j = us["sync"], them["sync"]
        print(f"\nBlocking send p50 / p99: {s['p50_us']:.0f} / {s['p99_us']:.0f} µs, Java {j['p50_us']:.0f} / {j['p99_us']:.0f} µs; socket round trip {s['round_trip_p50_us']:.0f} / {s['round_trip_p99_us']:.0f} µs.")
        print(f"Consuming: {us['consume 1']['mb_per_second']:.0f} and {us['consume 32']['mb_per_second']:.0f} MB/s, Java {them['consume 1']['mb_per_second']:.0f} and {them['consume 32']['mb_per_second']:.0f} MB/s.")
        if title == Tenon.title:
            bars += [("blocking send p50 - round trip p50, µs", s["p50_us"] - s["round_trip_p50_us"], 30, "<="), ("128 B, 64 in flight, msg/s", us["async"]["per_second"], 150_000, ">="),
                     ("consume 1 KiB, 32 per call, MB/s", us["consume 32"]["mb_per_second"], 400, ">=")]
    print("\n" + text.strip())
    bars.append(("allocations per further message of a pull", allocations, 0.01, "<="))
    table("bar", "measured", "wanted", "")
    for name, value, bar, sense in bars:
        row(name, f"{value:,.2f}", f"{sense} {bar}", "met" if (value >= bar if sense == ">=" else value <= bar) else "**missed**")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=3, help="the median of so many (3)")
    p.add_argument("--seconds", type=int, default=5, help="length of a case that sends (5)")
    p.add_argument("--count", type=int, default=500_000, help="messages of a case that consumes (500000)")
    p.add_argument("--brokers", default="tenon,java", help="against which, tenon,java")
    p.add_argument("--quick", action="store_true", help="one run, two seconds, 50 000 messages: only to see that it works")
    a = p.parse_args()
    if a.quick:
        a.runs, a.seconds, a.count = 1, 2, 50_000
    folder = tempfile.mkdtemp(prefix="tenon-sdk-compare-")
    try:
        results = {kind.title: measure(kind, a, folder) for kind in (Tenon, Java) if kind.kind in a.brokers.split(",")}
        report(a, results, *own_consumer(a))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
