"""The whole process: it starts, serves, reloads policy and certificates, and stops in order."""

import contextlib
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.service.tests.builders import a_pod
from adapters.service.tests.issued import Issued
from adapters.service.tests.process import CODE, EXAMPLE, serving
from e2e.harness.processes.waiting import within


def test_allocations_survive_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'ledger.db'}"
    bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "nvidia-1"}

    with serving(tmp_path, "--store", store) as running:
        running.get("/local/pods", a_pod())
        assert running.get("/extender/bind", bind) == {"Error": ""}
        before = running.get("/api/cards")
        assert running.stop() == 0
    with serving(tmp_path, "--store", store) as running:
        after = running.get("/api/cards")
        log = running.log.read_text()

    assert after == before
    assert any(one["pod"] == "default/p" for card in after for one in card["sharers"])
    assert "service.started" in log


def test_a_new_policy_applies_without_a_restart_and_an_invalid_one_does_not(
    tmp_path: Path,
) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text("log: {format: text}\n")

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:
        config.write_text("policy: {node: fast}\n")
        within(30, lambda: "policy.node" in running.log.read_text())
        config.write_text("policy: {node: binpack}\n")
        within(30, lambda: "settings.applied" in running.log.read_text())
        assert running.get("/api/nodes")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--store", "postgres"), "store"),
        (("--config", "/nowhere.yaml"), "cannot be read"),
        (("-f", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_unusable_options_end_the_start_with_a_sentence(
    options: tuple[str, ...], said: str
) -> None:
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, "serve", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr


TASK_FAILS = """
from adapters.service.runtime import ServiceRuntime

async def tick(self):
    import asyncio
    await asyncio.sleep(1)
    raise RecursionError("of a task")

ServiceRuntime.tick = tick
"""


def test_a_task_that_fails_ends_the_process_with_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "memory", code=TASK_FAILS + CODE) as running:
        with running.connect() as kept:
            request = b"POST /extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
            kept.sendall(request)
            within(30, lambda: "task.failed" in running.log.read_text())
            kept.sendall(b"{}")
            answer = b"".join(iter(lambda: kept.recv(1 << 16), b""))
        assert running.process.wait(30) == 1

    log = running.log.read_text()
    assert b" 503 " in answer
    assert b"a task failed" in answer
    assert "RecursionError" in log
    assert "dragoman: a task failed" in log


WITHOUT_GRPC = "import sys; sys.modules['grpc'] = None\n" + CODE
"""Code that runs the command as if the extra ``dragoman[grpc]`` were not installed."""


def test_without_its_extra_a_grpc_address_ends_the_start_with_what_to_install() -> None:
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", WITHOUT_GRPC, "serve", "-f", str(EXAMPLE), "--store", "memory"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "DRAGOMAN_GRPC": "127.0.0.1:50051", "DRAGOMAN_LISTEN": "127.0.0.1:0"},
    )

    assert found.returncode == 2
    assert "grpc: '127.0.0.1:50051': grpc is not installed" in found.stderr
    assert "pip install 'dragoman[grpc]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_without_its_extra_the_default_serves_and_logs_what_to_install(tmp_path: Path) -> None:
    environment = {**os.environ, "DRAGOMAN_GRPC": "auto"}

    with serving(tmp_path, "--store", "memory", code=WITHOUT_GRPC, env=environment) as running:
        assert running.get("/api/nodes")
        log = running.log.read_text()

    assert "grpc.off" in log
    assert "pip install 'dragoman[grpc]'" in log


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-c", CODE, "serve", "--store", "memory", "--listen", address]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603

    assert found.returncode == 2
    assert "listen" in found.stderr


def shown(address: str, trusted: Path, client: Issued | None = None) -> bytes:
    """The certificate that the port serves."""
    host, _, port = address.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=str(trusted))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if not secure.recv(20).startswith(b"HTTP/1.1 200"):
            raise ConnectionError("not answered")
        return secure.getpeercert(binary_form=True) or b""


def test_a_new_certificate_is_served_without_a_restart_and_an_invalid_one_is_not(
    tmp_path: Path,
) -> None:
    first, second = Issued.make(tmp_path, "first"), Issued.make(tmp_path, "second")
    crt, key = tmp_path / "crt", tmp_path / "key"
    first.copy(crt, key)
    config = tmp_path / "sidecar.yaml"
    config.write_text(f"tls: {{certificate: {crt}, key: {key}}}\n")

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:
        before = shown(running.address, first.authority)
        crt.write_text("garbage")
        within(30, lambda: "certificate.unusable" in running.log.read_text())
        assert shown(running.address, first.authority) == before
        second.copy(crt, key)

        def renewed() -> bool:
            try:
                return shown(running.address, second.authority) != before
            except ssl.SSLError:
                return False

        within(30, renewed)


def test_where_clients_need_a_certificate_others_are_not_answered(tmp_path: Path) -> None:
    own, client = Issued.make(tmp_path, "own"), Issued.make(tmp_path, "client")
    config = tmp_path / "sidecar.yaml"
    pair = f"certificate: {own.certificate}, key: {own.key}"
    config.write_text(f"tls: {{{pair}, clientAuthorities: {client.authority}}}\n")

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:
        assert shown(running.address, own.authority, client)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shown(running.address, own.authority)


def status(address: str, method: str, path: str, authority: Path) -> int:
    """The status of an answer over TLS."""
    host, _, port = address.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
    with contextlib.closing(connection):
        connection.request(method, path, body=b"{}" if method == "POST" else None)
        return connection.getresponse().status


def test_the_webhook_port_has_admission_and_probes_only(tmp_path: Path) -> None:
    own = Issued.make(tmp_path, "own")
    config = tmp_path / "sidecar.yaml"
    pair = f"certificate: {own.certificate}, key: {own.key}"
    config.write_text(f"tls: {{{pair}, listen: 127.0.0.1:0}}\n")

    with serving(tmp_path, "--store", "memory", "--config", str(config)) as running:
        within(30, lambda: "https://" in running.log.read_text())
        (secure,) = re.findall(r"https://127\.0\.0\.1:[0-9]+", running.log.read_text())
        for path in ("/livez", "/readyz"):
            assert status(secure, "GET", path, own.authority) == 200
        for path in ("/admission/pods", "/admission/bindings"):
            assert status(secure, "POST", path, own.authority) == 400
        for path in ("/extender/bind", "/extender/filter", "/volcano/allocate", "/api/explain"):
            assert status(secure, "POST", path, own.authority) == 404
        for path in ("/", "/metrics", "/api/nodes"):
            assert status(secure, "GET", path, own.authority) == 404


@pytest.mark.parametrize("arguments", [[], [str(EXAMPLE)]], ids=["example", "file"])
def test_the_demonstration_places_and_preempts_and_over_allocates_no_card(
    arguments: list[str],
) -> None:
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "0 cards are over-allocated" in found.stdout
    assert "evicts default/koord-running" in found.stdout
    rejected, _, retried = found.stdout.partition("a scheduler retries a pod that did not fit")
    assert "✗ volcano-too-large  volcano          nvidia-1: " in rejected
    assert "✓ volcano-too-large  volcano          bound to lab-1" in retried
    assert found.stderr == ""


BIND = b"POST /extender/bind HTTP/1.1\r\nHost: x\r\n"

BROKEN = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01" * 50,
    "a line without an end": b"GET /" + b"a" * 100_000,
    "headers without an end": b"GET /livez HTTP/1.1\r\n" + b"X-A: b\r\n" * 20_000,
    "less than is announced": BIND + b'Content-Length: 500\r\n\r\n{"PodName":',
    "a length below nothing": BIND + b"Content-Length: -5\r\n\r\n{}",
    "a length that is none": BIND + b"Content-Length: many\r\n\r\n{}",
    "two lengths": BIND + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "more than a binding can be": BIND + b"Content-Length: 3000000\r\n\r\n" + b"[" * 3_000_000,
    "a chunk of no size": BIND + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "chunks without an end": BIND + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "bytes that are no text": BIND + b'Content-Length: 15\r\n\r\n{"PodName":"\xff"}',
    "a path that is no text": b"GET /api/\xff\xfe%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a request in the query": b"GET /api/explain?pod=%ff/%00&uid=%f0 HTTP/1.1\r\nHost: x\r\n\r\n",
}


def test_broken_requests_over_the_wire_do_not_disturb_others(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "memory") as running:
        port = int(running.address.rpartition(":")[2])
        before, passed = running.get("/api/pods"), []
        for what, sent in BROKEN.items():
            with socket.create_connection(("127.0.0.1", port), 10) as wire:
                answer = _answer(wire, sent)
            if b" 200 " in answer.partition(b"\r\n")[0]:
                passed.append(what)
            assert running.get("/api/pods") == before, what

        assert running.stop() == 0
        log = running.log.read_text()
    assert passed == []
    assert "Traceback" not in log
    assert "call.failed" not in log


def _answer(wire: socket.socket, sent: bytes) -> bytes:
    """All bytes that arrive until the other end closes or stays silent."""
    wire.settimeout(1)
    try:
        wire.sendall(sent)
        wire.shutdown(socket.SHUT_WR)
        return wire.recv(1 << 16)
    except OSError:
        return b""
