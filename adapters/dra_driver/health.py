"""Reports the health of devices to the kubelet, which writes it into the status of their pods.

Source: k8s.io/kubelet v0.37.1 pkg/apis/dra-health, whose versions have the same messages. The
kubelet takes a device for unknown that was not reported for 30 seconds
(k8s.io/kubernetes v1.37.1 pkg/kubelet/cm/dra/healthinfo.go).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc.aio
from google.protobuf.message import Message

from adapters.dra_driver.devices import UNHEALTHY
from adapters.dra_driver.proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
)
from adapters.dra_driver.slices import DevicePool

VERSIONS = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Services of the interface, as the kubelet names them; 1.36 knows only the second."""

EVERY = 10.0
"""Seconds between two reports while nothing changes."""

_MAX_MESSAGE = 1024
"""Bytes of a message that the kubelet takes (pkg/apis/dra-health/v1/api.proto)."""


class ReportedHealth(NamedTuple):
    """The health of one device; ``problem`` is empty where it has none, or none is known."""

    pool: str
    device: str
    healthy: bool
    problem: str


@dataclass(slots=True)
class DeviceHealth:
    """The health of the node's devices, as it is now.

    Attributes:
        pools: with all devices; None as long as they are not known.
        problems: what is wrong with a card, by its uuid.
    """

    pools: Callable[[], Sequence[DevicePool] | None]
    problems: Callable[[], Mapping[str, str]]
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: bool = False

    def wake(self) -> None:
        """Compare again: a device may have changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """End all reports: the driver ends."""
        self._closed = True
        self.wake()

    async def reports(self) -> AsyncGenerator[tuple[ReportedHealth, ...], None]:
        """All devices, whenever one changes and from time to time, until ``close``."""
        reported: tuple[ReportedHealth, ...] | None = None
        due = 0.0
        while not self._closed:
            changed, now = self._changed, time.monotonic()
            pools = self.pools()
            found = None if pools is None else health(pools, self.problems())
            if found is not None and (found != reported or now >= due):
                reported, due = found, now + EVERY
                yield found
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY if reported is None else due - now):
                    await changed.wait()


def health(pools: Sequence[DevicePool], problems: Mapping[str, str]) -> tuple[ReportedHealth, ...]:
    """The health of each device; one is unhealthy that has our taint."""
    return tuple(
        ReportedHealth(
            pool.name,
            device["name"],
            all(taint["key"] != UNHEALTHY for taint in device.get("taints", ())),
            problems.get(device["attributes"]["uuid"]["string"], ""),
        )
        for pool in pools
        for content in pool.slices.values()
        for device in content.get("devices", ())
    )


class HealthPlugin:
    """Answers the calls of one version."""

    def __init__(self, devices: DeviceHealth, messages: Any) -> None:
        """Report nothing yet.

        Args:
            devices: those whose health is reported.
            messages: the generated module of the version.
        """
        self._devices = devices
        self._messages = messages

    async def NodeWatchResources(  # noqa: N802  # the name of the call
        self, _request: object, context: Any
    ) -> AsyncGenerator[Message, None]:
        """Report as long as the kubelet listens."""
        # The first report may be far off; the kubelet knows that the call has arrived.
        await context.send_initial_metadata(())
        async for found in self._devices.reports():
            yield self._report(found)

    def _report(self, found: Sequence[ReportedHealth]) -> Message:
        messages, now = self._messages, int(time.time())
        answer = messages.NodeWatchResourcesResponse()
        for each in found:
            answer.devices.add(
                device=messages.DeviceIdentifier(pool_name=each.pool, device_name=each.device),
                health=messages.HEALTHY if each.healthy else messages.UNHEALTHY,
                last_updated_time=now,
                message=each.problem.encode()[:_MAX_MESSAGE].decode(errors="ignore"),
            )
        return answer  # type: ignore[no-any-return]  # generated


def add_health(server: grpc.aio.Server, devices: DeviceHealth) -> None:
    """Serve both versions."""
    modules: Sequence[tuple[Callable[..., Any], Any]] = (
        (dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server, dra_health_v1_pb2),
        (
            dra_health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server,
            dra_health_v1alpha1_pb2,
        ),
    )
    for add, messages in modules:
        add(HealthPlugin(devices, messages), server)
