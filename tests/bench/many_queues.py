#!/usr/bin/env python3
"""A broker with very many queues: how long it takes to start (bar 2 s), what it takes when idle (bar 100 MB RssAnon).

    many_queues.py [--topics 6250] [--queues 8]

Topics are written into topics.json, every queue gets a message by raw frames, then the broker starts again after SIGTERM
and after SIGKILL. TMPDIR names the disk; the page cache is warm. See README.md.
"""
import argparse
import json
import os
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from lib import cluster, remoting  # noqa: E402


def write_topics(store, topics, queues):
    os.makedirs(os.path.join(store, "config"))
    one = lambda name: {"order": False, "perm": 6, "readQueueNums": queues, "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0, "writeQueueNums": queues}  # noqa: E731
    with open(os.path.join(store, "config", "topics.json"), "w") as f:
        json.dump({"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": {f"T{i}": one(f"T{i}") for i in range(topics)}}, f)


def fill(client, topics, queues, window=500):
    jobs = [(t, q) for q in range(queues) for t in range(topics)]
    for at in range(0, len(jobs), window):
        part = jobs[at:at + window]
        client.socket.sendall(b"".join(remoting.frame(remoting.SEND, remoting.Client.send_header(f"T{t}", q), b"x" * 64, n) for n, (t, q) in enumerate(part)))
        for _ in part:
            length, mark = struct.unpack(">iI", client._exactly(8))
            rest = client._exactly(length - 4)
            assert b'"code":0' in rest[:mark & 0xFFFFFF], rest[:200]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(server, what):
    t0 = time.monotonic()
    server.start()
    took = time.monotonic() - t0
    print(f"start {what}: {took * 1000:.0f} ms, {cpu_seconds(server.pid) * 1000:.0f} ms of CPU, RssAnon {cluster.memory_kb(server.pid) / 1024:.1f} MiB", flush=True)
    return took


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--topics", type=int, default=6250)
    p.add_argument("--queues", type=int, default=8, help="of each topic")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenon-many-queues-") as folder:
        server = cluster.Tenon(folder)
        write_topics(server.store, a.topics, a.queues)
        start(server, "with topics only")
        try:
            t0 = time.monotonic()
            with remoting.Client(server.broker, timeout=120) as c:
                fill(c, a.topics, a.queues)
            print(f"{a.topics * a.queues} queues: a message to each in {time.monotonic() - t0:.1f} s", flush=True)
            t0 = time.monotonic()
            process, server.process = server.process, None
            process.stop(600)
            print(f"stop: {time.monotonic() - t0:.1f} s", flush=True)
            start(server, "after SIGTERM")
            before = cpu_seconds(server.pid)
            time.sleep(10)
            anon = cluster.memory_kb(server.pid) / 1024
            print(f"idle: RssAnon {anon:.1f} MiB, {(cpu_seconds(server.pid) - before) * 100:.0f} ms of CPU a second", flush=True)
            server.kill()
            start(server, "after SIGKILL")
        finally:
            server.kill()
        return 0 if anon < 100 else 1


if __name__ == "__main__":
    sys.exit(main())
