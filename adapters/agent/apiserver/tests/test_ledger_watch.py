"""The watch against a server whose answers a test sets."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from adapters.agent.apiserver import ledger as ledger_watch
from adapters.agent.apiserver.credentials import (
    AgentCredentials,
    CredentialsError,
    of_kubeconfig,
    of_pod,
)
from adapters.agent.apiserver.ledger import LedgerWatch, StatusHandler
from adapters.agent.grants import GrantStatus, LedgerGrants
from adapters.agent.tests.builders import ledger
from adapters.tests import waiting
from adapters.wire.records.ledger import encode
from core.hardware.quantity import GIB
from core.requests.grant import Grant

Answer = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


def thing(version: str, uid: str = "uid-1") -> dict[str, object]:
    held = json.loads(encode(ledger(Grant("main", "GPU-1", GIB, 50), uid=uid)))
    return {"metadata": {"name": "a", "resourceVersion": version}, "spec": held}


def listed(*things: object) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": things}).encode()


def event(kind: str, what: object) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode() + b"\n"


async def plain(writer: asyncio.StreamWriter, body: bytes, status: str = "200 OK") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def chunked(writer: asyncio.StreamWriter, *pieces: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in pieces:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()


def ignore(_: object) -> None:
    pass


def follow(
    *answers: Answer, until: Callable[[LedgerGrants], bool], on_status: StatusHandler = ignore
) -> list[str]:
    """Give the answers in turn, the last one again and again; the requests that came."""
    requests: list[str] = []

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                request = (await reader.readuntil(b"\r\n\r\n")).decode()
                requests.append(request)
                await answers[min(len(requests), len(answers)) - 1](writer, request)
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        grants = LedgerGrants()
        watch = LedgerWatch(AgentCredentials("127.0.0.1", port, None), "a", grants, on_status)
        task = asyncio.ensure_future(watch.run())
        await waiting.until(lambda: until(grants))
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for other in (task, *others):
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.02)  # transports close in the next turns of the loop

    asyncio.run(run())
    return requests


async def hold(_: asyncio.StreamWriter, __: str) -> None:
    await asyncio.sleep(10)


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_watch, "MIN_RETRY_DELAY", 0.01)


def knows(uid: str) -> Callable[[LedgerGrants], bool]:
    return lambda grants: grants.lookup(uid, "other") is GrantStatus.NO_SHARE


def test_the_ledger_is_listed_and_then_watched() -> None:
    async def one(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("1")))

    async def two(writer: asyncio.StreamWriter, _: str) -> None:
        lines = event("BOOKMARK", {"metadata": {"resourceVersion": "5"}}) + event(
            "MODIFIED", thing("7", "uid-2")
        )
        await chunked(writer, lines[:100], lines[100:])
        await asyncio.sleep(10)

    requests = follow(one, two, until=knows("uid-2"))

    assert "fieldSelector=metadata.name%3Da" in requests[0]
    assert "watch=1" in requests[1]
    assert "resourceVersion=1" in requests[1]


def test_a_watch_that_ends_continues_from_its_last_version() -> None:
    async def one(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed())

    async def two(writer: asyncio.StreamWriter, _: str) -> None:
        await chunked(writer, event("ADDED", thing("7")), b"")

    async def three(writer: asyncio.StreamWriter, _: str) -> None:
        await chunked(writer, event("MODIFIED", thing("9", "uid-3")))
        await asyncio.sleep(10)

    requests = follow(one, two, three, until=knows("uid-3"))

    assert "resourceVersion=7" in requests[2]


def test_a_version_that_is_too_old_leads_to_a_new_list() -> None:
    async def one(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed())

    async def two(writer: asyncio.StreamWriter, _: str) -> None:
        await chunked(writer, event("ERROR", {"code": 410}))

    async def three(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("9", "uid-4")))

    follow(one, two, three, hold, until=knows("uid-4"))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    ],
)
def test_the_watch_lists_again_after_an_invalid_answer(nonsense: bytes) -> None:
    async def bad(writer: asyncio.StreamWriter, _: str) -> None:
        writer.write(nonsense)
        await writer.drain()

    async def good(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("1")))

    follow(bad, good, hold, until=knows("uid-1"))


@pytest.mark.parametrize("last", [event("DELETED", thing("8")), event("MODIFIED", {"spec": {}})])
def test_without_a_ledger_no_container_has_a_share_but_the_cards_stay(last: bytes) -> None:
    known = asyncio.Event()

    async def one(writer: asyncio.StreamWriter, _: str) -> None:
        await plain(writer, listed(thing("1")))

    async def two(writer: asyncio.StreamWriter, _: str) -> None:
        await known.wait()
        await chunked(writer, last)
        await asyncio.sleep(10)

    def until(grants: LedgerGrants) -> bool:
        if knows("uid-1")(grants):
            known.set()
        return (
            known.is_set()
            and grants.lookup("uid-1", "main") is GrantStatus.NOT_RECORDED
            and bool(grants.cards())
        )

    follow(one, two, until=until)


def test_a_pod_without_a_service_account_has_no_credentials(tmp_path: Path) -> None:
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    for environment in ({}, inside, inside | {"KUBERNETES_SERVICE_PORT": "x"}):
        with pytest.raises(CredentialsError, match="not in a pod") as caught:
            of_pod(environment, tmp_path)
        assert "Error(" not in str(caught.value)
        assert str(caught.value).endswith("; set ledger.kubeconfig, or ledger.file")


def test_a_token_is_read_for_each_request(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    credentials = AgentCredentials("h", 1, None, tmp_path / "token")

    assert ("Authorization", "Bearer one") in credentials.headers()
    (tmp_path / "token").write_text("two")
    assert ("Authorization", "Bearer two") in credentials.headers()


@pytest.mark.parametrize(
    ("user", "server", "problem"),
    [
        ({"exec": {}}, "https://h", "needs another program"),
        ({}, "h", "not a server"),
        (
            {"client-certificate": "nowhere", "client-key": "nowhere"},
            "https://h",
            "nowhere|No such",
        ),
    ],
)
def test_an_unusable_kubeconfig_is_rejected(
    tmp_path: Path, user: object, server: str, problem: str
) -> None:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(content))

    with pytest.raises(CredentialsError, match=problem):
        of_kubeconfig(path)
    path.write_text("{}")
    with pytest.raises(CredentialsError, match="current-context is missing"):
        of_kubeconfig(path)


def test_a_kubeconfig_without_tls_is_accepted(tmp_path: Path) -> None:
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(content))

    assert of_kubeconfig(tmp_path / "config") == AgentCredentials("127.0.0.1", 8001, None)
