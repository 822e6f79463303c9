"""Cards that the operator lists: for tests, MetaX, and vendors whose library the agent lacks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from adapters.agent.hardware.model import CardLoad, Hardware, Instance, InventoryError
from adapters.wire.decode.decoder import UnreadableError, convert
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import MigKey
from core.hardware.quantity import MIB


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
    """Reads the list at each call."""

    path: Path
    node: str

    def read(self) -> Hardware:
        """Read the hardware in the file.

        Raises:
            InventoryError: the file is missing or invalid.
        """
        try:
            found = convert(yaml.safe_load(self.path.read_bytes()), HardwareFile)
        except (OSError, yaml.YAMLError, UnreadableError) as error:
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
