"""libtenon for Python, by ctypes: a producer and a push consumer. Needs libtenon.so.1 where the loader finds it, or its path
in TENON_LIBRARY."""
import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p,
                    create_string_buffer, string_at)

_lib = ctypes.CDLL(os.environ.get("TENON_LIBRARY", "libtenon.so.1"))


class _Sized(Structure):
    """Options begin with their size; what is not given is zero, which means the default."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class _ClientOptions(_Sized):
    _fields_ = [("size", c_size_t), ("name_servers", c_char_p)]  # a beginning is enough


class _ProducerOptions(_Sized):
    _fields_ = [("size", c_size_t), ("group", c_char_p)]


class _Message(_Sized):
    _fields_ = [("size", c_size_t), ("topic", c_char_p), ("body", c_char_p), ("body_length", c_size_t), ("tag", c_char_p),
                ("keys", c_char_p), ("sharding_key", c_char_p)]


class Receipt(_Sized):
    _fields_ = [("size", c_size_t), ("status", c_int32), ("queue_id", c_int32), ("queue_offset", c_int64),
                ("id", ctypes.c_char * 128), ("offset_id", ctypes.c_char * 128), ("broker", ctypes.c_char * 256)]


class _Subscription(Structure):
    _fields_ = [("topic", c_char_p), ("expression", c_char_p), ("sql", c_int32), ("reserved", c_int32)]


class _ConsumerOptions(_Sized):
    _fields_ = [("size", c_size_t), ("group", c_char_p), ("subscriptions", POINTER(_Subscription)),
                ("subscription_count", c_size_t), ("allocator", c_char_p), ("local_offset_dir", c_char_p),
                ("start_ms", c_int64), ("start", c_int32), ("broadcasting", c_int32), ("orderly", c_int32),
                ("max_attempts", c_int32), ("threads", c_uint32)]


_Listener = CFUNCTYPE(c_int32, c_void_p, POINTER(c_void_p), c_size_t, c_void_p)
for _name in ("client", "producer", "consumer"):
    getattr(_lib, f"tenon_{_name}_destroy").argtypes = [c_void_p]
    getattr(_lib, f"tenon_{_name}_destroy").restype = None
_lib.tenon_client_error_text.restype = c_char_p
_lib.tenon_producer_open.argtypes = [c_void_p, c_void_p, c_void_p]
_lib.tenon_producer_send.argtypes = [c_void_p, c_void_p, c_void_p]
_lib.tenon_consumer_open.argtypes = [c_void_p, c_void_p, _Listener, c_void_p, c_void_p]
_lib.tenon_consumer_close.argtypes = [c_void_p]
_lib.tenon_delivery_id.argtypes = [c_void_p, c_char_p, c_size_t]
_lib.tenon_delivery_id.restype = c_size_t
for _name in ("body", "topic", "tag", "keys"):
    getattr(_lib, f"tenon_delivery_{_name}").argtypes = [c_void_p, POINTER(c_size_t)]
    getattr(_lib, f"tenon_delivery_{_name}").restype = c_void_p


class Error(Exception):
    def __init__(self, code):
        super().__init__(_lib.tenon_client_error_text().decode())
        self.code = code
        self.response = _lib.tenon_client_error_response()
        self.outcome_unknown = bool(_lib.tenon_client_error_outcome_unknown())


def _check(code):
    if code != 0:
        raise Error(code)


class _Handle:
    def __init__(self, kind):
        self._destroy = getattr(_lib, f"tenon_{kind}_destroy")
        self._handle = c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._destroy(self._handle)
        self._handle = c_void_p()


class Client(_Handle):
    def __init__(self, name_servers=None):
        super().__init__("client")
        options = _ClientOptions(name_servers=name_servers and name_servers.encode())
        _check(_lib.tenon_client_connect(byref(options), byref(self._handle)))


class Producer(_Handle):
    def __init__(self, client, group):
        super().__init__("producer")
        options = _ProducerOptions(group=group.encode())
        _check(_lib.tenon_producer_open(client._handle, byref(options), byref(self._handle)))

    def send(self, topic, body, tag=None, keys=None, sharding_key=None):
        text = [value and value.encode() for value in (tag, keys, sharding_key)]
        message = _Message(topic=topic.encode(), body=body, body_length=len(body), tag=text[0], keys=text[1],
                           sharding_key=text[2])
        receipt = Receipt()
        _check(_lib.tenon_producer_send(self._handle, byref(message), byref(receipt)))
        return receipt


class Delivery:
    """Valid while the listener runs."""

    def __init__(self, handle):
        self._handle = handle

    def _view(self, name):
        length = c_size_t()
        return string_at(getattr(_lib, f"tenon_delivery_{name}")(self._handle, byref(length)), length.value)

    body = property(lambda self: self._view("body"))
    topic = property(lambda self: self._view("topic").decode())
    tag = property(lambda self: self._view("tag").decode())

    @property
    def id(self):
        room = create_string_buffer(64)
        _lib.tenon_delivery_id(self._handle, room, len(room))
        return room.value.decode()


class Consumer(_Handle):
    """Calls listener(delivery) for each message; true: done, false or an exception: again later."""

    def __init__(self, client, group, topic, listener, expression="*", from_first=False, orderly=False):
        super().__init__("consumer")

        def call(_, messages, count, __):
            try:
                return 0 if all(listener(Delivery(messages[i])) for i in range(count)) else 1
            except Exception:  # nothing may cross into the library
                return 1

        self._listener = _Listener(call)  # must live as long as the consumer
        subscription = _Subscription(topic=topic.encode(), expression=expression.encode())
        options = _ConsumerOptions(group=group.encode(), subscriptions=ctypes.pointer(subscription), subscription_count=1,
                                   start=1 if from_first else 0, orderly=int(orderly), threads=4)
        _check(_lib.tenon_consumer_open(client._handle, byref(options), self._listener, None, byref(self._handle)))

    def close(self):
        _check(_lib.tenon_consumer_close(self._handle))
