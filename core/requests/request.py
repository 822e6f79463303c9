"""What a pod asks for, container by container, in no vendor's words."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from core.hardware.card import Level, Mode
from core.hardware.quantity import FULL, bytes_of_percent


class Phase(Enum):
    """When in a pod's life a container runs."""

    INIT = "init"
    """Alone, before the main containers, after the sidecars that stand before it."""
    SIDECAR = "sidecar"
    """From its start to the pod's end (a restartable init container)."""
    MAIN = "main"
    """Together with all other main containers and all sidecars."""


class TaskClass(Enum):
    """Who gives way to whom in compute."""

    NORMAL = "normal"
    """Shares cards with normal tasks only."""
    ONLINE = "online"
    """Latency-bound: runs beside offline tasks and takes their compute, never their memory."""
    OFFLINE = "offline"
    """Lends its compute to online tasks that come later."""


class CardKey(Enum):
    """One criterion by which the cards of a node are ordered, best first."""

    LOW_INDEX = "lowest index"
    HIGH_INDEX = "highest index"
    LOW_NUMA = "lowest NUMA node"
    HIGH_NUMA = "highest NUMA node"
    MOST_MEMORY_USED = "most bytes in use"
    FEWEST_SHARERS = "fewest sharers"
    FULLEST = "largest weighted use after the request"
    EMPTIEST = "smallest weighted use after the request"
    IDLE = "idle cards"
    ONLINE = "for an online task: not offline-only cards, then fewer online, then fewer offline"


class NodeKey(Enum):
    """One criterion by which nodes are ordered, best first."""

    FULLEST = "largest weighted use of the node's cards before the request"
    EMPTIEST = "smallest weighted use of the node's cards before the request"
    CHOSEN_FULLEST = "largest memory use of the chosen cards after the request"
    LINKS = "best linked choice that breaks up the fewest links"
    LEAST_LOSS = "smallest stated loss for this number of whole cards"
    MOST_GAIN = "largest stated gain for this number of whole cards"
    ONLINE = "for an online task: chosen cards without offline-only ones, then with few tasks"


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each dimension counts in weighted use; 0 or more, at least one above 0."""

    slots: int = 1
    compute: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class Ranking:
    """How to choose where several choices would do. Every criterion breaks the ties before it.

    Attributes:
        cards: order of the cards of one node; after the last one, ascending index.
        nodes: order of the nodes; after the last one, the order of the candidates.
        weights: for the weighted criteria.
    """

    cards: tuple[CardKey, ...] = (CardKey.LOW_INDEX,)
    nodes: tuple[NodeKey, ...] = ()
    weights: Weights = Weights()


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """How the cards of one container shall be connected.

    Attributes:
        levels: the levels that count, widest first.
        required: all cards of a container must share a scope of this level; None for no demand.
        by_partition: whole cards are taken from the node's partition table if it has one.
        must_partition: as ``by_partition``, and nothing else will do.
        best_partitions_only: only the best-scored partitions of a size will do.
        bandwidth: least ring bandwidth of a partition, in the table's unit.
    """

    levels: tuple[Level, ...] = ()
    required: Level | None = None
    by_partition: bool = False
    must_partition: bool = False
    best_partitions_only: bool = False
    bandwidth: int = 0


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for.

    Exactly one of ``memory`` and ``memory_percent`` is given.

    Attributes:
        container: its name in the pod.
        count: how many different cards, 1 or more.
        memory: bytes of each card, 1 or more; None where asked as a percentage.
        memory_percent: of each card's memory, 1 to 100; None where asked in bytes.
        compute: percent of each card, 0 to 100; 0 reserves none.
        exclusive: nobody else may hold a share of its cards.
        linked: its cards are chosen by the request's ``linking``.
        step: bytes; a percentage of memory is rounded down to a multiple of this, but not to none.
        phase: when the container runs.
    """

    name: str
    count: int
    memory: int | None = None
    memory_percent: int | None = None
    compute: int = 0
    exclusive: bool = False
    linked: bool = False
    step: int = 1
    phase: Phase = Phase.MAIN

    def memory_on(self, total: int) -> int:
        """Bytes asked of a card of ``total`` bytes."""
        if self.memory is not None:
            return self.memory
        return max(bytes_of_percent(total, self.memory_percent or FULL, self.step), self.step)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a pod asks for in all, for quota engines, at its peak over the containers' lives.

    Attributes:
        cards: card shares.
        memory: bytes, of the asks that are in bytes.
        memory_percent: percent of a card, of the asks that are in percent.
        compute: percent of a card.
    """

    cards: int
    memory: int
    memory_percent: int
    compute: int


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod asks for.

    Attributes:
        uid: the pod's, unique for ever.
        pod: ``namespace/name``, for people.
        dialect: the vocabulary that it was written in; only cards described in it will do.
        asks: one for each container that asks, in start order: init containers and sidecars as
            they stand, then main containers. Never empty.
        modes: the card modes that will do.
        vendor: the only vendor that will do, or None.
        allow_uuids: the only cards that will do, or None.
        deny_uuids: cards that will not do; wins over ``allow_uuids``.
        allow_types: a card's name must contain one of these, in any case; None for no demand.
        deny_types: a card's name must contain none of these, in any case; not looked at where
            ``allow_types`` is given.
        isolation: the isolation provider that the node must have; None for no demand.
        group: a pod of the same group does not share a card with this one; None for no demand.
        exclusions: rules under which this pod shares no card with another pod of the same rule.
        task_class: who gives way to whom.
        qos: how the driver shares the card's compute; a card has one at a time; None for no claim.
        ranking: how to choose among what fits.
        linking: for asks that are ``linked``.
        priority: higher may preempt lower.
        notes: what was lost in translation, as sentences.
    """

    uid: str
    pod: str
    dialect: str
    containers: tuple[ContainerRequest, ...]
    modes: frozenset[Mode] = frozenset({Mode.SHARED})
    vendor: str | None = None
    allow_uuids: frozenset[str] | None = None
    deny_uuids: frozenset[str] = frozenset()
    allow_types: tuple[str, ...] | None = None
    deny_types: tuple[str, ...] = ()
    isolation: str | None = None
    group: str | None = None
    exclusions: frozenset[str] = frozenset()
    task_class: TaskClass = TaskClass.NORMAL
    qos: str | None = None
    ranking: Ranking = Ranking()
    topology: TopologyConstraint = TopologyConstraint()
    priority: int = 0
    notes: tuple[str, ...] = ()

    def totals(self) -> Totals:
        """The pod's needs at their peak: init containers by the maximum, the others by the sum."""
        running = Totals(0, 0, 0, 0)
        peak = Totals(0, 0, 0, 0)
        for ask in self.containers:
            own = Totals(
                ask.count,
                ask.count * (ask.memory or 0),
                ask.count * (ask.memory_percent or 0),
                ask.count * ask.compute,
            )
            together = _each(running, own, int.__add__)
            peak = _each(peak, together, max)
            if ask.phase is not Phase.INIT:
                running = together
        return peak


def _each(left: Totals, right: Totals, combine: Callable[[int, int], int]) -> Totals:
    return Totals(
        combine(left.cards, right.cards),
        combine(left.memory, right.memory),
        combine(left.memory_percent, right.memory_percent),
        combine(left.compute, right.compute),
    )
