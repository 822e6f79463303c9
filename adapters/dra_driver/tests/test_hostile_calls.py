"""Calls at the wrong time, twice or at once, files that are cut off, and a process that was killed.

Each test is a row of the table in docs/concepts/security.md.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc.aio
import msgspec
import pytest

from adapters.dialects.dra import DRIVER
from adapters.dra_driver import preparation
from adapters.dra_driver.health import DeviceHealth
from adapters.dra_driver.preparation import ClaimRef
from adapters.dra_driver.proto import dra_v1_pb2, dra_v1_pb2_grpc
from adapters.dra_driver.sockets import plugin_socket, registration_socket, serving
from adapters.dra_driver.tests.node import NAMESPACE, DriverNode, grant
from adapters.wire.dra import ResourceClaim
from core.requests.limits import GrantError


@pytest.fixture
def node(tmp_path: Path) -> DriverNode:
    return DriverNode(tmp_path)


@pytest.fixture
def ref(node: DriverNode) -> ClaimRef:
    made = node.add_claim("a", grant(1, 8))
    node.commit(made, grant(1, 8))
    node.add_pod(main=[{"name": "a"}])
    return made


def prepare(node: DriverNode, ref: ClaimRef) -> Any:
    return asyncio.run(node.preparer().prepare(ref))


def left(node: DriverNode) -> list[str]:
    return sorted(path.name for path in node.cdi.iterdir()) if node.cdi.is_dir() else []


def file_of(node: DriverNode, ref: ClaimRef) -> Path:
    return node.cdi / f"dragoman.dev-share_{ref.uid}.json"


def test_calls_at_once_have_the_result_of_calls_one_after_the_other(
    node: DriverNode, ref: ClaimRef
) -> None:
    first = prepare(node, ref)
    preparer = node.preparer()

    async def tried() -> None:
        calls = [preparer.prepare, preparer.unprepare] * 20
        answers = await asyncio.gather(*(call(ref) for call in calls), preparer.prepare(ref))
        assert {each for each in answers if each is not None} == {first}

    asyncio.run(tried())
    assert left(node) == [file_of(node, ref).name]
    asyncio.run(preparer.unprepare(ref))
    assert left(node) == []


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_file_that_was_cut_off_or_is_of_another_version_is_written_again(
    node: DriverNode, ref: ClaimRef, kept: int
) -> None:
    first = prepare(node, ref)
    path = file_of(node, ref)
    whole = path.read_bytes()

    for content in (whole[:kept], b'{"cdiVersion":"0.6.0","kind":"dragoman.dev/share"}', b"\xff"):
        path.write_bytes(content)
        assert prepare(node, ref) == first
        assert path.read_bytes() == whole


def test_a_driver_that_was_killed_while_it_wrote_leaves_nothing(
    node: DriverNode, ref: ClaimRef
) -> None:
    node.cdi.mkdir()
    part = file_of(node, ref).with_suffix(".part")
    part.write_bytes(b'{"cdiVersion')

    asyncio.run(node.preparer().unprepare(ref))

    assert left(node) == []


def test_a_folder_that_is_full_or_cannot_be_written_prepares_nothing(
    node: DriverNode, ref: ClaimRef
) -> None:
    node.cdi.touch()
    with pytest.raises(OSError, match="exists"):
        prepare(node, ref)
    node.cdi.unlink()
    node.cdi.mkdir()
    file_of(node, ref).with_suffix(".part").symlink_to("/dev/full")

    with pytest.raises(OSError, match="No space left"):
        prepare(node, ref)

    assert left(node) == []
    assert prepare(node, ref)


@pytest.mark.parametrize("content", [None, b"{"])
def test_a_container_whose_claims_file_is_lost_keeps_its_folder(
    node: DriverNode, ref: ClaimRef, content: bytes | None
) -> None:
    """With another one, its next process would not count what the earlier ones have."""
    prepare(node, ref)
    region = node.folder / "containers" / "pod-uid_main" / "region"
    region.touch()

    if content is None:
        file_of(node, ref).unlink()
    else:
        file_of(node, ref).write_bytes(content)
    prepare(node, ref)

    assert region.exists()


def with_results(node: DriverNode, *results: dict[str, object]) -> None:
    """The claim gets other devices."""
    status = {
        "allocation": {"devices": {"results": list(results)}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "pod-uid"}],
    }
    metadata = {"name": "a", "namespace": NAMESPACE, "uid": "uid-a"}
    text = msgspec.json.encode({"metadata": metadata, "status": status})
    node.objects.claims["a"] = msgspec.json.decode(text, type=ResourceClaim)


def result(device: str, **more: object) -> dict[str, object]:
    return {"request": "r0", "driver": DRIVER, "pool": "n1", "device": device, **more}


def test_a_claim_that_moved_while_it_was_prepared_is_refused_until_it_is_removed(
    node: DriverNode, ref: ClaimRef
) -> None:
    """A container would get the card that the ledger has given up."""
    prepare(node, ref)
    with_results(node, result("gpu-0", shareID="share-0"))
    node.commit(ref, grant(0, 8))

    with pytest.raises(GrantError, match="is prepared with other devices"):
        prepare(node, ref)

    asyncio.run(node.preparer().unprepare(ref))
    (found,) = prepare(node, ref)
    assert found.device == "gpu-0"


def test_a_claim_that_vanished_or_was_replaced_stays_prepared_until_it_is_removed(
    node: DriverNode, ref: ClaimRef
) -> None:
    """The claim's container may run, and the kubelet asks again after a restart."""
    first = prepare(node, ref)

    node.objects.claims.clear()
    assert prepare(node, ref) == first
    again = ClaimRef(NAMESPACE, "a", "uid-again")
    node.add_claim("a", grant(1, 8))
    with pytest.raises(GrantError, match="was replaced"):
        prepare(node, again)
    asyncio.run(node.preparer().unprepare(ref))
    assert left(node) == []


def test_a_claim_for_administration_is_refused_at_once_with_the_reason(
    node: DriverNode, ref: ClaimRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "LEDGER_WAIT", 60.0)
    with_results(node, result("gpu-1", adminAccess=True))
    node.grants.replace(node.ledger.release(ref.uid))

    with pytest.raises(GrantError, match="administration"):
        asyncio.run(asyncio.wait_for(node.preparer().prepare(ref), 5))


@pytest.mark.parametrize("device", ["../../etc", "gpu-1/../gpu-0", "", "gpu-1\0"])
def test_names_that_lead_elsewhere_are_no_device(
    node: DriverNode, ref: ClaimRef, device: str
) -> None:
    with_results(node, result(device, pool="../..", request="../../r"))

    with pytest.raises(GrantError, match="this node has no device"):
        prepare(node, ref)
    assert left(node) == []


def serve(node: DriverNode, kubelet: Path) -> Any:
    return serving(kubelet, node.preparer(), DeviceHealth(lambda: None, dict))


async def prepared(path: Path, count: int = 1) -> Any:
    """The answer of the first of ``count`` connections."""
    claim = dra_v1_pb2.Claim(namespace=NAMESPACE, name="a", uid="uid-a")
    request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim] * 2)

    async def one(number: int) -> Any:
        options = [("grpc.use_local_subchannel_pool", 1), ("test.number", number)]
        async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
            stub: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)  # type: ignore[no-untyped-call]  # generated
            return await stub.NodePrepareResources(request, timeout=20)

    first, *rest = await asyncio.gather(*map(one, range(count)))
    assert all(each == first for each in rest)
    return first


def test_garbage_and_many_connections_leave_the_driver_as_it_was(
    node: DriverNode, ref: ClaimRef
) -> None:
    async def tried(kubelet: Path) -> None:
        path = plugin_socket(kubelet)
        method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        async with serve(node, kubelet):
            for content in (b"\xff" * 64, b"\x0a\xff\xff\xff\xff\x0f", b"\0" * (5 << 20)):
                async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
                    call: Any = channel.unary_unary(method)
                    with pytest.raises(grpc.aio.AioRpcError):
                        await call(content, timeout=10)
            for raw in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 10_000):
                _, writer = await asyncio.open_unix_connection(path)
                writer.write(raw)
                await writer.drain()
                writer.close()
            answer = await prepared(path, 50)
            assert [each.error for each in answer.claims.values()] == [""]

    with TemporaryDirectory(prefix="dra") as folder:
        asyncio.run(tried(Path(folder)))
    assert left(node) == [file_of(node, ref).name]


def test_a_driver_that_ends_leaves_the_sockets_of_the_next_one(
    node: DriverNode, ref: ClaimRef
) -> None:
    """A pod that is deleted by force ends after the next one has started."""

    async def tried(kubelet: Path) -> None:
        earlier = serve(node, kubelet)
        await earlier.__aenter__()
        async with serve(node, kubelet):
            await earlier.__aexit__(None, None, None)
            assert registration_socket(kubelet).is_socket()
            assert (await prepared(plugin_socket(kubelet))).claims[ref.uid].error == ""
        assert not registration_socket(kubelet).exists()
        assert [path for path in kubelet.rglob("*") if not path.is_dir()] == []

    with TemporaryDirectory(prefix="dra") as folder:
        asyncio.run(tried(Path(folder)))
