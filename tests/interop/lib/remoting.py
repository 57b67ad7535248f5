"""A small remoting client (standard library only) for raw checks: it knows frames and records,
retries nothing, hides nothing, and can send what no client library would send."""
import collections
import hashlib
import json
import socket
import struct
import zlib

SEND, PULL, QUERY, QUERY_OFFSET, UPDATE_OFFSET = 310, 11, 12, 14, 15
SEARCH_OFFSET, MAX_OFFSET, MIN_OFFSET, EARLIEST_TIME, VIEW, HEARTBEAT = 29, 30, 31, 32, 33, 34
ROUTE, CLUSTER_INFO, SEND_BATCH, UPDATE_TOPIC, QUERY_CONSUME_QUEUE = 105, 106, 320, 17, 321

Answer = collections.namedtuple("Answer", "code ext remark body version flag opaque")


class Closed(Exception):
    """The peer closed the connection."""


def frame(code, ext=None, body=b"", opaque=1, flag=0, version=409, binary=False, remark=None):
    if binary:
        entries = b"".join(struct.pack(">h", len(k.encode())) + k.encode() + struct.pack(">i", len(v.encode())) + v.encode()
                           for k, v in ((k, str(v)) for k, v in (ext or {}).items()))
        text = (remark or "").encode()
        header = struct.pack(">hbhiii", code, 0, version, opaque, flag, len(text)) + text + struct.pack(">i", len(entries)) + entries
    else:
        h = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "serializeTypeCurrentRPC": "JSON", "version": version}
        if ext is not None:
            h["extFields"] = {k: str(v) for k, v in ext.items()}
        if remark is not None:
            h["remark"] = remark
        header = json.dumps(h, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), (int(binary) << 24) | len(header)) + header + body


def decode_header(kind, raw):
    if kind == 0:
        h = json.loads(raw)
        return h["code"], h.get("extFields") or {}, h.get("remark"), h.get("version"), h.get("flag", 0), h["opaque"]
    code, _, version, opaque, flag, remark_len = struct.unpack_from(">hbhiii", raw)
    at = 17 + remark_len
    remark = raw[17:at].decode() or None
    end = at + 4 + struct.unpack_from(">i", raw, at)[0]
    at += 4
    ext = {}
    while at < end:
        n = struct.unpack_from(">h", raw, at)[0]
        k = raw[at + 2:at + 2 + n].decode()
        at += 2 + n
        n = struct.unpack_from(">i", raw, at)[0]
        ext[k] = raw[at + 4:at + 4 + n].decode()
        at += 4 + n
    return code, ext, remark, version, flag, opaque


def properties(props):
    return "\x02".join(f"{k}\x01{v}" for k, v in props.items())


class Client:
    """One connection; not for several threads. All times are seconds."""

    def __init__(self, address, timeout=10, binary=False):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout, self.binary, self.opaque, self.buffer, self.early = timeout, binary, 0, b"", {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def start(self, code, ext=None, body=b"", flag=0, version=409):
        self.opaque += 1
        self.socket.sendall(frame(code, ext, body, self.opaque, flag, version, self.binary))
        return self.opaque

    def _exactly(self, n):
        while len(self.buffer) < n:
            more = self.socket.recv(1 << 18)
            if not more:
                raise Closed()
            self.buffer += more
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def read(self):
        """The next frame, response or not."""
        length, mark = struct.unpack(">iI", self._exactly(8))
        header, kind = mark & 0xFFFFFF, mark >> 24
        rest = self._exactly(length - 4)
        code, ext, remark, version, flag, opaque = decode_header(kind, rest[:header])
        return Answer(code, ext, remark, rest[header:], version, flag, opaque)

    def wait(self, opaque, timeout=None):
        self.socket.settimeout(timeout or self.timeout)
        while opaque not in self.early:
            a = self.read()
            if a.flag & 1:
                self.early[a.opaque] = a
        return self.early.pop(opaque)

    def call(self, code, ext=None, body=b"", timeout=None, version=409):
        return self.wait(self.start(code, ext, body, version=version), timeout)

    # --- sending
    @staticmethod
    def send_header(topic, queue=-1, props=None, sys_flag=0, flag=0, group="raw-producer", batch=False, queues=4):
        h = {"a": group, "b": topic, "c": "TBW102", "d": queues, "e": queue, "f": sys_flag, "g": 1700000000000, "h": flag,
             "i": properties(props or {}), "j": 0, "k": "false", "m": "true" if batch else "false"}
        return h

    def send(self, topic, body, queue=-1, props=None, **kw):
        return self.call(SEND, self.send_header(topic, queue, props, **kw), body)

    # --- reading
    def pull(self, topic, queue, offset, count=32, expression="*", group="TOOLS_CONSUMER", suspend_ms=0, timeout=None):
        return self.call(PULL, {"consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset, "maxMsgNums": count,
                                "sysFlag": 6 if suspend_ms else 4, "commitOffset": 0, "suspendTimeoutMillis": suspend_ms, "subscription": expression,
                                "subVersion": 0, "expressionType": "TAG"}, timeout=timeout)

    def offset(self, code, topic, queue, **more):
        a = self.call(code, dict({"topic": topic, "queueId": queue}, **more))
        assert a.code == 0, (code, topic, queue, a.code, a.remark)
        return int(a.ext["timestamp" if code == EARLIEST_TIME else "offset"])

    def read_queue(self, topic, queue, begin=None):
        """Every record from begin (default: the minimum offset) to the end."""
        at = self.offset(MIN_OFFSET, topic, queue) if begin is None else begin
        out = []
        while at < self.offset(MAX_OFFSET, topic, queue):
            a = self.pull(topic, queue, at)
            front_moved = a.code == 21 and int(a.ext["nextBeginOffset"]) > at  # retention deleted what was to be read
            assert a.code in (0, 20) or front_moved, (topic, queue, at, a.code, a.remark)
            out += records(a.body)
            assert int(a.ext["nextBeginOffset"]) > at, (topic, queue, at, a.ext)
            at = int(a.ext["nextBeginOffset"])
        return out

    def query(self, topic, key, unique=False, begin=0, end=1 << 62, count=64):
        a = self.call(QUERY, {"topic": topic, "key": key, "maxNum": count, "beginTimestamp": begin, "endTimestamp": end,
                              "_UNIQUE_KEY_QUERY": "true" if unique else "false"})
        return a.code, records(a.body) if a.code == 0 else []

    def view(self, physical):
        a = self.call(VIEW, {"offset": physical})
        return a.code, records(a.body) if a.code == 0 else []

    # --- name server
    def route(self, topic):
        a = self.call(ROUTE, {"topic": topic})
        return json.loads(a.body) if a.code == 0 else None


class Record:
    """One stored message as the broker sends it to a consumer."""

    def __init__(self, raw):
        self.raw = raw
        self.size, magic, self.crc, self.queue, self.flag, self.offset, self.physical, self.sys_flag, self.born = struct.unpack_from(">iIiiiqqiq", raw)
        assert magic in (0xDAA320A7, 0xDAA320AB), hex(magic)
        self.magic = magic
        at = 48
        self.born_host, at = self._host(at, self.sys_flag & 0x10)
        self.stored = struct.unpack_from(">q", raw, at)[0]
        self.store_host, at = self._host(at + 8, self.sys_flag & 0x20)
        self.reconsume, self.prepared, n = struct.unpack_from(">iqi", raw, at)
        at += 16
        self.stored_body = raw[at:at + n]
        at += n
        if magic == 0xDAA320A7:
            n, at = raw[at], at + 1
        else:
            n, at = struct.unpack_from(">h", raw, at)[0], at + 2
        self.topic = raw[at:at + n].decode()
        at += n
        n = struct.unpack_from(">h", raw, at)[0]
        self.property_text = raw[at + 2:at + 2 + n].decode()
        assert at + 2 + n == self.size, (at + 2 + n, self.size)
        self.props = dict(p.split("\x01", 1) for p in self.property_text.split("\x02") if "\x01" in p)
        assert zlib.crc32(self.stored_body) & 0x7FFFFFFF == self.crc, "body CRC"

    def _host(self, at, six):
        n = 16 if six else 4
        kind = socket.AF_INET6 if six else socket.AF_INET
        return f"{socket.inet_ntop(kind, self.raw[at:at + n])}:{struct.unpack_from('>i', self.raw, at + n)[0]}", at + n + 4

    @property
    def compression(self):
        """None, or 0/3 zlib, 1 LZ4, 2 ZSTD."""
        return (self.sys_flag >> 8) & 7 if self.sys_flag & 1 else None

    @property
    def body(self):
        if self.compression is None:
            return self.stored_body
        assert self.compression in (0, 3), "only zlib here"
        return zlib.decompress(self.stored_body)

    @property
    def sha(self):
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def msg_id(self):
        host, port = self.store_host.rsplit(":", 1)
        return (socket.inet_aton(host) + struct.pack(">iq", int(port), self.physical)).hex().upper()


def records(body):
    out, at = [], 0
    while at < len(body):
        n = struct.unpack_from(">i", body, at)[0]
        out.append(Record(body[at:at + n]))
        at += n
    return out
