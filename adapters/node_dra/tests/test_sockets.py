"""The kubelet's side: it finds the registration's socket, and calls the endpoint that it names."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc.aio
import pytest

from adapters.dialects.dra import DRIVER
from adapters.node_dra.proto import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    registration_pb2,
    registration_pb2_grpc,
)
from adapters.node_dra.sockets import plugin_socket, registration_socket, serving
from adapters.node_dra.tests.node import NAMESPACE, DriverNode, grant

CALLS: dict[str, tuple[Any, Any]] = {
    "v1": (dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub),
    "v1beta1": (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub),
}


@pytest.fixture
def node(tmp_path: Path) -> DriverNode:
    made = DriverNode(tmp_path)
    ref = made.add_claim("a", grant(1, 8))
    made.commit(ref, grant(1, 8))
    made.add_pod(main=[{"name": "a"}])
    return made


def with_channel(
    node: DriverNode, steps: Callable[[grpc.aio.Channel, Path], Coroutine[Any, Any, None]]
) -> None:
    """The sockets are in a folder with a short name: their paths have 107 bytes at most."""

    async def scenario(kubelet: Path) -> None:
        async with (
            serving(kubelet, node.preparer()),
            grpc.aio.insecure_channel(f"unix:{plugin_socket(kubelet)}") as channel,
        ):
            await steps(channel, kubelet)

    with TemporaryDirectory(prefix="dra") as folder:
        asyncio.run(scenario(Path(folder)))
        assert not registration_socket(Path(folder)).exists()


def test_the_registration_names_the_plugin_and_its_versions(node: DriverNode) -> None:
    async def steps(_: grpc.aio.Channel, kubelet: Path) -> None:
        path = registration_socket(kubelet)
        assert path.parent.name == "plugins_registry"
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            stub: Any = registration_pb2_grpc.RegistrationStub(channel)  # type: ignore[no-untyped-call]  # generated
            found = await stub.GetInfo(registration_pb2.InfoRequest())
            for registered in (True, False):
                status = registration_pb2.RegistrationStatus(plugin_registered=registered)
                await stub.NotifyRegistrationStatus(status)

        assert (found.type, found.name) == ("DRAPlugin", DRIVER)
        assert found.endpoint == str(plugin_socket(kubelet))
        assert list(found.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]

    with_channel(node, steps)


@pytest.mark.parametrize("version", CALLS)
def test_claims_are_prepared_and_removed(node: DriverNode, version: str) -> None:
    messages, stub = CALLS[version]

    async def steps(channel: grpc.aio.Channel, _: Path) -> None:
        calls = stub(channel)
        claims = [
            messages.Claim(namespace=NAMESPACE, name=name, uid=f"uid-{name}") for name in ("a", "b")
        ]
        request = messages.NodePrepareResourcesRequest(claims=claims)
        prepared = await calls.NodePrepareResources(request)

        (device,) = prepared.claims["uid-a"].devices
        assert (device.pool_name, device.device_name) == ("n1", "gpu-1")
        assert list(device.request_names) == ["r0"]
        assert list(device.cdi_device_ids) == ["dragoman.dev/share=uid-a-main"]
        assert version != "v1" or device.share_id == "share-0"
        assert prepared.claims["uid-b"].error == "dragoman: ai/b not found"
        assert len(list(node.cdi.iterdir())) == 1

        gone = await calls.NodeUnprepareResources(
            messages.NodeUnprepareResourcesRequest(claims=claims)
        )
        assert {uid: each.error for uid, each in gone.claims.items()} == {"uid-a": "", "uid-b": ""}
        assert list(node.cdi.iterdir()) == []

    with_channel(node, steps)


def test_a_claim_with_an_unusable_uid_is_an_error_of_that_claim(node: DriverNode) -> None:
    async def steps(channel: grpc.aio.Channel, _: Path) -> None:
        calls: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)  # type: ignore[no-untyped-call]  # generated
        claims = [dra_v1_pb2.Claim(namespace="ai", name="a", uid="../x")]
        prepared = await calls.NodePrepareResources(
            dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
        )
        gone = await calls.NodeUnprepareResources(
            dra_v1_pb2.NodeUnprepareResourcesRequest(claims=claims)
        )

        assert "'../x' is not the uid of a claim" in prepared.claims["../x"].error
        assert "'../x' is not the uid of a claim" in gone.claims["../x"].error

    with_channel(node, steps)


def test_sockets_of_an_earlier_process_are_replaced(node: DriverNode) -> None:
    async def steps(_: grpc.aio.Channel, kubelet: Path) -> None:
        later = kubelet / "later"
        for path in (plugin_socket(later), registration_socket(later)):
            path.parent.mkdir(parents=True)
            path.touch()
        async with (
            serving(later, node.preparer()),
            grpc.aio.insecure_channel(f"unix:{plugin_socket(later)}") as channel,
        ):
            calls: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)  # type: ignore[no-untyped-call]  # generated
            await calls.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())

    with_channel(node, steps)
