"""The gRPC port over a real unix socket: every call, every error, health and reflection."""

import asyncio
import json
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import run as run_command
from typing import Any

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from adapters.dialects.adopt import adopt
from adapters.sidecar.decide.ports import BindError, Outcome
from adapters.sidecar.grpc import dragoman_pb2 as pb
from adapters.sidecar.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.sidecar.grpc.credentials import credentials
from adapters.sidecar.grpc.server import SERVICE, GrpcServer
from adapters.sidecar.settings import GrpcTls, SettingsError, read
from adapters.sidecar.tests.builders import (
    DIALECTS,
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    read_pod,
)
from adapters.sidecar.tests.test_serve import make_certificate, serving
from adapters.stores.store import StoreError
from adapters.tests.waiting import within
from core.hardware.quantity import MIB
from core.requests.pod_ref import PodRef

REPOSITORY = Path(__file__).parents[3]


@dataclass
class Connected:
    """A client with its service."""

    bench: Bench
    server: GrpcServer
    channel: grpc.aio.Channel
    failures: list[Exception]

    def __post_init__(self) -> None:
        self.stub: Any = pb_grpc.DragomanStub(self.channel)  # type: ignore[no-untyped-call]

    async def allocate(self, name: str, *nodes: str, bind: bool = False) -> Any:
        wanted = pb.AllocateRequest(pod=pb.Pod(name=name), nodes=nodes, bind=bind)
        return await self.stub.Allocate(wanted)

    async def refused(self, call: Coroutine[Any, Any, Any]) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.value.code().name, caught.value.details() or ""

    def allocations(self) -> int:
        return sum(len(ledger.allocations) for ledger in self.bench.service.ledgers.inventory)


@asynccontextmanager
async def connected(folder: Path, *pods: Json) -> AsyncIterator[Connected]:
    bench = await a_service(pods=pods)
    failures: list[Exception] = []

    def failed(_: str, error: Exception) -> str:
        failures.append(error)
        return "n-1"

    listen = f"unix:{folder / 's'}"
    server = GrpcServer(bench.service, listen, failed)
    await server.start()
    running = asyncio.create_task(server.run())
    try:
        async with grpc.aio.insecure_channel(listen) as channel:
            yield Connected(bench, server, channel, failures)
    finally:
        running.cancel()
        await server.stop()


Test = Callable[[Connected], Coroutine[Any, Any, None]]


def on(folder: Path, *pods: Json) -> Callable[[Test], None]:
    """Run a test at once, on a service with these pods."""

    def tried(test: Test) -> None:
        async def main() -> None:
            async with connected(folder, *pods) as client:
                await test(client)

        asyncio.run(main())

    return tried


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("g")  # the path of a socket must be short


def test_a_repeated_allocate_gives_the_same_committed_cards(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        first = await client.allocate("p")
        again = await client.allocate("p")

        assert (first.node, list(first.grants)) == (again.node, list(again.grants))
        assert first.grants[0].memory == 4000 * MIB
        assert not first.bound
        assert first.annotations["volcano.sh/vgpu-node"] == first.node
        assert client.allocations() == 1
        assert client.bench.cluster.bindings == 0
        assert client.bench.decision_log.decisions[-1].outcome is Outcome.HELD


def test_allocate_with_bind_binds_the_pod(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        given = await client.allocate("p", "n2", bind=True)

        pod = await client.bench.cluster.get(PodRef("default", "p"))
        assert pod is not None
        assert (given.node, given.bound) == ("n2", True)
        assert pod.spec.node_name == "n2"
        ledger = client.bench.service.ledgers.ledger("n2")
        assert ledger is not None
        found = adopt(pod, ledger.node, DIALECTS)
        assert found is not None
        assert [grant.card for grant in found.grants] == [grant.card for grant in given.grants]
        assert await client.refused(client.allocate("p")) == (
            "FAILED_PRECONDITION",
            "pod default/p is bound already, or has finished",
        )
        wanted = pb.ReleaseRequest(uid="uid-p", node="n2", attempt=given.attempt)
        code, _ = await client.refused(client.stub.Release(wanted))
        assert code == "FAILED_PRECONDITION"
        assert client.allocations() == 1


def test_only_the_latest_attempt_can_release_an_allocation(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        first = await client.allocate("p")
        again = await client.allocate("p")

        def released(attempt: int) -> Any:
            wanted = pb.ReleaseRequest(uid="uid-p", node=first.node, attempt=attempt)
            return client.stub.Release(wanted)

        code, text = await client.refused(released(first.attempt))
        assert code == "FAILED_PRECONDITION"
        assert "later attempt" in text
        assert (await released(again.attempt)).released
        assert not (await released(again.attempt)).released
        assert client.allocations() == 0


def test_a_stale_watch_does_not_release_the_cards_of_a_bound_pod(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.cluster.late["default/p"] = read_pod(a_pod())
        given = await client.allocate("p", "n2", bind=True)

        wanted = pb.ReleaseRequest(uid="uid-p", node="n2", attempt=given.attempt)
        code, text = await client.refused(client.stub.Release(wanted))

        assert (code, client.allocations()) == ("FAILED_PRECONDITION", 1)
        assert "is bound" in text


def test_every_refusal_has_a_status_code_and_a_reason(folder: Path) -> None:
    pods = (a_pod("big", memory=9000), a_pod("bad", memory="-1"), a_pod("none", limits={"cpu": 1}))

    @on(folder, *pods, a_pod())
    async def _(client: Connected) -> None:
        code, text = await client.refused(client.allocate("big"))
        assert code == "RESOURCE_EXHAUSTED"
        assert "memory 808 MiB short" in text
        assert client.bench.decision_log.decisions[-1].outcome is Outcome.REFUSED
        code, text = await client.refused(client.allocate("bad"))
        assert code == "INVALID_ARGUMENT"
        assert "vgpu-memory" in text
        assert (await client.refused(client.allocate("none")))[0] == "FAILED_PRECONDITION"
        assert (await client.refused(client.allocate("unknown")))[0] == "NOT_FOUND"
        assert (await client.refused(client.allocate("p", "nowhere")))[0] == "RESOURCE_EXHAUSTED"
        assert client.allocations() == 0
        await client.allocate("p", "n1")
        assert (await client.refused(client.allocate("p", "n2")))[0] == "ALREADY_EXISTS"


def test_a_binding_that_fails_is_no_success(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.cluster.answers = [BindError(403, "no"), BindError(0, "silence")]

        assert await client.refused(client.allocate("p", bind=True)) == ("ABORTED", "403: no")
        assert client.allocations() == 0
        assert await client.refused(client.allocate("p", bind=True)) == ("UNAVAILABLE", "silence")
        assert client.allocations() == 1


def test_errors_of_the_store_and_unexpected_errors_have_their_status_codes(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        client.bench.store.failures = [StoreError("gone")]
        assert await client.refused(client.allocate("p")) == ("UNAVAILABLE", "gone")

        client.bench.service.pod_requests.read = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]

        code, text = await client.refused(client.allocate("p"))
        assert (code, text.split()[-1]) == ("INTERNAL", "n-1")
        assert isinstance(client.failures[0], ZeroDivisionError)


def test_concurrent_allocates_never_share_a_full_card(folder: Path) -> None:
    pods = [a_pod(f"p{number}", memory=8192) for number in range(8)]

    @on(folder, *pods)
    async def _(client: Connected) -> None:
        asked = (client.allocate(f"p{number}") for number in range(8))
        given = await asyncio.gather(*asked, return_exceptions=True)

        won = [each for each in given if isinstance(each, pb.AllocateResponse)]
        assert len(won) == 4
        assert len({grant.card for each in won for grant in each.grants}) == 4
        assert all(not ledger.problems() for ledger in client.bench.service.ledgers.inventory)


def test_explain_answers_for_known_pods_and_manifests_and_allocates_nothing(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        known = await client.stub.Explain(pb.ExplainRequest(pod=pb.Pod(name="p")))
        assert sorted(known.fits) == ["n1", "n2"]
        assert known.best in known.fits
        assert known.dialect == "volcano"
        big = pb.ExplainRequest(manifest=orjson.dumps(a_pod("big", memory=9000)))
        found = await client.stub.Explain(big)
        assert found.refused["n1"] == "2 of 2 cards: memory 808 MiB short"
        assert (found.best, list(found.preemption_may_help)) == ("", [])
        assert found.summary.startswith("0 of 2 nodes fit")
        plain = pb.ExplainRequest(manifest=orjson.dumps(a_pod("q", limits={"cpu": 1})))
        assert (await client.stub.Explain(plain)).dialect == ""
        for garbage in (b"", b"{", b"\xff"):
            call = client.stub.Explain(pb.ExplainRequest(manifest=garbage))
            assert (await client.refused(call))[0] == "INVALID_ARGUMENT"
        assert client.allocations() == 0


def test_cards_are_listed_page_by_page_with_their_sharers(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        given = await client.allocate("p", "n2")

        first = await client.stub.ListCards(pb.ListCardsRequest(page_size=1))
        assert {card.node for card in first.cards} == {"n1"}
        token = first.next_page_token
        last = await client.stub.ListCards(pb.ListCardsRequest(page_size=1, page_token=token))
        assert last.next_page_token == ""
        (used,) = [card for card in last.cards if card.sharers]
        assert used.uuid == given.grants[0].card
        assert (used.used_memory, used.used_slots, used.mode) == (4000 * MIB, 1, "shared")
        assert [(one.pod, one.state) for one in used.sharers] == [("default/p", "committed")]
        one = await client.stub.ListCards(pb.ListCardsRequest(node="n1"))
        assert len(one.cards) == 2
        assert not (await client.stub.ListCards(pb.ListCardsRequest(node="n9"))).cards


def test_a_watch_sends_all_nodes_then_each_change(folder: Path) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        call = client.stub.WatchLedger(pb.WatchLedgerRequest())
        sent = [await call.read() for _ in range(3)]
        assert [each.node for each in sent] == ["n1", "n2", ""]
        assert sent[2].synced

        await client.allocate("p", "n2")
        change = await call.read()
        assert (change.node, change.version > sent[1].version) == ("n2", True)
        assert sum(len(card.sharers) for card in change.cards) == 1

        stored = await client.bench.store.read("n1")
        assert stored is not None
        await client.bench.store.delete("n1", stored.version)
        await client.bench.sync()
        gone = await call.read()
        assert (gone.node, gone.gone) == ("n1", True)
        call.cancel()


def test_a_watch_of_some_nodes_sends_no_others(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        call = client.stub.WatchLedger(pb.WatchLedgerRequest(nodes=["n2"]))

        assert [(await call.read()).node for _ in range(2)] == ["n2", ""]
        call.cancel()


def test_calls_are_unavailable_and_health_is_not_serving_before_the_ledgers_are_synced(
    folder: Path,
) -> None:
    @on(folder, a_pod())
    async def _(client: Connected) -> None:
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        states = {(await watch.read()).status}
        while health_pb2.HealthCheckResponse.SERVING not in states:
            states = {(await watch.read()).status}
        client.bench.service.readiness.mark_unsynced("pods")

        for call in (
            client.allocate("p"),
            client.stub.Release(pb.ReleaseRequest()),
            client.stub.Explain(pb.ExplainRequest()),
            client.stub.ListCards(pb.ListCardsRequest()),
            client.stub.WatchLedger(pb.WatchLedgerRequest()).read(),
        ):
            assert await client.refused(call) == ("UNAVAILABLE", "waiting for: pods")
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


def test_reflection_describes_the_calls(folder: Path) -> None:
    @on(folder)
    async def _(client: Connected) -> None:
        channel: Any = client.channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([asked]))

        answer = await call.read()

        names = {each.name for each in answer.list_services_response.service}
        assert {SERVICE, "grpc.health.v1.Health"} <= names


def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))

    @on(folder)
    async def _(client: Connected) -> None:
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(OSError, match="another service"):
            GrpcServer(client.bench.service, f"unix:{path}", lambda *_: "")

    assert not path.exists()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "example.org:1"])
def test_without_tls_only_loopback_addresses_are_accepted(listen: str) -> None:
    async def main() -> None:
        bench = await a_service(a_node("n1"))
        with pytest.raises(OSError, match="loopback address, or grpcTls must be set"):
            GrpcServer(bench.service, listen, lambda *_: "")

    asyncio.run(main())


def test_a_file_is_not_replaced_by_a_socket_and_a_loopback_port_is_accepted(folder: Path) -> None:
    path = folder / "file"
    path.write_text("mine")

    async def main() -> None:
        bench = await a_service(a_node("n1"))
        with pytest.raises(OSError, match="is no socket"):
            GrpcServer(bench.service, f"unix:{path}", lambda *_: "")
        server = GrpcServer(bench.service, "127.0.0.1:0", lambda *_: "")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub: Any = pb_grpc.DragomanStub(channel)  # type: ignore[no-untyped-call]
            assert len((await stub.ListCards(pb.ListCardsRequest())).cards) == 2
        await server.stop()

    asyncio.run(main())


async def cards_over_tls(port: int, server: Path, client: tuple[Path, Path] | None) -> int:
    """How many cards a client lists that trusts a server, with a certificate or without."""
    shown = [each.read_bytes() for each in client[::-1]] if client else [None, None]
    believed = grpc.ssl_channel_credentials(server.read_bytes(), *shown)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", believed) as channel:
        stub: Any = pb_grpc.DragomanStub(channel)  # type: ignore[no-untyped-call]
        return len((await stub.ListCards(pb.ListCardsRequest(), timeout=5)).cards)


def test_over_tls_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    own, client, stranger = (
        make_certificate(tmp_path, name) for name in ("own", "client", "stranger")
    )
    tls = GrpcTls(certificate=own[0], key=own[1], client_authorities=client[0])

    async def main() -> int:
        bench = await a_service(a_node("n1"))
        proof = credentials(tls, lambda text: pytest.fail(text))
        server = GrpcServer(bench.service, "0.0.0.0:0", lambda *_: "", proof)
        await server.start()
        for shown in (None, stranger):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await cards_over_tls(server.port, own[0], shown)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        found = await cards_over_tls(server.port, own[0], client)
        await server.stop()
        return found

    assert asyncio.run(main()) == 2


def test_a_new_certificate_serves_the_next_connection_and_an_invalid_one_is_reported(
    tmp_path: Path,
) -> None:
    first, second, client = (
        make_certificate(tmp_path, name) for name in ("first", "second", "client")
    )
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    problems: list[str] = []

    def put(chain: bytes, secret: Path) -> None:
        crt.write_bytes(chain)
        key.write_bytes(secret.read_bytes())

    async def main() -> list[int]:
        bench = await a_service(a_node("n1"))
        put(first[0].read_bytes(), first[1])
        tls = GrpcTls(certificate=crt, key=key, client_authorities=client[0])
        server = GrpcServer(
            bench.service, "127.0.0.1:0", lambda *_: "", credentials(tls, problems.append)
        )
        await server.start()
        seen = [await cards_over_tls(server.port, first[0], client)]
        put(b"nonsense", first[1])
        seen.append(await cards_over_tls(server.port, first[0], client))
        put(second[0].read_bytes(), second[1])
        seen.append(await cards_over_tls(server.port, second[0], client))
        await server.stop()
        return seen

    assert asyncio.run(main()) == [2, 2, 2]
    assert len(problems) == 1
    assert "grpcTls" in problems[0]


def test_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    own = make_certificate(tmp_path, "own")
    missing = tmp_path / "missing"

    with pytest.raises(SettingsError, match="grpcTls: the certificate"):
        credentials(GrpcTls(certificate=missing, key=own[1], client_authorities=own[0]), print)
    with pytest.raises(SettingsError, match=r"grpcTls\.clientAuthorities"):
        credentials(GrpcTls(certificate=own[0], key=own[1], client_authorities=missing), print)


TLS_KEYS = {"certificate": "a", "key": "b", "clientAuthorities": "c"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"grpc": "0.0.0.0:9596"}, "grpc: '0.0.0.0:9596': is reached from other machines"),
        ({"grpc": "example.org:1"}, "set grpcTls"),
        ({"grpc": "auto", "grpcTls": TLS_KEYS}, "must be HOST:PORT"),
        ({"grpc": "0.0.0.0:1", "grpcTls": {"certificate": "a"}}, "grpcTls.key"),
        ({"grpc": "somewhere"}, "grpc"),
    ],
)
def test_a_reachable_port_requires_tls_with_client_certificates(
    settings: Json, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(settings))

    with pytest.raises(SettingsError, match=re.escape(problem)):
        read(file, {})


def test_the_forms_of_the_listen_address() -> None:
    assert read(None, {}).grpc == "auto"
    for said in ("off", "unix:a", "127.0.0.1:1", "[::1]:1", "localhost:1"):
        assert read(None, {"DRAGOMAN_GRPC": said}).grpc == said


def test_off_in_yaml_needs_no_quotes(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("grpc: off\n")

    assert read(file, {}).grpc == "off"


def test_the_default_socket_is_in_the_runtime_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("DRAGOMAN_GRPC", "auto")
    path = folder / "dragoman" / "grpc.sock"

    with (
        serving(folder, "--store", "memory") as running,
        grpc.insecure_channel(f"unix:{path}") as c,
    ):
        health: Any = health_pb2_grpc.HealthStub(c)
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True)
        modes = [each.stat().st_mode & 0o777 for each in (path, path.parent)]
        (folder / "other").mkdir()
        with serving(folder / "other", "--store", "memory") as second:
            within(10, lambda: "another service listens" in second.log.read_text())
            assert second.get("/api/nodes")
        assert running.stop() == 0

    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert modes == [0o600, 0o700]


def test_the_service_runs_without_grpc_where_the_default_socket_cannot_be_created(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "missing"))
    monkeypatch.setenv("DRAGOMAN_GRPC", "auto")

    with serving(folder, "--store", "memory") as running:
        within(10, lambda: "grpc.off" in running.log.read_text())
        assert running.get("/api/nodes")
        assert running.stop() == 0


def test_the_process_listens_on_the_configured_socket_and_removes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = f"unix:{folder / 's'}"
    monkeypatch.setenv("DRAGOMAN_GRPC", listen)

    with serving(folder, "--store", "memory") as running:
        running.get("/local/pods", a_pod())
        with grpc.insecure_channel(listen) as channel:
            stub: Any = pb_grpc.DragomanStub(channel)  # type: ignore[no-untyped-call]
            wanted = pb.AllocateRequest(pod=pb.Pod(name="p"), bind=True)
            given = stub.Allocate(wanted)
            cards = stub.ListCards(pb.ListCardsRequest(node=given.node)).cards
            watch = stub.WatchLedger(pb.WatchLedgerRequest())
            assert next(watch).node
            log = running.log.read_text()
            assert running.stop() == 0
    assert [one.uid for card in cards for one in card.sharers].count("uid-p") == 1
    assert not (folder / "s").exists()
    assert "Traceback" not in log


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    where = Path("adapters/sidecar/grpc")
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs]

    run_command([*command, str(where / "dragoman.proto")], cwd=REPOSITORY, check=True)  # noqa: S603

    for made in sorted((tmp_path / where).iterdir()):
        assert made.read_bytes() == (REPOSITORY / where / made.name).read_bytes(), "make proto"
