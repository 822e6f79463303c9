"""Where the gRPC port listens: sockets, addresses, health and reflection."""

import asyncio
import socket
import sys
from pathlib import Path
from subprocess import run as run_command
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.service.grpc.server import SERVICE, GrpcServer
from adapters.service.grpc.tests.client import Connected, on
from adapters.service.settings.settings import read
from adapters.service.tests.builders import (
    a_node,
    a_pod,
    a_service,
)
from adapters.service.tests.process import serving
from e2e.harness.processes.waiting import within

REPOSITORY = Path(__file__).parents[4]


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
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=True)
        modes = [each.stat().st_mode & 0o777 for each in (path, path.parent)]
        (folder / "other").mkdir()
        with serving(folder / "other", "--store", "memory") as second:
            within(30, lambda: "another service listens" in second.log.read_text())
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
        within(30, lambda: "grpc.off" in running.log.read_text())
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
    where = Path("adapters/service/grpc")
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs]

    run_command([*command, str(where / "dragoman.proto")], cwd=REPOSITORY, check=True)  # noqa: S603

    for made in sorted((tmp_path / where).iterdir()):
        assert made.read_bytes() == (REPOSITORY / where / made.name).read_bytes(), "make proto"
