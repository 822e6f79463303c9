"""The kubelet's side: it finds the registration's socket, and calls the endpoint that it names."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc.aio
import pytest

from adapters.dialects.dra import DRIVER
from adapters.dra_driver.devices import card_devices
from adapters.dra_driver.health import DeviceHealth
from adapters.dra_driver.proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    registration_pb2,
    registration_pb2_grpc,
)
from adapters.dra_driver.slices import DevicePool, pools
from adapters.dra_driver.sockets import plugin_socket, registration_socket, serving
from adapters.dra_driver.tests.cards import card
from adapters.dra_driver.tests.node import NAMESPACE, DriverNode, grant

CALLS: dict[str, tuple[Any, Any]] = {
    "v1": (dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub),
    "v1beta1": (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub),
}

HEALTH: dict[str, tuple[Any, Any]] = {
    "v1": (dra_health_v1_pb2, dra_health_v1_pb2_grpc.DRAResourceHealthStub),
    "v1alpha1": (dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc.DRAResourceHealthStub),
}


def unknown_health() -> DeviceHealth:
    """The health of a node whose cards are not known yet."""
    return DeviceHealth(lambda: None, dict)


@pytest.fixture
def node(tmp_path: Path) -> DriverNode:
    made = DriverNode(tmp_path)
    ref = made.add_claim("a", grant(1, 8))
    made.commit(ref, grant(1, 8))
    made.add_pod(main=[{"name": "a"}])
    return made


def with_channel(
    node: DriverNode,
    steps: Callable[[grpc.aio.Channel, Path], Coroutine[Any, Any, None]],
    health: DeviceHealth | None = None,
) -> None:
    """The sockets are in a folder with a short name: their paths have 107 bytes at most."""

    async def scenario(kubelet: Path) -> None:
        async with (
            serving(kubelet, node.preparer(), health or unknown_health()),
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
        assert list(found.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]

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
            serving(later, node.preparer(), unknown_health()),
            grpc.aio.insecure_channel(f"unix:{plugin_socket(later)}") as channel,
        ):
            calls: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)  # type: ignore[no-untyped-call]  # generated
            await calls.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())

    with_channel(node, steps)


class Cards:
    """Two cards, of which the second may have a problem."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self.health = DeviceHealth(self.pools, lambda: self.problems)

    def pools(self) -> tuple[DevicePool, ...]:
        """The pools of both."""
        cards = (card(number) for number in range(2))
        found = (
            card_devices(replace(each, healthy=each.uuid not in self.problems)) for each in cards
        )
        return pools("n1", [each for each in found if each is not None])

    def fail(self, problem: str) -> None:
        """The second card is unhealthy from now on."""
        self.problems[card(1).uuid] = problem
        self.health.wake()


def reported(report: Any) -> list[tuple[str, str, int, str]]:
    return [
        (each.device.pool_name, each.device.device_name, each.health, each.message)
        for each in report.devices
    ]


@pytest.mark.parametrize("version", HEALTH)
def test_the_health_of_all_devices_is_reported_and_each_change(
    node: DriverNode, version: str
) -> None:
    messages, stub = HEALTH[version]
    cards = Cards()

    async def steps(channel: grpc.aio.Channel, _: Path) -> None:
        reports = stub(channel).NodeWatchResources(messages.NodeWatchResourcesRequest())
        first = ("n1", "gpu-0", messages.HEALTHY, "")
        assert reported(await reports.read()) == [first, ("n1", "gpu-1", messages.HEALTHY, "")]

        cards.fail("Xid 79 " + "\u00e4" * 1024)

        (same, failed) = reported(await reports.read())
        assert same == first
        assert failed[2] == messages.UNHEALTHY
        assert failed[3] == "Xid 79 " + "\u00e4" * 508

    with_channel(node, steps, cards.health)


def test_a_driver_that_ends_waits_for_no_report(node: DriverNode) -> None:
    """The kubelet keeps its call open, also where no device is known yet."""
    ended: list[object] = []

    async def main(kubelet: Path) -> None:
        async with grpc.aio.insecure_channel(f"unix:{plugin_socket(kubelet)}") as channel:
            async with serving(kubelet, node.preparer(), unknown_health()):
                stub: Any = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel)  # type: ignore[no-untyped-call]  # generated
                reports = stub.NodeWatchResources(dra_health_v1_pb2.NodeWatchResourcesRequest())
                await reports.wait_for_connection()
                waiting = asyncio.ensure_future(reports.read())
            ended.append(await waiting)
            assert await reports.code() == grpc.StatusCode.OK

    with TemporaryDirectory(prefix="dra") as folder:
        asyncio.run(main(Path(folder)))
    assert ended == [grpc.aio.EOF]
