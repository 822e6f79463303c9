"""Keeps the node's ResourceSlices as they should be.

The kubelet deletes all slices of its node when it starts, and those of a driver 30 seconds after
its plugin is gone (k8s.io/kubernetes v1.37.1 pkg/kubelet/cm/dra/plugin): they are created again.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from adapters.agent.log import log_event
from adapters.dra_driver.devices import Json
from adapters.dra_driver.slice_server import UnsupportedClusterError
from adapters.dra_driver.slices import DevicePool, slice_object
from adapters.dra_driver.stored import lost
from adapters.wire.decode.decoder import UnreadableError

MIN_DELAY, MAX_DELAY = 1.0, 30.0
"""Seconds between two attempts; each failure doubles the wait."""

_FAILURES = (OSError, UnreadableError)

_NUMBER = re.compile(r"\[\d+\]")
"""The number of a device in a path; it is ignored, for the devices lack the same fields."""


class StoredSlices(Protocol):
    """The slices of one node at the API server; see ``SliceServer``."""

    @property
    def node(self) -> str:
        """The node's name."""
        ...

    async def list(self) -> tuple[list[Json], str]:
        """The slices, and the version for a watch."""
        ...

    def changes(self, version: str) -> AsyncGenerator[tuple[str, Json], None]:
        """Type and object of each event from a version on."""
        ...

    async def node_uid(self) -> str:
        """The uid of the node's object."""
        ...

    async def create(self, item: Json) -> Json:
        """Create a slice; what was stored."""
        ...

    async def replace(self, item: Json) -> Json:
        """Replace a slice; what was stored."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a slice."""
        ...


@dataclass(slots=True)
class SlicePublisher:
    """Writes the slices that differ from the desired ones.

    Attributes:
        server: where the slices are stored.
        desired: the pools that should be; None as long as they are not known.
    """

    server: StoredSlices
    desired: Callable[[], tuple[DevicePool, ...] | None]
    _owner: str = ""
    _stored: dict[str, Json] | None = None
    _written: dict[str, tuple[Json, Json]] = field(default_factory=dict[str, tuple[Json, Json]])
    """What was asked for, and the spec that the server then stored, by name of the slice."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Compare again: the desired pools may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            UnsupportedClusterError: the server does not store what was sent; nothing is published.
        """
        await asyncio.gather(self._follow(), self._publish())

    async def _follow(self) -> None:
        """Know the stored slices; list them again after each failure."""
        wait = MIN_DELAY
        while True:
            try:
                items, version = await self.server.list()
                self._stored = {each["metadata"]["name"]: each for each in items}
                self.wake()
                wait = MIN_DELAY
                while True:
                    version = await self._watch(version)
            except _FAILURES as error:
                log_event("resource_slices.disconnected", reason=str(error) or repr(error))
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(wait * 2, MAX_DELAY)

    async def _watch(self, version: str) -> str:
        async with aclosing(self.server.changes(version)) as changes:
            async for kind, item in changes:
                version = item["metadata"].get("resourceVersion", version)
                self._note(kind, item)
        return version

    def _note(self, kind: str, item: Json) -> None:
        """Take an event; one that is older than an own write is ignored."""
        name = item["metadata"].get("name", "")
        if self._stored is None or not name:
            return
        if _version(item) < _version(self._stored.get(name)):
            return
        if kind == "DELETED":
            self._stored.pop(name, None)
        else:
            self._stored[name] = item
        self.wake()

    async def _publish(self) -> None:
        wait = MIN_DELAY
        while True:
            await self._woken.wait()
            self._woken.clear()
            desired = self.desired()
            if self._stored is None or desired is None:
                continue
            try:
                written = await self._reconcile(desired)
                wait = MIN_DELAY
            except _FAILURES as error:
                log_event("resource_slices.write_failed", reason=str(error) or repr(error))
                wait = min(wait * 2, MAX_DELAY)
                self.wake()
                written = True
            if written:
                await asyncio.sleep(wait * random.uniform(0.75, 1))  # noqa: S311

    async def _reconcile(self, desired: tuple[DevicePool, ...]) -> bool:
        """Write the pools that differ, and delete what is in none; whether anything differed."""
        stored = self._stored or {}
        names = {name for pool in desired for name in pool.slices}
        extra = [name for name in stored if name not in names]
        for name in extra:
            await self.server.delete(name)
            stored.pop(name, None)
            self._written.pop(name, None)
        differing = [pool for pool in desired if not self._is_current(pool)]
        for pool in differing:
            await self._write(pool)
        return bool(extra or differing)

    def _is_current(self, pool: DevicePool) -> bool:
        stored = self._stored or {}
        for name, content in pool.slices.items():
            asked, answered = self._written.get(name, ({}, {}))
            if content != asked or stored.get(name, {}).get("spec") != answered:
                return False
        return True

    async def _write(self, pool: DevicePool) -> None:
        stored = self._stored if self._stored is not None else {}
        if not self._owner:
            self._owner = await self.server.node_uid()
        newest = (
            each["spec"]["pool"]["generation"]
            for each in stored.values()
            if each["spec"]["pool"]["name"] == pool.name
        )
        generation = max(newest, default=0) + 1
        for name, content in pool.slices.items():
            item = slice_object(self.server.node, self._owner, pool, name, generation)
            present = stored.get(name)
            if present is None:
                answer = await self.server.create(item)
            else:
                item["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
                answer = await self.server.replace(item)
            stored[name] = answer
            await self._verify(item, answer)
            self._written[name] = content, answer["spec"]
        log_event(
            "resource_slices.written",
            pool=pool.name,
            generation=generation,
            slices=len(pool.slices),
        )

    async def _verify(self, item: Json, answer: Json) -> None:
        """Withdraw a slice that the server stored otherwise.

        Raises:
            UnsupportedClusterError: it did.
        """
        paths = lost(item["spec"], answer.get("spec"), "spec")
        missing = dict.fromkeys(_NUMBER.sub("[]", path) for path in paths)
        if not missing:
            return
        await self.server.delete(item["metadata"]["name"])
        raise UnsupportedClusterError(
            f"the API server did not store {', '.join(missing)} of a ResourceSlice, so that a"
            " card would be allocated as a whole or twice; nothing is published. dra.driver needs"
            " Kubernetes 1.36 or later, with the feature gates DRAConsumableCapacity,"
            " DRAPartitionableDevices, DRADeviceTaints and DRADeviceBindingConditions on, which is"
            " their default"
        )


def _version(item: Json | None) -> int:
    text = "" if item is None else item["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0
