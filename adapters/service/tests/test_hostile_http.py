"""Hostile clients of the HTTP ports: each meets a limit, and others go on being answered."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from adapters.service.tests.builders import a_pod
from adapters.service.tests.issued import Issued
from adapters.service.tests.process import Running, serving
from adapters.service.web.limits import PIPELINED
from e2e.harness.processes.waiting import within

MIB = 1 << 20
HEAD = b"POST /extender/filter HTTP/1.1\r\nHost: x\r\n"


@contextmanager
def limited(folder: Path, **limits: int) -> Iterator[Running]:
    """A service with some limits that a test can reach."""
    config = folder / "sidecar.yaml"
    config.write_text(json.dumps({"limits": limits}))
    with serving(folder, "--store", "memory", "--config", str(config)) as running:
        yield running


def status(wire: socket.socket) -> int:
    """The status of the next response; 0 where the connection was closed without one."""
    response = http.client.HTTPResponse(wire)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(response):
        response.begin()
        response.read()
        return response.status
    return 0


def send(wire: socket.socket, *parts: bytes) -> None:
    """Send, until the other end has closed."""
    with contextlib.suppress(OSError):
        for part in parts:
            wire.sendall(part)


def closed(wire: socket.socket) -> bool:
    """Whether the other end closes the connection within the socket's timeout."""
    try:
        while wire.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def resident(running: Running) -> int:
    return int(psutil.Process(running.process.pid).memory_info().rss)


def refused(running: Running, reason: str) -> int:
    with running.connect() as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: wire.recv(1 << 16), b"")).decode()
    found = re.search(rf'dragoman_http_refused_total{{reason="{reason}"}} (\S+)', text)
    return int(float(found[1])) if found else 0


LONG_HEADS = {
    "one field": [b"X-A: " + b"a" * MIB] + [b"a" * MIB] * 15,
    "a field without an end": [b"X-A"] + [b"a" * MIB] * 16,
    "a path": [b"GET /" + b"a" * MIB] + [b"a" * MIB] * 15,
    "many short fields": [b"".join(b"X-%d: b\r\n" % at for at in range(100_000))] * 8,
}


@pytest.mark.parametrize("what", LONG_HEADS)
def test_a_head_beyond_the_limit_is_refused_and_not_kept(tmp_path: Path, what: str) -> None:
    with limited(tmp_path) as running:
        before = resident(running)
        with running.connect() as wire:
            start = b"" if what == "a path" else b"GET /livez HTTP/1.1\r\n"

            send(wire, start, *LONG_HEADS[what])

            assert status(wire) in (431, 0)
            assert closed(wire)
        assert resident(running) - before < 8 * MIB
        reason = "header_fields" if "many" in what else "header_bytes"
        assert refused(running, reason) == 1


def test_fields_after_a_chunked_body_have_the_same_limit(tmp_path: Path) -> None:
    with limited(tmp_path) as running:
        before = resident(running)
        with running.connect() as wire:
            send(wire, HEAD, b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-A: ")
            send(wire, *[b"a" * MIB] * 16)

            assert closed(wire)
        assert resident(running) - before < 8 * MIB
        assert refused(running, "header_bytes") == 1


def test_a_hundred_fields_are_enough_for_any_client_and_more_are_refused(tmp_path: Path) -> None:
    fields = [b"X-%d: b\r\n" % at for at in range(101)]

    with limited(tmp_path) as running, running.connect() as wire:
        wire.sendall(b"GET /livez HTTP/1.1\r\n" + b"".join(fields[:100]) + b"\r\n")
        assert status(wire) == 200
        wire.sendall(b"GET /livez HTTP/1.1\r\n" + b"".join(fields) + b"\r\n")
        assert status(wire) == 431
        assert closed(wire)


@pytest.mark.parametrize("path", ["/extender/bind", "/admission/pods", "/volcano/allocate"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_beyond_its_route_is_refused_and_the_connection_closed(
    tmp_path: Path, path: str, *, chunked: bool
) -> None:
    start = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode()
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"

    with limited(tmp_path) as running, running.connect() as wire:
        if chunked:
            send(wire, start, b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 64)
        else:
            send(wire, start, b"Content-Length: %d\r\n\r\n" % (64 * MIB), *[b" " * MIB] * 64)

        assert status(wire) in (413, 0)
        assert closed(wire)
        assert refused(running, "body_bytes") == 1
        assert running.get("/api/nodes")


def test_no_body_is_longer_than_the_budget_of_all(tmp_path: Path) -> None:
    with limited(tmp_path, bodyMiB=16) as running, running.connect() as wire:
        send(wire, HEAD, b"Content-Length: %d\r\n\r\n" % (17 * MIB), b" " * (17 * MIB))

        assert status(wire) == 413
        assert closed(wire)


def test_slow_bodies_give_way_to_those_that_arrive_fast(tmp_path: Path) -> None:
    body = json.dumps({"Pod": a_pod(), "NodeNames": ["nvidia-1"]}).encode()
    long = b" " * (8 * MIB) + body

    with limited(tmp_path, bodyMiB=16, bodySeconds=600) as running, ExitStack() as open_wires:
        before = resident(running)
        for _ in range(40):
            wire = open_wires.enter_context(running.connect())
            send(wire, HEAD, b"Content-Length: %d\r\n\r\n" % (16 * MIB), b" " * MIB)

        def answered(body: bytes) -> bool:
            with running.connect() as wire:
                send(wire, HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body)
                return status(wire) == 200

        assert answered(body)
        # A body is slow after a second; until then there is no room for other long ones.
        within(30, lambda: answered(long))
        assert resident(running) - before < 64 * MIB
        within(30, lambda: refused(running, "body_budget") >= 24 + 8)


HALF = {
    "half a head": b"GET /livez HTTP/1.1\r\nHost: x\r\n",
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "half a second request": b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /live",
}


@pytest.mark.parametrize("what", HALF)
def test_a_request_that_does_not_arrive_in_time_is_closed(tmp_path: Path, what: str) -> None:
    with limited(tmp_path, headSeconds=1, bodySeconds=1) as running, running.connect() as wire:
        wire.sendall(HALF[what])

        assert closed(wire)
        reason = "body_timeout" if "body" in what else "head_timeout"
        assert refused(running, reason) == 1


def test_a_first_request_is_answered_however_late_it_comes(tmp_path: Path) -> None:
    """Go's clients open connections ahead: one that is closed then loses the request just sent."""
    with limited(tmp_path, headSeconds=1) as running, running.connect() as wire:
        time.sleep(3)
        send(wire, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")

        assert status(wire) == 200
        assert refused(running, "head_timeout") == 0


def test_a_drip_of_header_bytes_does_not_extend_the_time(tmp_path: Path) -> None:
    with limited(tmp_path, headSeconds=1) as running, running.connect() as wire:
        wire.settimeout(0.1)
        wire.sendall(b"GET /livez HTTP/1.1\r\n")

        def ended() -> bool:
            send(wire, b"X: y\r\n")
            return closed(wire)

        within(20, ended)


def test_ten_thousand_half_open_requests_are_closed_and_do_not_stop_others(
    tmp_path: Path,
) -> None:
    with limited(tmp_path, connections=128, headSeconds=60) as running:
        running.get("/api/nodes")
        before = resident(running)
        process = psutil.Process(running.process.pid)
        for _ in range(10):
            with ExitStack() as some:
                for _ in range(1000):
                    wire = some.enter_context(running.connect())
                    send(wire, HALF["half a head"])
                assert running.get("/api/nodes")
                assert process.num_fds() < 128 + 100
        assert resident(running) - before < 32 * MIB
        assert refused(running, "evicted") > 8000


def test_a_handshake_that_does_not_go_on_is_closed(tmp_path: Path) -> None:
    own = Issued.make(tmp_path, "own")
    config = tmp_path / "sidecar.yaml"
    tls = {"certificate": str(own.certificate), "key": str(own.key)}
    config.write_text(json.dumps({"tls": tls, "limits": {"connections": 16, "headSeconds": 2}}))

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:
        context = ssl.create_default_context(cafile=own.authority)
        with ExitStack() as open_wires:
            silent = [open_wires.enter_context(running.connect()) for _ in range(100)]
            # The port has 16 connections: the newest one is admitted in the place of the oldest.
            with (
                running.connect() as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
            ):
                wire.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                assert status(wire) == 200
            assert all(map(closed, silent))


def test_requests_without_their_responses_awaited_are_bounded(tmp_path: Path) -> None:
    with limited(tmp_path) as running, running.connect() as wire:
        send(wire, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
        read = b"".join(iter(lambda: wire.recv(65536), b""))

        assert read.count(b"HTTP/1.1 ") == read.count(b"HTTP/1.1 200 OK") == PIPELINED + 1
        assert read.count(b"connection: close") == 1
        assert refused(running, "pipelined") == 1


def test_a_response_that_is_not_read_is_dropped(tmp_path: Path) -> None:
    names = [f"a-node-that-does-not-exist-{at}" for at in range(100_000)]
    body = json.dumps({"Pod": a_pod(), "NodeNames": names}).encode()

    with limited(tmp_path, responseSeconds=1) as running, running.connect() as wire:
        send(wire, HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body)

        within(30, lambda: refused(running, "closing_timeout") == 1)
        assert running.get("/api/nodes")


def test_normal_requests_are_answered_while_hostile_ones_arrive(tmp_path: Path) -> None:
    """The soak: memory returns to where it was, and every filter has its answer."""
    filtering = {"Pod": a_pod(), "NodeNames": ["nvidia-1", "nvidia-2"]}

    with limited(tmp_path, connections=64, bodyMiB=32, headSeconds=2, bodySeconds=2) as running:
        expected = [running.get("/extender/filter", filtering) for _ in range(50)][-1]
        warmed = 0
        for _ in range(4):
            _attack(running, 2)
            warmed = max(warmed, resident(running))
        answers: list[Any] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                answers.append(running.get("/extender/filter", filtering))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            _attack(running, 8)
        finally:
            ended.set()
            asking.join(30)

        assert len(answers) > 20
        assert all(answer == expected for answer in answers)
        within(30, lambda: psutil.Process(running.process.pid).num_fds() < 64)
        assert resident(running) < 1.3 * warmed
        assert running.stop() == 0
        assert "Traceback" not in running.log.read_text()


def _attack(running: Running, rounds: int) -> None:
    """Every kind of hostile request, some times."""
    for _ in range(rounds):
        with ExitStack() as open_wires:
            for what in HALF.values():
                for _ in range(20):
                    send(open_wires.enter_context(running.connect()), what)
            for parts in LONG_HEADS.values():
                wire = open_wires.enter_context(running.connect())
                send(wire, b"GET /livez HTTP/1.1\r\n", *parts[:4])
            for _ in range(8):
                wire = open_wires.enter_context(running.connect())
                send(wire, HEAD, b"Content-Length: %d\r\n\r\n" % (30 * MIB), *[b"[" * MIB] * 8)
            wire = open_wires.enter_context(running.connect())
            send(wire, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 8, b"\x16\x03\x01" * 1000)
