#!/usr/bin/env python3
"""Replays recorded requests of official clients against Tenon and compares each answer with the recorded one.

Every file of tests/data/wire/exchanges belongs to a session of tests/data/wire/sessions.toml: one name server and one
broker, started afresh, that see the files of the session in order. A recorded connection is a connection here. Requests go
out in the recorded order, each after the answers that came before it; requests of the broker to a client are waited for,
compared and answered as recorded. What may differ is in tests/data/wire/differences.toml, each entry with its reason; an
entry that matches nothing is an error, as is a difference without entry.
"""
import argparse
import bisect
import concurrent.futures
import fnmatch
import json
import os
import re
import select
import shutil
import socket
import struct
import sys
import tempfile
import time
import tomllib

from exchange import BROKER, FAST, NAMESRV, Frame, document, load, messages, remoting
from compare import ID, TIME, Comparison, Names
from lib import cluster

DATA = os.path.join(cluster.ROOT, "tests", "data", "wire")
PULLS = (11, 361)
NOT_LATEST = 25  # the answer to a pull with a newer subscription than the broker knows
LONGEST_PAUSE = 0.05  # s; recorded pauses are shortened to this: what must have happened before is waited for anyway
SHOWN = 400


def java_hash(text):
    """String.hashCode() of text without surrogates."""
    h = 0
    for c in text:
        h = (h * 31 + ord(c)) & 0xFFFFFFFF
    return h - (1 << 32) if h >> 31 else h


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.answers, self.requests, self.opaques, self.closed = b"", {}, [], {}, False

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            self.closed = True

    def _pump(self, timeout):
        if self.closed or not select.select([self.socket], [], [], timeout)[0]:
            return False
        try:
            more = self.socket.recv(1 << 20)
        except OSError:
            more = b""
        self.closed = not more
        self.buffer += more
        while len(self.buffer) >= 4:
            size = 4 + struct.unpack_from(">i", self.buffer)[0]
            if len(self.buffer) < size:
                break
            frame, self.buffer = Frame(self.buffer[:size]), self.buffer[size:]
            if frame.response:
                self.answers[frame.opaque] = frame
            else:
                self.requests.append(frame)
        return True

    def until(self, condition, seconds):
        """condition() once it is true, None when the time is over."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            left = end - time.monotonic()
            if value is not None or left <= 0 or self.closed:
                return value
            self._pump(min(left, 0.5))

    def answer(self, opaque, seconds):
        return self.until(lambda: self.answers.pop(opaque, None), seconds)

    def peek(self, opaque, seconds):
        self.until(lambda: self.answers.get(opaque), seconds)

    def request(self, code, seconds):
        """The oldest request of the broker with this code."""
        def find():
            for i, r in enumerate(self.requests):
                if r.code == code:
                    return self.requests.pop(i)
            return None
        return self.until(find, seconds)

    def rest(self):
        while self._pump(0):
            pass
        return list(self.answers.values()) + self.requests

    def close(self):
        self.socket.close()


class Allowed:
    """An entry of differences.toml."""

    def __init__(self, entry):
        unknown = set(entry) - {"session", "file", "step", "request", "path", "recorded", "ours", "reason", "sometimes"}
        if unknown or not entry.get("reason") or not entry.get("path"):
            sys.exit(f"differences.toml: an entry needs path and reason and nothing unknown: {entry}")
        self.entry, self.used = entry, 0

    def covers(self, d):
        e = self.entry
        codes = e.get("request")
        return (fnmatch.fnmatchcase(d.file, e.get("file", "*")) and d.step.find(e.get("step", "")) >= 0 and
                (codes is None or d.request in (codes if isinstance(codes, list) else [codes])) and
                any(fnmatch.fnmatchcase(d.path, p) for p in ([e["path"]] if isinstance(e["path"], str) else e["path"])) and
                re.search(e.get("recorded", ""), str(d.recorded), re.S) is not None and re.search(e.get("ours", ""), str(d.ours), re.S) is not None)


class Difference:
    def __init__(self, line, request, path, recorded, ours):
        self.file, self.number, self.step = line.file, line.number, line.step or ""
        self.request, self.path, self.recorded, self.ours = request, path, recorded, ours

    def __str__(self):
        def short(v):
            return str(v) if len(str(v)) <= SHOWN else str(v)[:SHOWN] + "…"
        return f"{self.file}:{self.number} request {self.request} [{self.step}] {self.path}: recorded {short(self.recorded)!r}, ours {short(self.ours)!r}"


class Session:
    """One broker and name server and the recordings that they are asked to repeat."""

    def __init__(self, description, root):
        self.name, self.folder = description["name"], os.path.join(root, description["name"])
        os.makedirs(self.folder)
        self.hidden = {n: "X" + n[1:] for n in description.get("hidden", [])}  # names of properties that our broker must not know
        self.topics, self.settings = description.get("topics", {}), description.get("settings", {})
        self.refused = re.compile(description["refused"]) if "refused" in description else None  # remarks of refusals that ours does not know
        self.lines = [l for f in description["files"] for l in load(os.path.join(DATA, "exchanges"), f)]
        self.namesrv_only = description.get("namesrv_only", False)
        self.longest_pause = description.get("longest_pause_s", LONGEST_PAUSE)
        self.patience = description.get("patience_s", 5)
        self.differences, self.compared, self.connections, self.servers = [], 0, {}, []
        self.starts, self.timeline = {}, []
        self.live, self.filled, self.progress = description.get("live", []), description.get("filled", {}), description.get("progress", {})
        self.answered = self._answered()
        self.told = {}  # group → topic → subscription, as clients told them
        self.subscribed = {}  # (group, topic) → version that the broker knows

    # --- servers
    def _start(self):
        ns = cluster.free_port()
        self.servers.append(cluster.Program(cluster.namesrv_argv(self.folder, ns), self.folder, f"127.0.0.1:{ns}"))
        ports = {NAMESRV: ns, BROKER: BROKER, FAST: FAST}
        if not self.namesrv_only:
            ports[BROKER] = cluster.free_port((0, -2, 1))
            ports[FAST] = ports[BROKER] - 2
            self.servers.append(self._broker(ns, ports[BROKER]))
        self.names = Names(ports)
        if not self.namesrv_only:
            self._registered(f"127.0.0.1:{ns}", f"127.0.0.1:{ports[BROKER]}")

    def _broker(self, ns, port):
        tables = {"broker": {"cluster": "DefaultCluster", "name": "broker-a", "listen_host": "127.0.0.1", "broker_ip1": "127.0.0.1", "port": port,
                             "namesrv": [f"127.0.0.1:{ns}"], "store_root": self.folder + "/store"}}
        with open(os.path.join(DATA, "sessions.toml"), "rb") as f:
            common = tomllib.load(f)["broker_settings"]
        for source in (common, self.settings):
            for table, keys in source.items():
                tables.setdefault(table, {}).update(keys)
        path = os.path.join(self.folder, "broker.toml")
        with open(path, "w") as f:
            for table, keys in tables.items():
                if isinstance(keys, dict):
                    f.write(f"[{table}]\n" + "".join(f"{k} = {self._toml(v)}\n" for k, v in keys.items() if not isinstance(v, dict)))
                for k, v in keys.items():
                    if isinstance(v, dict):
                        f.write(f"[{table}.{k}]\n" + "".join(f"{n} = {self._toml(x)}\n" for n, x in v.items()))
            f.write("".join(f'[[filter]]\nplugin = "{p}"\n' for p in self.filters()))
        return cluster.Program([os.path.join(cluster.BIN, "tenon-broker"), "--config", path], self.folder, f"127.0.0.1:{port}")

    @staticmethod
    def filters():
        return ["tenon.filter.tag"] + [f"tenon.filter.{n}" for n in ("sql92",) if os.path.exists(os.path.join(os.path.dirname(cluster.BIN), "plugins", f"tenon.filter.{n}.tenon.so"))]

    @staticmethod
    def _toml(v):
        return str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int) else "[" + ", ".join(f'"{x}"' for x in v) + "]" if isinstance(v, list) else f'"{v}"'

    def _registered(self, namesrv, broker):
        with remoting.Client(namesrv) as ns, remoting.Client(broker) as b:
            cluster.wait_for("registration", lambda: ns.route("TBW102"))
            for topic, queues in self.topics.items():
                a = b.call(remoting.UPDATE_TOPIC, {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                                   "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})
                assert a.code == 0, (topic, a.code, a.remark)
                cluster.wait_for("route of " + topic, lambda t=topic: ns.route(t))

    # --- what was there before the recording began
    def _seed(self):
        """Messages that the recorded answers show and that are older than the first recorded send."""
        sends = [l for l in self.lines if l.response and not l.to_server and l.ext.get("msgId")]
        first = min((int(i, 16) for l in sends for _, i in ID.findall(l.ext["msgId"])), default=1 << 62)
        found = {r.physical: r for l in self.lines if l.response and not l.to_server for r in messages(l.body) or [] if r.physical < first}
        with remoting.Client(f"127.0.0.1:{self.names.ports[BROKER]}") as c:
            for at, r in sorted(found.items()):
                h = c.send_header(r.topic, r.queue, sys_flag=r.sys_flag, flag=r.flag)
                h.update(a="wire_producer", g=r.born, i="\x02".join(p for p in r.property_text.split("\x02") if not p.startswith("CLUSTER\x01")), j=r.reconsume)
                a = c.call(remoting.SEND, h, r.stored_body)
                assert a.code == 0 and int(a.ext["queueOffset"]) == r.offset, (self.name, at, a.code, a.remark, a.ext, r.offset)
                self.names.physical[at] = int(a.ext["msgId"][16:], 16)
            for topic, lengths in self.filled.items():  # messages that no answer shows
                for q, length in enumerate(lengths):
                    while c.offset(remoting.MAX_OFFSET, topic, q) < length:
                        assert c.send(topic, b"filler", q, {"TAGS": "TagA"}).code == 0

    def _arrive(self):
        """Clients whose connections are older than the recording say who they are."""
        for who in self.live:
            line = next(l for l in self.lines if who["port"] in l.connection)
            self._heartbeat(line.connection, who["client"], who.get("consumer"), who.get("producers", []))
        for group, topics in self.progress.items():
            self._heartbeat((0, BROKER), "127.0.0.1@wire-consumer", group)
            with remoting.Client(f"127.0.0.1:{self.names.ports[BROKER]}") as c:
                for topic, offsets in topics.items():
                    for q, offset in enumerate(offsets):
                        assert c.call(15, {"consumerGroup": group, "topic": topic, "queueId": q, "commitOffset": offset}).code == 0

    def _heartbeat(self, connection, client, group, producers=(), now=None):
        """A heartbeat that the recording leaves out: the subscriptions that are known and those that the group pulls from now on,
        unless the next pull was answered that the broker does not know its subscription."""
        topics, seen = dict(self.told.get(group, {})), set()
        for i in range(0 if now is None else self.lines.index(now), len(self.lines)):
            l = self.lines[i]
            if l.code in PULLS and l.to_server and not l.response and l.ext.get("consumerGroup") == group and l.ext["topic"] not in seen:
                seen.add(l.ext["topic"])
                if i in self.answered and self.answered[i].code == NOT_LATEST:
                    continue
                topics[l.ext["topic"]] = {"topic": l.ext["topic"], "subString": l.ext.get("subscription") or "*", "subVersion": int(l.ext.get("subVersion", 0)), "tagsSet": [], "codeSet": [],
                                          "classFilterMode": False, "expressionType": l.ext.get("expressionType", "TAG")}
        self.told[group] = topics
        for t in topics.values():
            t["tagsSet"] = [] if t["subString"] == "*" or t["expressionType"] != "TAG" else [x.strip() for x in t["subString"].split("||")]
            t["codeSet"] = [java_hash(x) for x in t["tagsSet"]]
            self.subscribed[group, t["topic"]] = t["subVersion"]
        consumers = [{"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
                      "subscriptionDataSet": list(topics.values())}] if group else []
        body = json.dumps({"clientID": client, "consumerDataSet": consumers, "producerDataSet": [{"groupName": g} for g in producers]}).encode()
        c = self._connect(connection)
        c.send(remoting.frame(remoting.HEARTBEAT, {}, body, 1 << 30, version=407))
        a = c.answer(1 << 30, 5)
        assert a is not None and a.code == 0, (self.name, "heartbeat", a)

    def _remember(self, line):
        """Which subscriptions the broker knows after this request."""
        if line.code == remoting.HEARTBEAT:
            for consumer in (document(line.body) or {}).get("consumerDataSet", []):
                for s in consumer.get("subscriptionDataSet", []):
                    self.subscribed[consumer["groupName"], s["topic"]] = s.get("subVersion", 0)
                    self.told.setdefault(consumer["groupName"], {})[s["topic"]] = s
        elif line.code == 35 and line.ext.get("consumerGroup"):
            self.subscribed = {k: v for k, v in self.subscribed.items() if k[0] != line.ext["consumerGroup"]}

    def _lacks_heartbeat(self, line, answer):
        """A pull that was served although no recorded heartbeat tells of its subscription."""
        return (line.code in PULLS and not int(line.ext.get("sysFlag", "0")) & 4 and not (answer and answer.code not in (0, 19, 20, 21)) and
                self.subscribed.get((line.ext["consumerGroup"], line.ext["topic"]), -1) < int(line.ext.get("subVersion", 0)))

    def _client_id(self, line):
        for l in self.lines:
            if l.connection == line.connection and not l.response and l.code == 35 and l.ext.get("consumerGroup") == line.ext["consumerGroup"]:
                return l.ext["clientID"]
        return next((w["client"] for w in self.live if w["port"] in line.connection), "127.0.0.1@replayed")

    # --- the clock of the recording
    def _clocks(self):
        """Wall clock of the first frame of each file, from the times that clients wrote into their sends."""
        for line in self.lines:
            born = line.ext.get("g") or line.ext.get("bornTimestamp")
            if line.to_server and not line.response and born and TIME.fullmatch(born):
                self.starts[line.file] = max(self.starts.get(line.file, 0), int(born) - int(line.t * 1000) - 1)

    def _moment(self, line, text):
        """A recorded moment in our time: as far from the frames around it as it was then."""
        if line.file not in self.starts or not TIME.fullmatch(text):
            return text
        recorded = int(text)
        i = bisect.bisect_right(self.timeline, (recorded, 1 << 62))
        if i == 0:
            return str(self.timeline[0][1] - (self.timeline[0][0] - recorded))
        then, now = self.timeline[i - 1]
        return str(min(now + recorded - then, self.timeline[i][1]) if i < len(self.timeline) else now + recorded - then)

    # --- frames to our servers
    def _translated(self, line):
        """The recorded frame with our ports, ids and offsets in it, otherwise byte for byte."""
        body = line.body
        text = body.decode(errors="surrogateescape")
        if not line.response or text[:1] in "{[":
            body = self.names.translate(text).encode(errors="surrogateescape")
        replaced = {}
        if line.ext.get("recallHandle") in self.names.handles:
            replaced["recallHandle"] = self.names.handles[line.ext["recallHandle"]]
        if line.code in (33, 36, 37) and not line.response:
            for field in ("offset", "commitLogOffset"):
                if field in line.ext:
                    replaced[field] = str(self.names.physical.get(int(line.ext[field]), int(line.ext[field])))
            if "tranStateTableOffset" in line.ext:
                at = int(line.ext["tranStateTableOffset"])
                replaced["tranStateTableOffset"] = str(self.names.half.get(at, at))
        for field in ("timestamp", "beginTimestamp", "endTimestamp"):
            if field in line.ext and not line.response:
                replaced[field] = self._moment(line, line.ext[field])
        opaque = self.connections[line.connection].opaques.get(line.opaque, line.opaque) if line.response else line.opaque
        if line.kind == 1:
            ext = {k: replaced.get(k, self._due(line, self.names.translate(v))) for k, v in line.ext.items()}
            return remoting.frame(line.code, ext, body, opaque, line.flag, line.version, True, line.remark)
        header = self._due(line, self.names.translate(line.header.decode()))
        for field, value in replaced.items():
            header, n = re.subn(rf'("{field}"\s*:\s*"?)[\w=+/-]+', lambda m, v=value: m.group(1) + v, header, count=1)
            assert n == 1, (line.file, line.number, field)
        header = re.sub(r'("opaque"\s*:\s*)-?\d+', lambda m: m.group(1) + str(opaque), header).encode()
        return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body

    def _hide(self, data, back=False):
        for name, other in self.hidden.items():
            a, b = (other, name) if back else (name, other)
            data = data.replace(a.encode(), b.encode())
        return data

    def _due(self, line, text):
        """Times of delivery as far ahead as they were."""
        return re.sub(r"(TIMER_DELIVER_MS(?:\x01|\\u0001))(\d+)", lambda m: m.group(1) + self._moment(line, m.group(2)), text)

    def _connect(self, connection):
        if connection not in self.connections:
            self.connections[connection] = Connection(self.names.ports[connection[1]])
        return self.connections[connection]

    # --- the replay
    def run(self):
        t0 = time.monotonic()
        self._clocks()
        try:
            self._start()
            if not self.namesrv_only:
                self._seed()
            self._arrive()
            self._replay()
        finally:
            for c in self.connections.values():
                c.close()
            for server in reversed(self.servers):
                server.stop()
        self.seconds = time.monotonic() - t0
        return self

    def _replay(self):
        last = {l.connection: i for i, l in enumerate(self.lines)}
        asked = {}  # (connection, opaque) → recorded request
        answered = self.answered
        before = None
        for i, line in enumerate(self.lines):
            if before is not None and line.file == before.file:
                time.sleep(max(0, min(line.t - before.t, self.longest_pause)))
            before = line
            if line.file in self.starts:
                self.timeline.append((self.starts[line.file] + int(line.t * 1000), int(time.time() * 1000)))
            c = self._connect(line.connection)
            if self._refusal(answered.get(i)):
                # Ours would do it, and then all that follows would differ.
                self.differences.append(Difference(line, line.code, "refusal", answered[i].remark, "not asked"))
            elif line.to_server:
                if not line.response:
                    if self._lacks_heartbeat(line, answered.get(i)):
                        self._heartbeat(line.connection, self._client_id(line), line.ext["consumerGroup"], now=line)
                    self._remember(line)
                c.send(self._hide(self._translated(line)))
                if not line.response:
                    asked[line.connection, line.opaque] = line
                    if not line.oneway and i in answered and not (line.code in PULLS and int(line.ext.get("sysFlag", "0")) & 2):
                        c.peek(line.opaque, 0.05)
            elif line.response:
                self._check_answer(c, line, asked.pop((line.connection, line.opaque), None))
            else:
                self._check_request(c, line)
            if last[line.connection] == i and not any(w["port"] in line.connection for w in self.live):
                self._finish(c, line, asked)

    def _refusal(self, answer):
        return self.refused is not None and answer is not None and self.refused.search(answer.remark or "") is not None

    def _answered(self):
        """Index of a request to a server → its recorded answer."""
        out, waiting = {}, {}
        for i, l in enumerate(self.lines):
            if l.to_server and not l.response:
                waiting[l.connection, l.opaque] = i
            elif l.response and not l.to_server and (l.connection, l.opaque) in waiting:
                out[waiting.pop((l.connection, l.opaque))] = l
        return out

    def _check_answer(self, c, line, request):
        if request is None:
            return  # the request was sent before the recording began
        waited = line.t - request.t if line.file == request.file else 0
        ours = c.answer(line.opaque, self.patience + max(0, waited))
        self._judge(line, request.code, ours, "closed" if c.closed else "none")

    def _check_request(self, c, line):
        ours = c.request(line.code, self.patience + 5)
        if ours is not None:
            c.opaques[line.opaque] = ours.opaque
        self._judge(line, line.code, ours, "no request")

    def _judge(self, line, code, ours, nothing):
        self.compared += 1
        if ours is not None and self.hidden:
            ours = Frame(self._hide(ours.raw, back=True))
        if ours is None:
            self.differences.append(Difference(line, code, "answer", f"code {line.code} {line.remark or ''}", nothing))
        else:
            self.differences += [Difference(line, code, *d) for d in Comparison(self.names).frames(line, ours)]

    def _finish(self, c, line, asked):
        for frame in c.rest():
            request = asked.get((line.connection, frame.opaque)) if frame.response else None
            self.differences.append(Difference(line, request.code if request else frame.code, "extra", "none", f"{'answer' if frame.response else 'request'} {frame.code} {frame.remark or ''}"))
        c.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sessions", nargs="*", help="only these (then unused entries are no error)")
    p.add_argument("--bin", help="folder of the programs (default build/release/bin)")
    p.add_argument("--keep", action="store_true", help="keep stores and logs")
    p.add_argument("--all", action="store_true", help="also print the differences that are allowed")
    a = p.parse_args()
    if a.bin:
        cluster.BIN = os.path.abspath(a.bin)
    with open(os.path.join(DATA, "differences.toml"), "rb") as f:
        allowed = [Allowed(e) for e in tomllib.load(f).get("difference", [])]
    with open(os.path.join(DATA, "sessions.toml"), "rb") as f:
        described = tomllib.load(f)["session"]
    listed = [f + ".jsonl" for s in described for f in s["files"]]
    there = sorted(os.listdir(os.path.join(DATA, "exchanges")))
    if sorted(listed) != there:
        sys.exit(f"sessions.toml and exchanges/ differ: {sorted(set(listed) ^ set(there))}")
    chosen = [s for s in described if not a.sessions or s["name"] in a.sessions]
    root = tempfile.mkdtemp(prefix="tenon-wire-")
    bad = compared = excused = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
            for s in pool.map(lambda d: Session(d, root).run(), chosen):
                compared += s.compared
                wrong = []
                for d in s.differences:
                    entry = next((e for e in allowed if e.covers(d)), None)
                    if entry:
                        entry.used += 1
                        excused += 1
                        if a.all:
                            print(f"  allowed: {d}")
                    else:
                        wrong.append(d)
                print(f"{'FAIL' if wrong or not s.compared else 'PASS'} {s.name}: {s.compared} frames compared, {len(s.differences)} differences, {len(wrong)} not allowed, {s.seconds:.1f} s")
                for d in wrong:
                    print(f"  {d}")
                bad += len(wrong) + (not s.compared)
    finally:
        if a.keep:
            print("kept in " + root)
        else:
            shutil.rmtree(root, ignore_errors=True)
    if not a.sessions:
        for e in allowed:
            if not e.used and not e.entry.get("sometimes"):
                print(f"FAIL unused entry of differences.toml: {e.entry}")
                bad += 1
    print(f"{compared} frames compared, {excused} allowed differences, {bad} errors")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
