#!/usr/bin/env python3
"""Compares Tenon with the ceiling program and with the official Java broker, one after another.

Every figure is the best of --runs (3); prints Markdown for the README: rates, percentiles, CPU, memory,
start times, and the ratios with the bars they should reach. --quick: one short run, to see that it works.
"""
import argparse
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))
from lib import cluster as clusters  # noqa: E402

BIN, OUT = clusters.BIN, os.path.join(clusters.ROOT, "build", "interop")
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def run_json(argv, seconds=300):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def rate(d):
    return d["per_second"]


class Tenon(clusters.Tenon):
    title = "Tenon"


class Java(clusters.Java):
    title = "Java broker 4.9.7"
    pid = property(lambda self: int(open(os.path.join(self.folder, "broker.pid")).read()))

    def __init__(self, folder):
        super().__init__(folder)
        self.env["JAVA_OPTS"] = "-Xms512m -Xmx1g"

    def start(self):
        text = self._script("start", str(self.namesrv_port), str(self.broker_port), *self.settings)
        self.milliseconds = int(text.rsplit(" after ", 1)[1].split()[0])
        time.sleep(3)
        return self


@functools.lru_cache(maxsize=None)
def bench_java_class():
    jars, classes = os.path.join(OUT, "client-4.9.8"), os.path.join(OUT, "bench-classes")
    os.makedirs(OUT, exist_ok=True)
    if not os.path.exists(os.path.join(jars, ".complete")):
        subprocess.run(["mvn", "-q", "-B", "-f", os.path.join(HERE, "java", "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory=" + jars], check=True, stdout=subprocess.DEVNULL)
        open(os.path.join(jars, ".complete"), "w").close()
    subprocess.run(["javac", "-cp", jars + "/*", "-d", classes, os.path.join(HERE, "java", "Bench.java")], check=True)
    return ["java", "-Xms256m", "-Xmx1g", "-cp", f"{classes}:{jars}/*", "Bench"]


def bench_java(cluster, seconds, folder):
    """The Java client against a running cluster: case → figures, with the broker's CPU of that case."""
    out, before = {}, 0.0
    p = subprocess.Popen(bench_java_class() + [cluster.namesrv, str(seconds)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         env=dict(os.environ, HOME=folder), cwd=folder)
    for line in p.stdout:
        if not line.startswith("{"):
            continue
        d = json.loads(line)
        if "begin" in d:
            before = cpu(cluster.pid)
        else:
            d["broker_cpu"] = cpu(cluster.pid) - before
            out[d["case"]] = d
    if p.wait() != 0:
        sys.exit("Bench.java failed")
    return out


def bench_tenon(cluster, what, *options):
    """`tenon bench` with the field names of this program."""
    before = cpu(cluster.pid)
    d = run_json([os.path.join(BIN, "tenon"), "bench", what, "--namesrv", cluster.namesrv, "--json", *map(str, options)])
    out = {"count": d["messages"], "per_second": d["msg_per_s"], "mb_per_second": d["mb_per_s"], "client_cpu": d["client_cpu_s"], "broker_cpu": cpu(cluster.pid) - before}
    out.update({k: d[k] for k in ("p50_us", "p99_us", "p999_us", "max_us") if k in d})
    if d.get("errors"):
        sys.exit(f"tenon bench {what}: {d['errors']} failed, {d.get('error')}")
    return out


def better(old, new, of=rate):
    return new if old is None or of(new) > of(old) else old


def topic_of(case):
    return "Bench_{}_{}_{}".format(*case)


def start_times(folder, runs):
    """Milliseconds from exec to an open port, empty store: broker and name server programs alone."""
    best = {}
    for i in range(runs):
        ns_port, port = clusters.free_port(), clusters.free_port((0, -2, 1))
        where = os.path.join(folder, f"start{i}")
        os.makedirs(where)
        servers = [("name server", clusters.namesrv_argv(where, ns_port), ns_port), ("broker", clusters.broker_argv(where, port, f"127.0.0.1:{ns_port}"), port)]
        running = []
        for name, argv, port_of in servers:
            p = clusters.Process(argv, os.path.join(where, name.replace(" ", "-") + ".log"), lambda: clusters.listening(f"127.0.0.1:{port_of}"))
            running.append(p)
            best[name] = min(best.get(name, 1e9), p.start_seconds * 1000)
        for p in reversed(running):
            p.stop()
    return best


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def table(*head):
    print()
    row(*head)
    row(*("---" for _ in head))


def latency(d):
    return " / ".join(f"{d[k]:.0f}" for k in ("p50_us", "p99_us", "p999_us", "max_us") if k in d)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=3, help="the best of so many (3)")
    p.add_argument("--seconds", type=int, default=8, help="length of a case of the Java client (8)")
    p.add_argument("--count", type=int, default=1000000, help="messages of a case of our client (1000000)")
    p.add_argument("--quick", action="store_true", help="one run, two seconds, 50 000 messages: only to see that it works")
    p.add_argument("--no-java", action="store_true", help="leave out the Java broker and the Java client")
    p.add_argument("--json", metavar="FILE", help="also write the figures there")
    a = p.parse_args()
    if a.quick:
        a.runs, a.seconds, a.count = 1, 2, 50000
    folder = tempfile.mkdtemp(prefix="tenon-compare-")
    figures = {"ceiling": {}, "tenon": {}, "java-client": {}, "start_ms": {}, "rss_anon_kb": {}}
    cases = {"1 KiB, 4 connections × 32": (4, 32, 1024, a.count), "128 B, 4 connections × 64": (4, 64, 128, 2 * a.count), "128 B, 1 connection × 1": (1, 1, 128, max(a.count // 10, 1000)),
             "128 B, 1 connection × 64": (1, 64, 128, a.count)}
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    try:
        for name, (connections, window, size, count) in cases.items():
            say(f"ceiling, {name}")
            for i in range(a.runs):
                d = run_json([os.path.join(BIN, "ceiling"), folder, str(connections), str(window), str(size), str(count)])
                figures["ceiling"][name] = better(figures["ceiling"].get(name), d)
                if i == 0 and name.startswith("1 KiB"):
                    figures["ceiling"]["1 KiB, fresh file"] = d
        os.remove(os.path.join(folder, "ceiling.log"))
        figures["start_ms"]["Tenon"] = start_times(folder, a.runs)
        for i in range(a.runs):
            say(f"Tenon, run {i + 1}")
            cluster = Tenon(os.path.join(folder, f"tenon{i}")).start()
            try:
                time.sleep(1)
                idle = clusters.memory_kb(cluster.pid)
                for name, case in cases.items():
                    figures["tenon"][name] = better(figures["tenon"].get(name), bench_tenon(cluster, "send", "--topic", topic_of(case), "--connections", case[0], "--window", case[1], "--size", case[2], "--count", case[3]))
                figures["tenon"]["consume 1 KiB"] = better(figures["tenon"].get("consume 1 KiB"), bench_tenon(cluster, "consume", "--topic", topic_of(cases["1 KiB, 4 connections × 32"]), "--count", a.count))
                full = clusters.memory_kb(cluster.pid)
                figures["rss_anon_kb"]["Tenon"] = min(figures["rss_anon_kb"].get("Tenon", (1 << 40, 0)), (idle, full))
            finally:
                cluster.stop()
                clusters.remove(cluster.folder)
        for kind in () if a.no_java else (Java, Tenon):
            for i in range(a.runs):
                say(f"Java client on {kind.title}, run {i + 1}")
                cluster = kind(os.path.join(folder, f"{kind.kind}-java{i}")).start()
                try:
                    time.sleep(1)
                    idle = clusters.memory_kb(cluster.pid)
                    got = bench_java(cluster, a.seconds, folder)
                    best = figures["java-client"].setdefault(kind.title, {})
                    for name, d in got.items():
                        of = (lambda x: -x["p50_us"]) if name == "end-to-end" else rate
                        best[name] = better(best.get(name), d, of)
                    full = clusters.memory_kb(cluster.pid)
                    if kind is Java:
                        figures["rss_anon_kb"][kind.title] = min(figures["rss_anon_kb"].get(kind.title, (1 << 40, 0)), (idle, full))
                        figures["start_ms"][kind.title] = min(figures["start_ms"].get(kind.title, 1 << 40), cluster.milliseconds)
                finally:
                    cluster.stop()
                    clusters.remove(cluster.folder)
        report(a, figures, cases)
        if a.json:
            with open(a.json, "w") as f:
                json.dump(figures, f, indent=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(a, figures, cases):
    model = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    print(f"Conditions: {os.cpu_count()} × {model}, Linux {platform.release()}, {time.strftime('%Y-%m-%d')}; client and broker on the same machine over loopback; release build; asynchronous flush; "
          f"best of {a.runs}; broker after broker, nothing else running. Latencies in µs.")
    ceiling, ours, java = figures["ceiling"], figures["tenon"], figures["java-client"]
    table("our client, sends", "ceiling msg/s", "Tenon msg/s", "of the ceiling", "MB/s", "p50 / p99 / p99.9 / max", "CPU s client + broker")
    for name, (_, _, size, _) in cases.items():
        c, t = ceiling[name], ours[name]
        row(name, f"{rate(c):,.0f}", f"{rate(t):,.0f}", f"{100 * rate(t) / rate(c):.0f} %", f"{rate(t) * size / 1e6:.0f}", latency(t), f"{t['client_cpu']:.1f} + {t['broker_cpu']:.1f}")
    fresh = ceiling["1 KiB, fresh file"]
    print(f"\nThe ceiling appends into a file whose pages the system already has; into a fresh file it makes {rate(fresh):,.0f} msg/s of 1 KiB. A broker always writes fresh files.")
    t = ours["consume 1 KiB"]
    mb = t["mb_per_second"]
    print(f"\nOur push consumer, 1 KiB: {rate(t):,.0f} msg/s, {mb:.0f} MB/s.")
    bars = [("1 KiB, 4 × 32 of the ceiling", rate(ours["1 KiB, 4 connections × 32"]) / rate(ceiling["1 KiB, 4 connections × 32"]), 0.5, ">="),
            ("128 B, 4 × 64 of the ceiling", rate(ours["128 B, 4 connections × 64"]) / rate(ceiling["128 B, 4 connections × 64"]), 0.15, ">="),
            ("128 B, 1 × 1 of the ceiling", rate(ours["128 B, 1 connection × 1"]) / rate(ceiling["128 B, 1 connection × 1"]), 0.6, ">="),
            ("consumption MB/s", mb, 300, ">=")]
    if java:
        table("Java client 4.9.8", *(f"{k} msg/s" for k in java), *(f"{k} p50 / p99 / p99.9 / max" for k in java), *(f"broker CPU µs per message, {k}" for k in java), "CPU s client")
        j, t = java["Java broker 4.9.7"], java["Tenon"]
        for name in j:
            if name != "warm-up":
                row(name, *(f"{d[name]['per_second']:,.0f}" if "per_second" in d[name] else "" for d in java.values()), *(latency(d[name]) for d in java.values()),
                    *(f"{1e6 * d[name]['broker_cpu'] / max(1, d[name]['count']):.1f}" for d in java.values()), " / ".join(f"{d[name]['client_cpu']:.1f}" for d in java.values()))
        name = "128 B, 64 threads"
        per = [1e6 * d[name]["broker_cpu"] / d[name]["count"] for d in (t, j)]
        bars += [("Java client, 64 threads, Tenon : Java broker", t[name]["per_second"] / j[name]["per_second"], 1.5, ">="),
                 ("broker CPU per message, Tenon : Java broker", per[0] / per[1], 0.2, "<="),
                 ("our client 64 in flight : Java client on the Java broker", rate(ours["128 B, 1 connection × 64"]) / j[name]["per_second"], 5, ">=")]
        bars += [(f"{k} of the Java client, Tenon : Java broker", t[name][k] / max(1, j[name][k]), 1, "<=") for k in ("p50_us", "p99_us", "p999_us")]
    table("", *figures["rss_anon_kb"])
    row("RssAnon idle / after the runs, MB", *(f"{i / 1024:.0f} / {f / 1024:.0f}" for i, f in figures["rss_anon_kb"].values()))
    start = figures["start_ms"]
    row("start to serving, ms", *("broker {broker:.0f}, name server {name server:.0f}".format(**start[k]) if isinstance(start[k], dict) else f"{start[k]:.0f}" for k in figures["rss_anon_kb"]))
    bars += [("broker start, ms", start["Tenon"]["broker"], 100, "<="), ("name server start, ms", start["Tenon"]["name server"], 30, "<="),
             ("RssAnon idle, MB", figures["rss_anon_kb"]["Tenon"][0] / 1024, 20, "<="), ("RssAnon after the runs, MB", figures["rss_anon_kb"]["Tenon"][1] / 1024, 64, "<=")]
    table("bar", "measured", "wanted", "")
    for name, value, bar, sense in bars:
        row(name, f"{value:.2f}", f"{sense} {bar}", "met" if (value >= bar if sense == ">=" else value <= bar) else "**missed**")


if __name__ == "__main__":
    main()
