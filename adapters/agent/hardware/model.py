"""The node's cards as they are, whatever their source: a file, or NVIDIA's library."""

from dataclasses import dataclass, field
from typing import Protocol

from core.hardware.card import Card
from core.hardware.mig import MigKey
from core.hardware.mig_repartition import GpuInstancePlacement


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance that exists.

    Attributes:
        uuid: of the MIG device, which makes it visible.
        devices: its device nodes, including those of its card.
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
        ...

    def loads(self) -> dict[str, CardLoad]:
        """Return how busy the cards are, by uuid; cards that do not answer are missing."""
        ...
