"""The messages that producers of every language send, and the comparison of what arrives."""
import functools
import hashlib
from urllib.parse import quote

MEBI = 1 << 20


@functools.lru_cache(maxsize=None)
def body(spec):
    """The bytes that a body specification means; the client programs contain the same three rules."""
    kind, first, second = (spec.split(":") + ["", ""])[:3]
    if kind == "text":
        from urllib.parse import unquote
        return unquote(first).encode()
    size, seed = int(first), int(second)
    if kind == "rep":
        return (bytes(97 + (seed + i) % 26 for i in range(26)) * (size // 26 + 1))[:size]
    x = ((seed * 0x9E3779B1) & 0xFFFFFFFF) | 1
    out = bytearray(size)
    for i in range(size):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        out[i] = x & 255
    return bytes(out)


@functools.lru_cache(maxsize=None)
def digest(spec):
    return hashlib.sha256(body(spec)).hexdigest()


class Message:
    def __init__(self, topic, ident, spec, tags="", keys="", **props):
        self.topic, self.ident, self.spec, self.tags, self.keys = topic, ident, spec, tags, keys
        self.props = dict(props, ident=ident)

    def line(self):
        e = functools.partial(quote, safe="")
        return "\t".join([self.topic, e(self.tags), e(self.keys), "&".join(f"{e(k)}={e(v)}" for k, v in self.props.items()), self.spec])

    def raw_properties(self):
        # Trap: Java's tools take four bytes of a unique key for the time since the month began, and look only behind it.
        digest_hex = hashlib.md5(self.ident.encode()).hexdigest().upper()
        p = dict(self.props, UNIQ_KEY=digest_hex[:20] + "00000000" + digest_hex[28:])
        if self.tags:
            p["TAGS"] = self.tags
        if self.keys:
            p["KEYS"] = self.keys
        return p

    def difference(self, got):
        """What is wrong with a received line, or None."""
        for name, want in (("topic", self.topic), ("tags", self.tags or None), ("keys", self.keys or None), ("length", len(body(self.spec))),
                           ("sha256", digest(self.spec)), ("reconsumeTimes", 0)):
            if got[name] != want:
                return f"{self.ident}: {name} is {got[name]!r}, sent {want!r}"
        for k, v in self.props.items():
            if got["props"].get(k) != v:
                return f"{self.ident}: property {k} is {got['props'].get(k)!r}, sent {v!r}"
        return None


def full_set(topic, prefix, plain=False):
    """Tags, keys, properties, UTF-8 and bodies up to 4 MiB; ids begin with prefix. plain: for a sender
    that does not compress, so that 4 MiB that do not shrink still fit."""
    specs = ["text:x", "text:ab", "text:" + quote("Grüße 世界 😀 \u0000\u0001\u0002 end"), "rnd:100:7", "rnd:4095:8", "rnd:4096:9", "rep:4097:10", "rnd:65536:11",
             f"rep:{MEBI}:12", f"rnd:{MEBI}:13", f"rep:{4 * MEBI}:14", f"rnd:{4 * MEBI - 65536}:15"]
    if plain:
        specs.append(f"rnd:{4 * MEBI}:16")
    out = [Message(topic, f"{prefix}-{i}", s, tags=f"Tag{i % 3}", keys=f"{prefix}-key-{i}") for i, s in enumerate(specs)]
    out.append(Message(topic, f"{prefix}-none", "text:no%20tag%20no%20key"))
    out.append(Message(topic, f"{prefix}-keys", "text:k", tags="标签-é", keys=f"{prefix}-a {prefix}-ключ {prefix}-😀"))
    out.append(Message(topic, f"{prefix}-props", "text:p", tags="TagP", keys=f"{prefix}-p", **{f"name{i}": f"value {i} äöü 值 😀 =&%+\"\\/" for i in range(30)}, **{"ключ": "знач=1&2"}))
    out += [Message(topic, f"{prefix}-small{i}", f"text:small%20{i}", tags="TagS", keys=f"{prefix}-s{i}") for i in range(20)]
    return out


def compare(sent, received):
    """Exactly once and unchanged: a list of complaints, empty if all is well."""
    bad, seen = [], {}
    for got in received:
        ident = got["props"].get("ident")
        seen[ident] = seen.get(ident, 0) + 1
    by_ident = {m.ident: m for m in sent}
    bad += [f"{i} received {seen.get(i, 0)} times" for i in by_ident if seen.get(i, 0) != 1]
    bad += [f"{i} was not sent" for i in seen if i not in by_ident]
    bad += [d for d in (by_ident[g["props"].get("ident")].difference(g) for g in received if g["props"].get("ident") in by_ident) if d]
    return bad
