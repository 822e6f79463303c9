"""What a hostile client does to the gRPC socket; each call lasts a few seconds at most."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import grpc
import orjson

from adapters.service.grpc import dragoman_pb2 as pb
from e2e.hostile import bodies
from e2e.hostile.bodies import MIB, a_name, a_pod
from e2e.hostile.target import Target

SERVICE = "/dragoman.v1alpha1.Dragoman/"

CALLS = ("Allocate", "Release", "Explain", "ListCards", "WatchLedger")

SECONDS = 3
"""The longest time of one call."""


def _channel(target: Target) -> grpc.Channel:
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
    return grpc.insecure_channel(target.grpc, options=options)


def _call(channel: grpc.Channel, call: str, message: bytes, **how: Any) -> None:
    with contextlib.suppress(grpc.RpcError, ValueError):
        called: Any = channel.unary_unary(SERVICE + call)
        called(message, timeout=SECONDS, **how)


def messages(target: Target, random: Random) -> None:
    """Messages that are long, malformed, or about pods that do not exist."""
    with _channel(target) as channel:
        for _ in range(10):
            name = a_name(random).encode("utf-8", "replace").decode()
            nested = b'{"metadata":' * 1100 + b"1" + b"}" * 1100
            pod = pb.Pod(namespace=name, name=name, uid=name)
            message = random.choice(
                (
                    random.randbytes(1000),
                    b"\x0a" * 100,
                    bytes(5 * MIB),
                    pb.ExplainRequest(manifest=nested).SerializeToString(),
                    pb.ExplainRequest(manifest=bodies.malformed(random)).SerializeToString(),
                    pb.ExplainRequest(manifest=orjson.dumps(a_pod(random))).SerializeToString(),
                    pb.ExplainRequest(
                        manifest=orjson.dumps(a_pod(random, 3 * MIB))
                    ).SerializeToString(),
                    pb.ExplainRequest(pod=pod).SerializeToString(),
                    pb.AllocateRequest(pod=pod, nodes=["n"] * 100_000).SerializeToString(),
                    pb.ReleaseRequest(uid=name, node=name, attempt=1).SerializeToString(),
                    pb.ListCardsRequest(node=name, page_token=name).SerializeToString(),
                )
            )
            _call(channel, random.choice(CALLS[:-1]), message, metadata=(("x-a", "b" * 1000),))


def never_begun(target: Target, random: Random) -> None:
    """Calls whose message does not come."""
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(SECONDS)
        yield from ()

    with _channel(target) as channel:
        for _ in range(random.randrange(1, 60)):
            call: Any = channel.stream_unary(SERVICE + random.choice(CALLS[:-1]))
            call.future(nothing(), timeout=SECONDS)
        ended.wait(1)
        ended.set()


def streams(target: Target, random: Random) -> None:
    """Streams that are never read to their end."""
    with _channel(target) as channel:
        stream: Any = channel.unary_stream(SERVICE + "WatchLedger")
        opened = [stream(b"") for _ in range(40)]
        with contextlib.suppress(grpc.RpcError):
            next(random.choice(opened))
        for each in opened:
            each.cancel()


def no_http2(target: Target, random: Random) -> None:
    """Connections that say nothing, or what is no HTTP/2."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for _ in range(10):
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire,
            contextlib.suppress(OSError),
        ):
            wire.settimeout(1)
            wire.connect(target.grpc.removeprefix("unix:"))
            wire.sendall(
                random.choice(
                    (
                        b"",
                        b"GET / HTTP/1.1\r\n\r\n",
                        preface,
                        preface + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 1000,
                        preface + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + random.randbytes(9000),
                        random.randbytes(5000),
                    )
                )
            )


CALLERS: tuple[Callable[[Target, Random], None], ...] = (messages, never_begun, streams, no_http2)
