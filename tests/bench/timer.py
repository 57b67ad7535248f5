#!/usr/bin/env python3
"""Exactness and memory of delayed messages against a running broker, over raw frames.

    timer.py levels   100 000 messages of delay level 18 pending, 3 000 of level 1 measured
    timer.py timers   1 000 000 messages for any time pending: RssAnon, errors of those that come due

Starts `tenon dev` on a temporary store. The error is the store time of the delivered message minus
its time, both the broker's clock. See README.md.
"""
import argparse
import os
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from lib import cluster, remoting  # noqa: E402

TOPIC, QUEUES = "TimerBench", 4


def now_ms():
    return int(time.time() * 1000)


def blast(client, properties_of, count, window=2000, topic=TOPIC, **header_fields):
    """Sends with a window of frames in flight; fails on the first refusal."""
    done = sent = 0
    while done < count:
        chunk = []
        while sent < count and sent - done < window:
            header = remoting.Client.send_header(topic, sent % QUEUES, properties_of(sent), **header_fields)
            header["g"] = now_ms()
            chunk.append(remoting.frame(remoting.SEND, header, b"0123456789abcdef", sent & 0x7FFFFFFF))
            sent += 1
        client.socket.sendall(b"".join(chunk))
        half = min(window // 2, count - done)
        for _ in range(half):
            length, mark = struct.unpack(">iI", client._exactly(8))
            rest = client._exactly(length - 4)
            assert b'"code":0' in rest[:mark & 0xFFFFFF], rest[:200]
        done += half


def delivered(client):
    return sum(client.offset(remoting.MAX_OFFSET, TOPIC, q) for q in range(QUEUES))


def wait_delivered(client, count, seconds):
    cluster.wait_for(f"{count} delivered", lambda: delivered(client) >= count, seconds, 0.2)


def report(name, errors):
    errors.sort()
    at = lambda p: errors[min(len(errors) - 1, int(len(errors) * p))]  # noqa: E731
    print(f"{name}: n={len(errors)} min={errors[0]} p50={at(.5)} p99={at(.99)} p99.9={at(.999)} max={errors[-1]} ms", flush=True)
    bounds = (-100, 0, 1, 2, 5, 10, 20, 50, 100, 1000)
    print("  " + "  ".join(f"<={b}:{sum(e <= b for e in errors)}" for b in bounds), flush=True)
    return at(.99), errors[0], errors[-1]


def records(client):
    return [r for q in range(QUEUES) for r in client.read_queue(TOPIC, q)]


def levels(a, server):
    with remoting.Client(server.broker, timeout=60) as c:
        blast(c, lambda i: {"DELAY": 18}, a.pending or 100_000)
        print(f"pending: {a.pending or 100_000} of level 18", flush=True)
        for i in range(a.count or 3000):
            c.send(TOPIC, b"x", i % QUEUES, {"DELAY": 1})
            time.sleep(0.002)
        wait_delivered(c, a.count or 3000, 30)
        stored = {}
        at = c.offset(remoting.MIN_OFFSET, "SCHEDULE_TOPIC_XXXX", 0)
        for r in c.read_queue("SCHEDULE_TOPIC_XXXX", 0, at):
            stored[r.offset] = r.stored
        found = sorted(records(c), key=lambda r: r.physical)  # a level keeps its order
        errors = [r.stored - stored[n] - 1000 for n, r in enumerate(found)]
        p99, first, _ = report("level 1, error", errors)
        return 0 if p99 <= 50 and first >= 0 else 1


def timers(a, server):
    total, due_count = a.pending or 1_000_000, a.count or 60_000
    with remoting.Client(server.broker, timeout=60) as c:
        blast(c, lambda i: {"UNIQ_KEY": f"w{i}", "TIMER_DELAY_SEC": 3000}, 1000)  # buffers and files are there
        before = cluster.memory_kb(server.pid)
        t0 = time.monotonic()
        base = now_ms() + 86_400_000
        blast(c, lambda i: {"UNIQ_KEY": f"k{i}", "TIMER_DELIVER_MS": base + i * 1000}, total)
        took = time.monotonic() - t0
        time.sleep(2)
        after = cluster.memory_kb(server.pid)
        print(f"pending: {total} over {total // 86400} days, sent in {took:.0f} s; RssAnon {before} -> {after} kB, {(after - before) * 1024 / total:.1f} B each", flush=True)
        base = now_ms() + 15_000
        blast(c, lambda i: {"UNIQ_KEY": f"d{i}", "TIMER_DELIVER_MS": base + i * 30_000 // due_count}, due_count)
        print(f"due: {due_count} within 30 s, {(base - now_ms()) / 1000:.1f} s ahead", flush=True)
        wait_delivered(c, due_count, 120)
        found = records(c)
        keys = [r.props["UNIQ_KEY"] for r in found]
        assert len(keys) == len(set(keys)) == due_count, (len(keys), len(set(keys)))
        _, first, last = report("timer, error", [r.stored - int(r.props["TIMER_DELIVER_MS"]) for r in found])
    for how in ("SIGTERM", "SIGKILL"):
        t0 = time.monotonic()
        server.stop() if how == "SIGTERM" else server.kill()
        server.start()
        with remoting.Client(server.broker, timeout=60) as c:
            c.send(TOPIC, b"x", 0, {"UNIQ_KEY": how, "TIMER_DELAY_MS": 1})
            wait_delivered(c, due_count + (1 if how == "SIGTERM" else 2), 120)
        print(f"{how} and start with {total} pending until the first delivery: {time.monotonic() - t0:.1f} s", flush=True)
    return 0 if first >= 0 and last <= 100 and (after - before) * 1024 <= 16 * total else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("levels", "timers"))
    p.add_argument("--pending", type=int)
    p.add_argument("--count", type=int, help="messages that are measured")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenon-timer-bench-") as folder:
        server = cluster.Tenon(folder).start()
        try:
            with remoting.Client(server.broker) as c:
                r = c.call(remoting.UPDATE_TOPIC, {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6,
                                                   "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
                assert r.code == 0, (r.code, r.remark)
            return levels(a, server) if a.what == "levels" else timers(a, server)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
