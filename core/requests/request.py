"""What a pod asks for, container by container, in terms of no vendor; and which pod it is.

``SharingTerms`` say on which terms a pod shares its cards with others. A rule for sharing a card is
a field of them, a line of ``conflict_with`` and, if an author can state it, a line of ``demands``.
Requests, allocations, shares of cards and classes of nodes carry the terms as one value, so that
they need no change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from core.hardware import mig
from core.hardware.card import Card, Level, Mode
from core.hardware.quantity import FULL, bytes_of_percent
from core.requests.reason import Cause


class TaskClass(Enum):
    """Which tasks may share a card, and which of them yield compute to others."""

    NORMAL = "normal"
    """Shares cards with normal tasks only."""
    ONLINE = "online"
    """Latency-bound: takes the compute of offline tasks on its cards, never their memory."""
    OFFLINE = "offline"
    """Yields its compute to online tasks that come later."""


_MIXES = {
    TaskClass.NORMAL: (TaskClass.NORMAL,),
    TaskClass.OFFLINE: (TaskClass.OFFLINE,),
    TaskClass.ONLINE: (TaskClass.ONLINE, TaskClass.OFFLINE),
}
"""The task classes with which a new share can have a card, by the class of the share."""


@dataclass(frozen=True, slots=True)
class SharingTerms:
    """What a pod demands of the pods that have a share of its cards.

    Attributes:
        task_class: which other tasks its cards may have.
        qos: how the driver shares the card's compute; a card has one policy at a time; None where
            every policy suits.
        group: the pod shares no card with a member of this group; None for no demand.
        member_of: the group that the pod is a member of, whether it has such a demand or not; None
            where it is in none.
        exclusions: rules under which this pod shares no card with another pod of the same rule.
    """

    task_class: TaskClass = TaskClass.NORMAL
    qos: str | None = None
    group: str | None = None
    member_of: str | None = None
    exclusions: frozenset[str] = frozenset()

    def conflict_with(self, resident: "SharingTerms") -> Cause | None:
        """Return why a new share on these terms cannot join a resident's; None where it can.

        The QoS policy is not compared: it counts only where both shares have compute.
        """
        if resident.task_class not in _MIXES[self.task_class]:
            return Cause.CLASS
        if self.group is not None and self.group in (resident.group, resident.member_of):
            return Cause.GROUP
        return Cause.EXCLUSION if self.exclusions & resident.exclusions else None

    @property
    def has_demands(self) -> bool:
        """Whether they demand anything but a class of tasks."""
        return self != SharingTerms(self.task_class, member_of=self.member_of)

    @property
    def of_any_member(self) -> "SharingTerms":
        """The terms without the name of the pod's group, which no result for its class reads."""
        return self if self.member_of is None else replace(self, member_of=None)

    @property
    def without_rules(self) -> "SharingTerms":
        """The terms without the rules that the pod's author can drop to share more cards."""
        return SharingTerms(self.task_class, self.qos)

    def demands(self) -> dict[str, str]:
        """Return what they demand in words, by the name of the demand."""
        return {
            "group that shares no card": self.group or "none",
            "rules of exclusion": ", ".join(sorted(self.exclusions)) or "none",
            "task class": self.task_class.value,
            "QoS policy": self.qos or "any",
        }


ANY_TERMS = SharingTerms()
"""The terms of a pod that demands nothing."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod, by its name and by its identity.

    ``str()`` gives ``namespace/name``.

    Attributes:
        namespace: as the API server has it, never empty there.
        name: unique in the namespace at one time; a pod that is created again has it too.
        uid: unique for ever; empty where the caller does not know it.
    """

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, full_name: str, uid: str = "") -> "PodRef":
        """Read ``namespace/name``; text without a slash is a namespace without a name."""
        namespace, _, name = full_name.partition("/")
        return cls(namespace, name, uid)


class Phase(Enum):
    """When in a pod's life a container runs."""

    INIT = "init"
    """It runs without others but the sidecars that precede it, before the main containers."""
    SIDECAR = "sidecar"
    """It runs from its start to the pod's end (a restartable init container)."""
    MAIN = "main"
    """It runs together with all other main containers and all sidecars."""


class PluginShare(Enum):
    """What a pod gets on a node where only the vendor's own device plugin serves it."""

    CARD = "card"
    """Whole cards. Another component can give the container other ones than the plugin chose."""
    DEVICE = "device"
    """Replicas of shared cards, or MIG devices: the kubelet chooses, after the pod is bound."""


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
    """How to choose among what fits: each criterion breaks the ties of those before it.

    Attributes:
        cards: order of the cards of one node; after the last one, ascending index.
        nodes: order of the nodes; after the last one, the order of the candidates.
    """

    cards: tuple[CardKey, ...] = (CardKey.LOW_INDEX,)
    nodes: tuple[NodeKey, ...] = ()
    weights: Weights = Weights()


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """How the cards of one container must or should be connected.

    Attributes:
        levels: the levels whose links are compared, widest first.
        required: all cards of a container must share a scope of this level; None for no demand.
        by_partition: whole cards come from the node's partition table where it has one.
        must_partition: whole cards must be a partition of the node's table.
        best_partitions_only: only partitions with the highest score of their size are allowed.
        bandwidth: least ring bandwidth of a partition, in the table's unit.
        by_score: where the node states scores of pairs, several cards are those of the largest
            sum, and one card is that of the smallest. ``levels`` count where it does not.
    """

    levels: tuple[Level, ...] = ()
    required: Level | None = None
    by_partition: bool = False
    must_partition: bool = False
    best_partitions_only: bool = False
    bandwidth: int = 0
    by_score: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for.

    Exactly one of ``memory`` and ``memory_percent`` is given.

    Attributes:
        count: how many cards, 1 or more; different ones, or slices where ``several_slices``.
        memory: bytes of each card, 1 or more; None where the pod asks for a percentage.
        memory_percent: of each card's memory, 1 to 100; None where the pod asks for bytes.
        compute: percent of each card, 0 to 100; 0 reserves none.
        exclusive: no other pod may have a share of its cards.
        linked: the request's ``topology`` decides which cards it gets together.
        step: bytes; a percentage of memory is rounded down to a multiple of this, but not to none.
        exclusive_by_compute: it is exclusive only because it has all compute of its cards, so that
            it shares a card of which pods may have more than that.
        exclusive_by_amount: it is exclusive only because it has all compute of its cards, or all
            memory in percent, so that with less it is not. ``fit`` does not read it.
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
    exclusive_by_compute: bool = False
    exclusive_by_amount: bool = field(default=False, compare=False)

    def exclusive_on(self, card: Card) -> bool:
        """Return whether the container must have a card for itself."""
        return self.exclusive and not (self.exclusive_by_compute and card.compute > FULL)

    def memory_on(self, total: int) -> int:
        """Return the bytes that it asks for of a card of ``total`` bytes."""
        if self.memory is not None:
            return self.memory
        return max(bytes_of_percent(total, self.memory_percent or FULL, self.step), self.step)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a pod asks for in all, for quota engines, at its peak over the containers' lives.

    Attributes:
        cards: card shares.
        memory: bytes, of the containers that ask for bytes.
        memory_percent: percent of a card, of the containers that ask for percent.
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
        dialect: the dialect of the pod; only cards that it describes are allowed.
        containers: one for each container that asks for cards, in start order: init containers
            and sidecars as in the manifest, then main containers. Never empty.
        modes: the card modes that are allowed.
        vendor: the only vendor that is allowed; None for no demand.
        allow_uuids: the only cards that are allowed; None for no demand.
        deny_uuids: cards that are not allowed, even where ``allow_uuids`` has them.
        allow_types: a card's name must contain one of these, in any case; None for no demand.
        deny_types: a card's name must contain none of these, in any case, even where
            ``allow_types`` has one that it contains.
        isolation: the isolation provider that the node must have; None for no demand.
        topology: for containers that are ``linked``.
        priority: a higher one may preempt a lower one.
        notes: what the dialect asks for and this value cannot express, as sentences.
        alternatives: other dialects whose cards are allowed as well.
        by_configured_size: of a card in MIG mode it takes slices that the scheduler's settings
            state to have the memory; they can have less. False: the slices have the memory.
        several_slices: of a card in MIG mode one container can have several slices.
        plugin: a vendor's device plugin serves these resources without any scheduler of cards, so
            that the request fits every node without cards, and gets none of ours there; None where
            a scheduler must choose the cards.
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
    terms: SharingTerms = ANY_TERMS
    ranking: Ranking = Ranking()
    topology: TopologyConstraint = TopologyConstraint()
    priority: int = 0
    notes: tuple[str, ...] = ()
    alternatives: frozenset[str] = frozenset()
    by_configured_size: bool = False
    several_slices: bool = False
    plugin: PluginShare | None = None

    def described(self, card: Card) -> bool:
        """Return whether a dialect of the request describes a card."""
        return self.dialect in card.dialects or not self.alternatives.isdisjoint(card.dialects)

    def totals(self) -> Totals:
        """Return the pod's needs at their peak: the maximum of init containers, else the sum."""
        running = Totals(0, 0, 0, 0)
        peak = Totals(0, 0, 0, 0)
        for container in self.containers:
            needs = Totals(
                container.count,
                container.count * (container.memory or 0),
                container.count * (container.memory_percent or 0),
                container.count * container.compute,
            )
            together = _each(running, needs, int.__add__)
            peak = _each(peak, together, max)
            if container.phase is not Phase.INIT:
                running = together
        return peak


def _each(left: Totals, right: Totals, combine: Callable[[int, int], int]) -> Totals:
    return Totals(
        combine(left.cards, right.cards),
        combine(left.memory, right.memory),
        combine(left.memory_percent, right.memory_percent),
        combine(left.compute, right.compute),
    )


def required_memory(request: Request, container: ContainerRequest, card: Card) -> int:
    """Return bytes that a container of a request needs of a card.

    Of a card in MIG mode a percentage is at most its largest slice, because 100 % of such a card
    means all that one container can get. A request that takes slices by their configured size
    needs what the smallest of these really has.
    """
    memory = container.memory_on(card.memory)
    if card.mode is not Mode.MIG:
        return memory
    if request.by_configured_size:
        slot = mig.smallest_configured(card.geometry, memory)
        memory = memory if slot is None else min(memory, slot.memory)
    if container.memory is not None:
        return memory
    largest = max((slot.memory for slot in mig.free_slices(card.geometry, ())), default=memory)
    return min(memory, largest)
