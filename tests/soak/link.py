"""A connection of the mixed long run: many requests in flight, requests of the broker handled, nothing retried."""
import json
import os
import select
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop"))
from lib import remoting  # noqa: E402

HEARTBEAT_EVERY = 5.0  # s


class Lost(Exception):
    """The connection is gone; what was in flight is unknown."""


class Link:
    """One connection of one thread. Answers come from poll() in the order of arrival."""

    def __init__(self, address, client_id, heartbeat=None):
        host, port = address.rsplit(":", 1)
        try:
            self.socket = socket.create_connection((host, int(port)), 5)
        except OSError as e:
            raise Lost() from e
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id, self.heartbeat, self.buffer, self.opaque, self.beat_at, self.beats = client_id, heartbeat, b"", 0, 0.0, set()
        self.beat()

    def close(self):
        self.socket.close()

    def _write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as e:
            raise Lost() from e

    def start(self, code, ext=None, body=b"", flag=0):
        self.opaque += 1
        self._write(remoting.frame(code, ext, body, self.opaque, flag))
        return self.opaque

    def answer(self, request, code=0):
        """Answers a request of the broker."""
        self._write(remoting.frame(code, {}, b"", request.opaque, 1))

    def beat(self):
        """Says who this client is, if it has something to say and the time has come."""
        if self.heartbeat and time.monotonic() - self.beat_at > HEARTBEAT_EVERY:
            self.beat_at = time.monotonic()
            self.beats.add(self.start(remoting.HEARTBEAT, {}, json.dumps(dict(self.heartbeat, clientID=self.client_id)).encode()))

    def poll(self, timeout):
        """What has arrived: answers and requests of the broker. Waits at most timeout seconds for the first."""
        self.beat()
        if not select.select([self.socket], [], [], timeout)[0]:
            return []
        try:
            more = self.socket.recv(1 << 20)
        except OSError as e:
            raise Lost() from e
        if not more:
            raise Lost()
        self.buffer += more
        out, at = [], 0
        while len(self.buffer) - at >= 4:
            size = 4 + struct.unpack_from(">i", self.buffer, at)[0]
            if len(self.buffer) - at < size:
                break
            mark = struct.unpack_from(">I", self.buffer, at + 4)[0]
            end = at + 8 + (mark & 0xFFFFFF)
            code, ext, remark, version, flag, opaque = remoting.decode_header(mark >> 24, self.buffer[at + 8:end])
            a = remoting.Answer(code, ext, remark, self.buffer[end:at + size], version, flag, opaque)
            at += size
            if a.flag & 1 and a.opaque in self.beats:
                self.beats.discard(a.opaque)
            else:
                out.append(a)
        self.buffer = self.buffer[at:]
        return out

    def call(self, code, ext=None, body=b"", seconds=5):
        """One request and its answer; whatever else arrives meanwhile is dropped. For set-up and the audit only."""
        opaque, end = self.start(code, ext, body), time.monotonic() + seconds
        while time.monotonic() < end:
            for a in self.poll(0.2):
                if a.flag & 1 and a.opaque == opaque:
                    return a
        raise Lost()


def consumer_heartbeat(group, topic, expression="*", kind="TAG"):
    return {"producerDataSet": [], "consumerDataSet": [{
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [{"topic": t, "subString": e, "subVersion": 1, "tagsSet": [], "codeSet": [], "classFilterMode": False, "expressionType": k}
                                for t, e, k in ((topic, expression, kind), ("%RETRY%" + group, "*", "TAG"))]}]}


def producer_heartbeat(group):
    return {"producerDataSet": [{"groupName": group}], "consumerDataSet": []}


def now_ms():
    return int(time.time() * 1000)
