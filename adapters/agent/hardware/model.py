"""The node's cards as they were last read, whatever their source: a file, or NVIDIA's library."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import yaml

from adapters.agent.log import log_event
from adapters.wire.decode.decoder import convert
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import MigKey
from core.hardware.mig_repartition import GpuInstancePlacement
from core.hardware.quantity import MIB

INTERVAL = 10.0
"""Seconds between two readings."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance that exists.

    Attributes:
        uuid: of the MIG device, which makes it visible.
        gpu_instance: the driver's number on its card; None where not known.
        compute_instance: the driver's number in its GPU instance; None where not known.
    """

    uuid: str
    devices: tuple[str, ...] = ()
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of the node.

    Attributes:
        cards: by ascending index; slots and dialects are not set, because they are no hardware.
        devices: device nodes by uuid of the card, where known.
        instances: the MIG instances that containers can get.
        gpu_instances: by uuid of each card in MIG mode that the agent can partition, all its GPU
            instances, including those that no container can get.
        problems: why a card is unhealthy, by its uuid.
    """

    cards: tuple[Card, ...] = ()
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    instances: dict[MigKey, Instance] = field(default_factory=dict[MigKey, Instance])
    gpu_instances: dict[str, tuple[GpuInstancePlacement, ...]] = field(
        default_factory=dict[str, tuple[GpuInstancePlacement, ...]]
    )
    problems: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class CardLoad:
    """How busy a card is now.

    Attributes:
        memory: bytes in use by all processes.
        compute: percent of the time during which a kernel ran.
        bus: percent of the time during which memory was read or written.
    """

    memory: int
    compute: int
    bus: int = 0


class InventoryError(RuntimeError):
    """The source cannot list the node's cards."""


class HardwareSource(Protocol):
    """A source of the node's cards."""

    def read(self) -> Hardware:
        """Read the hardware as it is now.

        Raises:
            InventoryError: the source cannot list the cards.
        """

    def loads(self) -> dict[str, CardLoad]:
        """Return how busy the cards are, by uuid; cards that do not answer are missing."""


class InstanceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A MIG instance that exists."""

    profile: str
    start: int
    uuid: str
    devices: tuple[str, ...] = ()
    gpu_instance: int | None = None
    compute_instance: int | None = None


class LinkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of connected cards that the card belongs to."""

    level: Literal["node", "numa", "pcie", "link"]
    name: str


class CardEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A card.

    Attributes:
        healthy: False: the card gets no new allocations.
        problem: why it is unhealthy, as a text for operators.
        devices: its device nodes, where the profile's templates are wrong.
    """

    uuid: str
    index: int
    vendor: str = "nvidia"
    model: str = ""
    memory_mib: int = msgspec.field(default=0, name="memoryMiB")
    mode: Mode = Mode.SHARED
    numa: int | None = None
    links: tuple[LinkEntry, ...] = ()
    healthy: bool = True
    problem: str = ""
    devices: tuple[str, ...] | None = None
    instances: tuple[InstanceEntry, ...] = ()


class HardwareFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    cards: tuple[CardEntry, ...]


@dataclass(frozen=True, slots=True)
class FileInventory:
    """Cards that the operator lists: for tests, MetaX, and vendors without a library here."""

    path: Path
    node: str

    def read(self) -> Hardware:
        """Read the hardware in the file, as ``HardwareSource``."""
        try:
            found = convert(yaml.safe_load(self.path.read_bytes()), HardwareFile)
        except (OSError, yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
            raise InventoryError(f"{self.path}: {error}") from error
        entries = sorted(found.cards, key=lambda entry: (entry.index, entry.uuid))
        return Hardware(
            tuple(
                Card(
                    uuid=entry.uuid,
                    node=self.node,
                    index=entry.index,
                    vendor=entry.vendor,
                    model=entry.model,
                    memory=entry.memory_mib * MIB,
                    slots=1,
                    mode=entry.mode,
                    healthy=entry.healthy,
                    numa=entry.numa,
                    links=tuple(
                        Scope(Level[each.level.upper()], each.name) for each in entry.links
                    ),
                    names=(entry.model,) if entry.model else (),
                )
                for entry in entries
            ),
            {entry.uuid: entry.devices for entry in entries if entry.devices is not None},
            {
                MigKey(entry.uuid, slot.profile, slot.start): Instance(
                    slot.uuid, slot.devices, slot.gpu_instance, slot.compute_instance
                )
                for entry in entries
                for slot in entry.instances
            },
            problems={entry.uuid: entry.problem for entry in entries if entry.problem},
        )

    def loads(self) -> dict[str, CardLoad]:
        """Return an empty mapping: a file has no loads."""
        return {}


@dataclass(slots=True)
class HardwareWatcher:
    """The node's hardware as it was last read.

    Attributes:
        source: of the hardware; None where the configuration has none.
        hardware: as last read; replaced, never changed, because other threads read it. Empty as
            long as no reading has succeeded: then the ledger's cards count.
        known: whether a reading has succeeded.
        subscribers: called, on the event loop, after ``hardware`` has changed.
    """

    source: HardwareSource | None
    hardware: Hardware = field(default_factory=Hardware)
    known: bool = False
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _nudged: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def read_first(self) -> None:
        """Read in this thread, before the event loop has other work."""
        self._store(self._read())

    async def read(self) -> None:
        """Read on another thread. Readings do not overlap, so that an older one never wins."""
        async with self._reading:
            self._store(await asyncio.to_thread(self._read))

    async def run(self) -> None:
        """Read every ``INTERVAL``, and after each ``nudge``, until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudged.wait(), INTERVAL)
            self._nudged.clear()
            await self.read()

    def nudge(self) -> None:
        """Read now."""
        self._nudged.set()

    def _read(self) -> Hardware | None:
        if self.source is None:
            return None
        try:
            return self.source.read()
        except InventoryError as error:
            log_event("hardware.read_failed", reason=str(error))
            return None

    def _store(self, found: Hardware | None) -> None:
        if found is None or (self.known and found == self.hardware):
            return
        if self.known:
            log_event("hardware.changed", cards=len(found.cards))
        self.hardware, self.known = found, True
        for notify in self.subscribers:
            notify()
