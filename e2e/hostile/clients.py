"""What a hostile client does to the HTTP ports; each call lasts a few seconds at most."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from random import Random

import orjson

from e2e.hostile import bodies
from e2e.hostile.bodies import MIB, ROUTES, a_pod
from e2e.hostile.target import Target

Attack = Callable[[Target, Random], None]

SOME = 15
"""Connections of one client."""

PAGES = (
    "/",
    "/metrics",
    "/api/nodes",
    "/api/cards",
    "/api/pods",
    "/api/decisions",
    "/api/explain",
    "/api/dashboard/overview",
    "/api/dashboard/nodes",
    "/api/dashboard/node",
    "/api/dashboard/pods",
    "/api/dashboard/pod",
    "/api/dashboard/pending",
    "/api/dashboard/decisions",
    "/api/dashboard/explain",
    "/static/",
    "/local/pods",
)

METHODS = ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW")


def sent(wire: socket.socket, *parts: bytes) -> bool:
    """Send, and return whether the other end has taken it."""
    try:
        for part in parts:
            wire.sendall(part)
    except OSError:
        return False
    return True


def read(wire: socket.socket, most: int = MIB) -> bytes:
    """What arrives until the end, an error, or ``most`` bytes."""
    found = b""
    with contextlib.suppress(OSError):
        while len(found) < most and (part := wire.recv(1 << 16)):
            found += part
    return found


def post(target: Target, path: str, body: bytes, *fields: str) -> bytes:
    """Send one request, and return what comes back."""
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *fields]
    with target.connect() as wire:
        sent(wire, "\r\n".join([*head, "Connection: close", "", ""]).encode("latin-1"), body)
        return read(wire, 64 * MIB)


def long_heads(target: Target, random: Random) -> None:
    """Header fields and request lines without end."""
    with target.connect() as wire:
        start = random.choice((b"", b"GET /livez HTTP/1.1\r\n", b"GET /" + b"a" * MIB))
        if random.random() < 0.5:
            sent(wire, start, b"X-A: ", *[b"a" * MIB] * 8)
        else:
            sent(wire, start, *[b"".join(b"X-%d: b\r\n" % at for at in range(50_000))] * 4)
        read(wire)


def half_open(target: Target, random: Random) -> None:
    """Connections that begin, and do not go on."""
    beginnings = (
        b"",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n",
        b"POST /extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /live",
    )
    with ExitStack() as opened:
        for _ in range(SOME):
            port = random.choice((target.port, target.tls_port))
            sent(opened.enter_context(target.connect(port)), random.choice(beginnings))
        time.sleep(random.random())


def handshakes(target: Target, random: Random) -> None:
    """TLS that stops, is none, or is spoken to the port in the clear."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(200)
    with ExitStack() as opened:
        for _ in range(SOME // 3):
            port = random.choice((target.port, target.tls_port))
            wire = opened.enter_context(target.connect(port))
            sent(wire, random.choice((hello, hello[:5], b"\x80", b"GET / HTTP/1.1\r\n\r\n")))
        with contextlib.suppress(OSError):
            plain = opened.enter_context(target.connect(target.tls_port))
            wire = opened.enter_context(
                target.context.wrap_socket(plain, server_hostname="127.0.0.1")
            )
            sent(wire, b"POST /admission/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")


def drips(target: Target, random: Random) -> None:
    """A chunked body of which one byte comes at a time."""
    with target.connect() as wire:
        path = random.choice(ROUTES)
        sent(
            wire, f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        for _ in range(random.randrange(200)):
            if not sent(wire, b"1\r\n[\r\n"):
                break
            time.sleep(0.005)


def resets(target: Target, random: Random) -> None:
    """Connections that end with RST while a request is handled."""
    for _ in range(SOME):
        with target.connect() as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            path = random.choice(ROUTES)
            body = bodies.about(path, a_pod(random), random)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            sent(wire, head.encode(), body[: random.randrange(len(body) + 1)])


def unread(target: Target, random: Random) -> None:
    """Long responses that are never read."""
    names = [f"unknown-{at}" for at in range(50_000)]
    body = orjson.dumps({"Pod": a_pod(random), "NodeNames": names})
    with ExitStack() as opened:
        for _ in range(3):
            wire = opened.enter_context(target.connect())
            head = (
                f"POST /extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            sent(wire, head.encode(), body)
        time.sleep(1)


def pipelined(target: Target, random: Random) -> None:
    """Requests whose responses are not awaited."""
    with target.connect() as wire:
        page = random.choice(PAGES).encode()
        sent(wire, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % page * random.randrange(1, 2000))
        read(wire)


def many_names(target: Target, random: Random) -> None:
    """Pods, nodes and namespaces that come once, to every route."""
    for _ in range(SOME):
        path = random.choice(ROUTES)
        post(
            target,
            path,
            bodies.about(path, a_pod(random), random),
            f"User-Agent: {random.random()}",
        )


def many_fits(target: Target, random: Random) -> None:
    """Requests that fit, each for another amount: nothing is allocated by a question."""
    for _ in range(SOME):
        path = random.choice(("/extender/filter", "/extender/prioritize", "/volcano/predicate"))
        pod = a_pod(random, memory=random.randrange(1, 20_000))
        value = {"Pod": pod, "NodeNames": ["nvidia-1", "lab-1"]}
        if path == "/volcano/predicate":
            value = {"task": {"Pod": pod}, "node": {"Name": "nvidia-1"}}
        post(target, path, orjson.dumps(value))


def big_pods(target: Target, random: Random) -> None:
    """Pods of 3 to 60 MB, to every route."""
    path = random.choice(ROUTES)
    size = random.choice((3 * MIB - 2000, 3 * MIB, 8 * MIB - 4000, 20 * MIB, 60_000_000))
    post(target, path, bodies.about(path, a_pod(random, size), random))


def big_names(target: Target, random: Random) -> None:
    """Names, namespaces and uids of a megabyte."""
    path = random.choice(ROUTES)
    pod = a_pod(random)
    for key in ("name", "namespace", "uid"):
        pod["metadata"][key] = f"{random.random()}" + random.choice("a\n\x1b") * (MIB // 8)
    post(target, path, bodies.about(path, pod, random))


def dense(target: Target, random: Random) -> None:
    """Millions of values of two characters."""
    size = random.choice((MIB, 8 * MIB, 60_000_000))
    post(target, random.choice(ROUTES), bodies.dense(random, size))


def malformed(target: Target, random: Random) -> None:
    """Bodies that cannot be read."""
    for _ in range(SOME // 3):
        path = random.choice((*ROUTES, "/local/pods", "/local/bindings"))
        post(target, path, bodies.malformed(random))


def no_requests(target: Target, random: Random) -> None:
    """What is no request of HTTP/1.1, or two at once."""
    length, chunks = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
    begin = b"POST /extender/filter HTTP/1.1\r\nHost: x\r\n"
    with target.connect() as wire:
        wire.settimeout(1)
        attempts = (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            begin + length + chunks + b"\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
            begin + chunks + length + b"\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
            begin + length + b"Content-Length: 6\r\n\r\n[][][]",
            begin + b"Content-Length: -1\r\n\r\n",
            begin + b"Content-Length: 99999999999999999999999\r\n\r\n",
            begin + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            begin + chunks + b"\r\nffffffffffffffff1\r\n",
            begin + chunks + b"\r\n-1\r\n",
            begin
            + b"Upgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AA\r\n"
            + length
            + b"\r\n[]   ",
            begin + b"Expect: 100-continue\r\n" + length + b"\r\n",
            b"GET /livez HTTP/1.1\nHost: x\n\n",
            b"GET http://evil.example/livez HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n",
            b"GET /livez\r\n",
            b"GET /livez HTTP/1.1\r\nX: a\x00b\r\n\r\n",
            b"GET /livez HTTP/1.1\r\n folded: x\r\n\r\n",
            random.randbytes(2000),
        )
        sent(wire, random.choice(attempts))
        read(wire)


def wrong_methods(target: Target, random: Random) -> None:
    """Methods that a route does not have, and ones that no route has."""
    for _ in range(SOME // 3):
        path = random.choice((*ROUTES, *PAGES, "*", "//", "/../../etc/passwd", "/static/../app.py"))
        with target.connect() as wire:
            wire.settimeout(1)
            head = (
                f"{random.choice(METHODS)} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            sent(wire, head.encode())
            read(wire)


def questions(target: Target, random: Random) -> None:
    """Queries and paths of 50 KB, ranges, conditions, and text for logs."""
    for _ in range(SOME // 3):
        query = random.choice(
            (
                "q=" + "a" * 50_000,
                "&".join(f"{random.random()}=1" for _ in range(2000)),
                "name=" + "%0a%1b%5b2J" * 100,
                "limit=" + "9" * 5000,
                "offset=-1&limit=1e9",
                f"name={random.random()}/{random.random()}",
                "%ff%fe=%c0%80",
                "first=" + "9" * 5000,
            )
        )
        fields = (
            "Range: bytes=0-1,1-2,2-3\r\nIf-None-Match: *\r\nAccept-Encoding: gzip;q=1.0,br\r\n"
            "User-Agent: a\x1b[31m\r\nX-Forwarded-For: ' OR 1\r\n"
        )
        with target.connect() as wire:
            head = f"GET {random.choice(PAGES)}?{query} HTTP/1.1\r\nHost: x\r\n{fields}"
            sent(wire, f"{head}Connection: close\r\n\r\n".encode("latin-1"))
            read(wire, 8 * MIB)


ATTACKS: tuple[Attack, ...] = (
    long_heads,
    half_open,
    handshakes,
    drips,
    resets,
    unread,
    pipelined,
    many_names,
    many_fits,
    big_pods,
    big_names,
    dense,
    malformed,
    no_requests,
    wrong_methods,
    questions,
)
