"""The cards of the adversary's nodes, and how the nodes describe them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from e2e.harness.cluster.api import Object
from e2e.harness.workloads.claims import a_card, a_slice
from e2e.harness.workloads.inventory import (
    Described,
    DialectRecords,
    Gpu,
    described,
    hami,
    koordinator,
    metax,
    volcano,
)

SLOTS = 4
"""Containers that may share a card in Volcano's and MetaX's words: few, so that slots run out."""

MIG_MODEL = "A100-SXM4-80GB"
MIG_MEMORY = 81920
SHARED_MEMORY = 16000

# NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles", A100 80GB, in eighths of the
# card; the groups as in volcano-vgpu-device-plugin's deployments/static.
LAYOUTS = {
    "group1": tuple((start, 1) for start in range(7)),
    "group2": ((0, 2), (2, 2), (4, 2), (6, 1)),
    "group3": ((0, 4), (4, 4)),
    "group4": ((0, 8),),
    "group5": ((0, 4), (4, 4)),
    "group6": ((0, 2), (2, 2), (4, 2), (6, 2)),
}
"""By group, the first eighth and the number of eighths of each slice."""

SLICE_MEMORY = {1: 9728, 2: 19968, 4: 40192, 8: 80896}
"""MiB of a slice, by its number of eighths; ``nvidia-smi mig -lgip`` prints them."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card, as the checker counts it.

    Attributes:
        memory: MiB.
        dialects: that describe it.
        mig: whether it is in MIG mode.
        minor: as Koordinator calls it; None where it does not describe the card.
    """

    uuid: str
    memory: int
    dialects: frozenset[str]
    mig: bool = False
    slots: int = SLOTS
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A node and its cards.

    Attributes:
        kind: ``shared``: cards that all four dialects describe; ``mixed``: one in MIG mode that
            only Volcano describes, and one that Volcano and MetaX share; ``claimed``: cards that
            Volcano describes, and a driver of ResourceClaims.
    """

    name: str
    kind: str
    cards: tuple[Card, ...]

    def device(self, position: int) -> str:
        """The name of a card's device in the slice of a node with claims."""
        return self.cards[position].uuid.lower()

    def published(self) -> Object | None:
        """The ResourceSlice of the node; None where no driver of claims serves it."""
        if self.kind != "claimed":
            return None
        devices = [a_card(at, card.uuid) for at, card in enumerate(self.cards)]
        for at, (device, card) in enumerate(zip(devices, self.cards, strict=True)):
            memory = f"{card.memory}Mi"
            limits = {"default": memory, "validRange": {"min": "1Mi", "max": memory, "step": "1Mi"}}
            device["name"] = self.device(at)
            device["capacity"]["memory"] = {"value": memory, "requestPolicy": limits}
        return a_slice(self.name, devices)

    def replaced(self, position: int, uuid: str) -> "Place":
        """Return the place with another card at a position."""
        cards = [*self.cards]
        cards[position] = replace(cards[position], uuid=uuid)
        return replace(self, cards=tuple(cards))

    def renamed(self, name: str) -> "Place":
        """Return a node of another name with these cards."""
        return replace(self, name=name)

    def described(self) -> Described:
        """The node, and its Device object if it has one."""
        gpus = [Gpu(card.uuid, card.memory, MIG_MODEL) for card in self.cards]
        if self.kind == "shared":
            return described(
                self.name,
                volcano(gpus, slots=SLOTS),
                metax(gpus, slots=SLOTS),
                koordinator(gpus, with_shared=True),
                hami(gpus, slots=SLOTS),
            )
        if self.kind == "claimed":
            return described(self.name, volcano(gpus, slots=SLOTS))
        partitioned = volcano(gpus[:1], "mig", slots=SLOTS)
        return described(
            self.name,
            _joined(partitioned, volcano(gpus[1:], slots=SLOTS)),
            metax(gpus[1:], slots=SLOTS),
        )


def shared(name: str, uuids: Sequence[str]) -> Place:
    """A node whose cards all dialects describe."""
    everyone = frozenset(("volcano", "koordinator", "metax", "hami"))
    return Place(
        name,
        "shared",
        tuple(Card(uuid, SHARED_MEMORY, everyone, minor=minor) for minor, uuid in enumerate(uuids)),
    )


def claimed(name: str, uuids: Sequence[str]) -> Place:
    """A node whose cards pods and ResourceClaims share."""
    dialects = frozenset(("volcano",))
    return Place(name, "claimed", tuple(Card(uuid, SHARED_MEMORY, dialects) for uuid in uuids))


def mixed(name: str, uuids: Sequence[str]) -> Place:
    """A node with a card in MIG mode, and one that is shared."""
    first, second = uuids
    return Place(
        name,
        "mixed",
        (
            Card(first, MIG_MEMORY, frozenset(("volcano",)), mig=True),
            Card(second, SHARED_MEMORY, frozenset(("volcano", "metax"))),
        ),
    )


def _joined(first: DialectRecords, second: DialectRecords) -> DialectRecords:
    """The cards of both in one register; amounts are for schedulers, which are not there."""
    key = "volcano.sh/node-vgpu-register"
    text = first.annotations[key] + second.annotations[key]
    return replace(first, annotations={key: text})
