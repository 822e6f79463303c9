"""The node's cards as they are, from whoever knows: a file, or NVIDIA's library."""

from dataclasses import dataclass, field
from typing import Protocol

from core.hardware.card import Card
from core.hardware.mig import MigKey
from core.hardware.mig_repartition import GpuInstancePlacement


@dataclass(frozen=True, slots=True)
class Instance:
    """A hardware slice that is there.

    Attributes:
        uuid: by which it is made visible.
        devices: its device nodes, those of its card among them.
        gpu_instance: by which the driver calls it on its card; None where not known.
        compute_instance: in its GPU instance; None where not known.
    """

    uuid: str
    devices: tuple[str, ...] = ()
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is in the node.

    Attributes:
        cards: by ascending index; without slots or vocabularies, which are no hardware.
        devices: device nodes by uuid of the card, where known.
        instances: by uuid of the card and the slice's profile and start.
        pieces: by uuid of each card in MIG mode that can be cut here, what it is cut into; also
            what no container can be given.
        problems: what is wrong with a card, by its uuid.
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
        memory: bytes in use, by whomever.
        compute: percent of the time in which a kernel ran.
        bus: percent of the time in which memory was read or written.
    """

    memory: int
    compute: int
    bus: int = 0


class InventoryError(RuntimeError):
    """The node's cards cannot be listed."""


class HardwareSource(Protocol):
    """Somebody who knows the node's cards."""

    def read(self) -> Hardware:
        """What is in the node now.

        Raises:
            InventoryError: nobody can say.
        """
        ...

    def loads(self) -> dict[str, CardLoad]:
        """How busy the cards are, by uuid; those that can be asked."""
        ...
