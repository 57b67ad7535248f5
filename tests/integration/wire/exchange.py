"""Recorded exchanges: frames, the dialect of JSON that Java writes, and stored messages."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "interop"))
from lib import remoting  # noqa: E402

NAMESRV, BROKER, FAST = 9876, 10911, 10909  # the ports of the recorded servers
SERVERS = (NAMESRV, BROKER, FAST)


class Frame:
    """One frame, recorded or received: header and body."""

    def __init__(self, raw):
        mark = struct.unpack_from(">I", raw, 4)[0]
        self.kind, size = mark >> 24, mark & 0xFFFFFF
        self.raw, self.header, self.body = raw, raw[8:8 + size], raw[8 + size:]
        self.code, self.ext, self.remark, self.version, self.flag, self.opaque = remoting.decode_header(self.kind, self.header)
        self.ext = {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.ext.items() if v is not None}

    @property
    def response(self):
        return bool(self.flag & 1)

    @property
    def oneway(self):
        return bool(self.flag & 2)


class Line(Frame):
    """A line of a recording."""

    def __init__(self, file, number, line, step):
        o = json.loads(line)
        super().__init__(bytes.fromhex(o["raw_hex"]))
        self.file, self.number, self.t = file, number, o["t"]
        self.source, self.target, self.step = o["from"], o["to"], o.get("step", step)

    @property
    def to_server(self):
        return self.target in SERVERS

    @property
    def connection(self):
        """(port of the client, port of the server)."""
        return (self.source, self.target) if self.to_server else (self.target, self.source)


def load(folder, name):
    out, step = [], None
    with open(os.path.join(folder, name + ".jsonl"), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            out.append(Line(name, number, line, step))
            step = out[-1].step
    return out


class LooseJson:
    """Reads what fastjson writes: keys may be bare numbers or whole objects. A key that is no text becomes its JSON text."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def parse(self):
        value = self._value()
        self._blank()
        if self.at != len(self.text):
            raise ValueError(f"more text after the value at {self.at}")
        return value

    def _blank(self):
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def _value(self):
        self._blank()
        c = self.text[self.at:self.at + 1]
        if c == "{":
            return self._object()
        if c == "[":
            return self._list()
        value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        return value

    def _object(self):
        out = {}
        self.at += 1
        while True:
            self._blank()
            if self.text[self.at:self.at + 1] == "}":
                self.at += 1
                return out
            key = self._value()
            key = key if isinstance(key, str) else json.dumps(key, sort_keys=True, ensure_ascii=False)
            self._blank()
            self._take(":")
            if key in out:
                raise ValueError(f"key {key} twice")
            out[key] = self._value()
            self._blank()
            if self.text[self.at:self.at + 1] != "}":
                self._take(",")

    def _list(self):
        out = []
        self.at += 1
        while True:
            self._blank()
            if self.text[self.at:self.at + 1] == "]":
                self.at += 1
                return out
            out.append(self._value())
            self._blank()
            if self.text[self.at:self.at + 1] != "]":
                self._take(",")

    def _take(self, c):
        if self.text[self.at:self.at + 1] != c:
            raise ValueError(f"no {c!r} at {self.at}: {self.text[self.at:self.at + 30]!r}")
        self.at += 1


def messages(body):
    """The stored messages of an answer, or None when it holds something else."""
    try:
        return remoting.records(body) if body else None
    except (AssertionError, struct.error, IndexError, UnicodeDecodeError, OSError, ValueError):
        return None


def document(body):
    """The JSON of a body, or None."""
    if body[:1] not in (b"{", b"["):
        return None
    try:
        return LooseJson(body.decode()).parse()
    except (ValueError, UnicodeDecodeError):
        return None
