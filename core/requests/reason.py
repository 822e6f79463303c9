"""Why a request does not fit a node, as counts of cards by cause."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from core.hardware.quantity import format_bytes


class Cause(Enum):
    """Why a node, or one of its cards, does not fit. The value is what the operator reads."""

    NO_CARDS = "no cards"
    UNSCHEDULABLE = "unschedulable"
    SELECTOR = "lacks a label of the nodeSelector"
    AFFINITY = "does not match the required node affinity"
    TAINT = "untolerated taint"
    DEVICES = "too few devices of the plugin free"
    NO_DEVICES = "no device plugin states the resource"
    QUOTA = "quota of the namespace"
    NO_DIALECT = "no card is described in the pod's dialect"
    TOO_FEW = "fewer cards than asked"
    TOO_FEW_FIT = "not enough fitting cards"
    OTHER_REQUEST = (
        "the pod has an allocation here that is less than it requests; delete the pod first"
    )
    KEPT = "its place is kept, and free once other pods have left"
    ISOLATION = "node lacks the isolation provider asked for"
    NO_PARTITION = "no free partition of this size in the node's partition table"
    NO_SCOPE = "not enough fitting cards within one scope of the required level"
    TOGETHER = "containers fit one by one but not together"
    DIALECT = "not described in the pod's dialect"
    BLOCKED = "held by an allocation that cannot be read"
    KUBELET = "in use, and the kubelet, which would choose the card, does not know it"
    UNDESCRIBED = "pods have cards that nothing describes any more, and the kubelet may choose them"
    HELD_BY_KUBELET = "may be in use by a pod whose card the kubelet chose"
    UNHEALTHY = "unhealthy"
    VENDOR = "other vendor"
    MODE = "other sharing mode"
    UUID = "uuid not allowed"
    TYPE = "card type not allowed"
    CLASS = "held by tasks of a class that does not mix with this one"
    QOS = "held under another QoS policy"
    GROUP = "held by a pod of the same group"
    EXCLUSION = "held by a pod under the same exclusion rule"
    SLOTS = "no sharing slot left"
    IN_USE = "in use, and asked for exclusively"
    HELD_EXCLUSIVELY = "held exclusively"
    MEMORY = "memory"
    COMPUTE = "compute"
    COMPUTE_FULL = "compute fully allocated"
    NO_LAYOUT = "in MIG mode, and no MIG layout of it is known"
    NO_PROFILE = "no MIG profile is large enough"
    NO_SLICE = "no free MIG slices for a large enough profile"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why one card does not fit one request.

    Attributes:
        cause: the first one that was found.
        short: how much is missing: bytes for MEMORY, percent for COMPUTE, else 0.
        detail: what the card's description says of it, in place of the cause; empty where nothing.
    """

    cause: Cause
    short: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CauseCount:
    """How many cards of a node share a cause.

    Attributes:
        short: the least that is missing on any of them, in the unit of its cause.
        detail: of all these cards, in place of the cause; empty where the cause says all.
    """

    cause: Cause
    cards: int
    short: int = 0
    detail: str = ""

    def text(self, *, amounts: bool = True) -> str:
        """Return the cause in words, with the missing amount or without it."""
        match self.cause:
            case Cause.MEMORY | Cause.COMPUTE if not amounts:
                return f"{self.cause.value} short"
            case Cause.MEMORY:
                return f"memory {format_bytes(self.short)} short"
            case Cause.COMPUTE:
                return f"compute {self.short}% short"
            case _:
                return self.detail or str(self.cause.value)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a request does not fit one node.

    Attributes:
        cards: how many cards it has; of ``DEVICES``, how many devices are free.
        asked: how many cards the container asks for, or devices the pod; 0 where the node fails as
            a whole.
        container: the container that does not fit; empty where the node fails as a whole.
        cause: why the node fails as a whole; None where its cards fail one by one.
        counts: by number of cards, most first, then in the order of ``Cause``.
        detail: of the cause, as a sentence in its place; empty where the cause says all.
    """

    node: str
    cards: int
    asked: int = 0
    container: str = ""
    cause: Cause | None = None
    counts: tuple[CauseCount, ...] = ()
    detail: str = ""

    def text(self, *, amounts: bool = True) -> str:
        """Write one line: ``3 of 8 cards: memory 2 GiB short; 5 of 8 cards: unhealthy``.

        Without amounts, nor numbers of cards where they are not all, few nodes differ, for a
        scheduler that lists each text.
        """
        parts: list[str] = []
        if self.cause is Cause.TOO_FEW:
            parts = [f"{self.asked} cards asked for one container, node has {self.cards}"]
        elif self.cause is not None:
            parts = [self.detail or self.cause.value]
        if amounts:
            parts += [f"{each.cards} of {self.cards} cards: {each.text()}" for each in self.counts]
        else:
            parts += [
                f"{'some' if each.cards < self.cards else each.cards} of {self.cards} cards:"
                f" {each.text(amounts=False)}"
                for each in sorted(self.counts, key=lambda each: _ORDER[each.cause])
            ]
        return "; ".join(parts)


_ORDER = {cause: position for position, cause in enumerate(Cause)}


def count_causes(obstacles: Iterable[Obstacle]) -> tuple[CauseCount, ...]:
    """Count obstacles by cause and detail, each with the least of its missing amounts."""
    counts: dict[tuple[Cause, str], CauseCount] = {}
    for obstacle in obstacles:
        known = counts.get((obstacle.cause, obstacle.detail))
        counts[obstacle.cause, obstacle.detail] = (
            replace(known, cards=known.cards + 1, short=min(known.short, obstacle.short))
            if known
            else CauseCount(obstacle.cause, 1, obstacle.short, obstacle.detail)
        )
    return tuple(
        sorted(counts.values(), key=lambda one: (-one.cards, _ORDER[one.cause], one.detail))
    )
