"""Compares a received frame with the recorded one after masking what may differ: times, ids, addresses, store offsets."""
import base64
import json
import re

from exchange import BROKER, FAST, NAMESRV, document, messages

ID = re.compile(r"7F0000010000([0-9A-F]{4})([0-9A-F]{16})", re.I)
TIME = re.compile(r"(?<!\d)1[78]\d{11}(?!\d)")
ADDRESS = re.compile(r"(?<![\d.])127\.0\.0\.1:(\d+)")
SERVER_NAMES = {NAMESRV: "<namesrv>", BROKER: "<broker>", FAST: "<fast>"}


class Names:
    """What the recorded servers called things and what ours call them: ports and places in the log."""

    def __init__(self, ports):
        self.ports = ports  # recorded port → ours
        self.handles = {}  # recorded handles of recall → ours
        self.physical, self.half = {0: 0}, {}  # recorded offsets → ours

    def _scrub(self, text, ports):
        text = ID.sub("<id>", text)
        text = ADDRESS.sub(lambda m: ports.get(int(m.group(1)), "<client>"), text)
        return TIME.sub("<time>", text)

    def recorded(self, text):
        return self._scrub(text, SERVER_NAMES)

    def ours(self, text):
        return self._scrub(text, {self.ports[p]: n for p, n in SERVER_NAMES.items()})

    def learn(self, recorded, ours):
        """Offset message ids in two texts that belong together."""
        for a, b in zip(ID.findall(recorded), ID.findall(ours)):
            self.physical.setdefault(int(a[1], 16), int(b[1], 16))

    def translate(self, text):
        """A recorded text as one that our servers understand: ids and addresses."""
        def ident(m):
            port, offset = int(m.group(1), 16), int(m.group(2), 16)
            if port not in self.ports:
                return m.group(0)
            return f"7F0000010000{self.ports[port]:04X}{self.physical.get(offset, offset):016X}"
        text = ID.sub(ident, text)
        return ADDRESS.sub(lambda m: f"127.0.0.1:{self.ports.get(int(m.group(1)), int(m.group(1)))}", text)


class Comparison:
    """The differences of one pair of frames: (path, recorded, ours)."""

    def __init__(self, names):
        self.names, self.found = names, []

    def _same(self, path, recorded, ours):
        if recorded != ours:
            self.found.append((path, recorded, ours))

    def _text(self, path, recorded, ours):
        if recorded is None or ours is None:
            self._same(path, recorded, ours)
            return
        self.names.learn(recorded, ours)
        a, b = self.names.recorded(recorded), self.names.ours(ours)
        if a != b:
            self.found.append((path, a, b))

    def frames(self, recorded, ours):
        self._same("kind", recorded.kind, ours.kind)
        self._same("code", recorded.code, ours.code)
        self._same("flag", recorded.flag, ours.flag)
        self._text("remark", recorded.remark, ours.remark)
        for name in sorted(set(recorded.ext) | set(ours.ext)):
            self._field(name, recorded.ext.get(name), ours.ext.get(name))
        self._bodies(recorded.body, ours.body)
        return self.found

    def _field(self, name, recorded, ours):
        if name in ("commitLogOffset", "tranStateTableOffset", "indexLastUpdatePhyoffset") and recorded and ours:
            known = self.names.half if name == "tranStateTableOffset" else self.names.physical
            known.setdefault(int(recorded), int(ours))
            self._same("ext." + name, known[int(recorded)], int(ours))
            return
        if name == "recallHandle" and recorded and ours:
            self.names.handles[recorded] = ours
            recorded, ours = (base64.urlsafe_b64decode(t).decode(errors="replace") for t in (recorded, ours))
        if name in ("properties", "i") and recorded and ours:
            self._properties(recorded, ours, "ext." + name)
            return
        self._text("ext." + name, recorded, ours)

    def _bodies(self, recorded, ours):
        if recorded == ours:
            return
        a, b = messages(recorded), messages(ours)
        if a is not None and b is not None:
            self._messages(a, b)
            return
        a, b = document(recorded), document(ours)
        if a is not None and b is not None:
            self._values("body", a, b)
            return
        try:
            a, b = recorded.decode(), ours.decode()
        except UnicodeDecodeError:
            self._same("body", recorded.hex(), ours.hex())
            return
        if "=" in a and "\n" in a:  # properties files: by key
            a, b = (dict(l.split("=", 1) for l in t.splitlines() if "=" in l) for t in (a, b))
            self._values("body", a, b)
        else:
            self._text("body", a, b)

    def _values(self, path, a, b):
        if isinstance(a, dict) and isinstance(b, dict):
            a = {self.names.recorded(k): v for k, v in a.items()}
            b = {self.names.ours(k): v for k, v in b.items()}
            for k in sorted(set(a) | set(b)):
                if k not in a or k not in b:
                    self.found.append((f"{path}.{k}", a.get(k, "(absent)"), b.get(k, "(absent)")))
                else:
                    self._values(f"{path}.{k}", a[k], b[k])
        elif isinstance(a, list) and isinstance(b, list):
            self._lists(path, a, b)
        elif isinstance(a, str) and isinstance(b, str):
            inner = [document(t.encode()) if t[:1] == "{" else None for t in (a, b)]
            if None in inner:
                self._text(path, a, b)
            else:
                self._values(path, *inner)
        elif not (isinstance(a, int) and isinstance(b, int) and TIME.fullmatch(str(a)) and TIME.fullmatch(str(b))):
            self._same(path, a, b)

    def _lists(self, path, a, b):
        """Java's order comes from hash tables: lists are compared as bags."""
        def key(names):
            return lambda v: names(json.dumps(v, sort_keys=True, ensure_ascii=False))
        a, b = sorted(a, key=key(self.names.recorded)), sorted(b, key=key(self.names.ours))
        if len(a) != len(b) and not any(isinstance(v, (dict, list)) for v in a + b):
            only = [sorted(set(map(str, x)) - set(map(str, y))) for x, y in ((a, b), (b, a))]
            self.found.append((path, f"only recorded: {only[0]}", f"only ours: {only[1]}"))
            return
        self._same(path + ".length", len(a), len(b))
        for i, (x, y) in enumerate(zip(a, b)):
            self._values(f"{path}[{i}]", x, y)

    def _messages(self, a, b):
        self._same("messages.count", len(a), len(b))
        for x, y in zip(a, b):
            self._same("messages.physical", self.names.physical.setdefault(x.physical, y.physical), y.physical)
            if x.prepared:
                self._same("messages.prepared", self.names.physical.get(x.prepared, x.prepared), y.prepared)
            for name in ("topic", "queue", "offset", "flag", "sys_flag", "born", "reconsume", "magic"):
                self._same("messages." + name, getattr(x, name), getattr(y, name))
            for name in ("born_host", "store_host"):
                self._text("messages." + name, getattr(x, name), getattr(y, name))
            self._properties(x.property_text, y.property_text)
            self._same("messages.body", x.stored_body.hex(), y.stored_body.hex())

    def _properties(self, recorded, ours, path="messages.properties"):
        """Java writes properties in the order of a hash table: they are compared as a bag of names and values."""
        self.names.learn(recorded, ours)
        a, b = (sorted(p for p in scrub(t).split("\x02") if p) for scrub, t in ((self.names.recorded, recorded), (self.names.ours, ours)))
        if a != b:
            rest = list(b)
            only = [p for p in a if p not in rest or rest.remove(p)]
            self.found.append((path, only, rest))
