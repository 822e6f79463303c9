"""A cluster as a planner of moves sees it, and a plan, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from core.feasibility.inventory import Inventory
from core.requests.grant import Placement
from core.requests.request import Request, TaskClass

Amounts = Mapping[str, int]
"""Amounts of a node's other resources, such as CPU, by name; each resource in its own unit."""

NONE: Amounts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that waits for a place, or that may be moved to another one.

    Attributes:
        nodes: where it may run, whatever is free there. Equal sets should be one object.
        needs: what it needs of its node beside cards.
        weight: what it costs to move it, 1 or more; 0 for a pod that waits.
    """

    request: Request
    nodes: frozenset[str]
    needs: Amounts = field(default_factory=lambda: NONE)
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """The nodes, what is allocated, and what may move.

    Attributes:
        inventory: all nodes. A planner does not change it.
        movable: by uid, pods that may be moved; each has an allocation on one node.
        room: by node, what of its other resources is free. What is absent is not limited.
    """

    inventory: Inventory
    movable: Mapping[str, PlannedPod]
    room: Mapping[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that is deleted at one place, and created again at another one.

    Attributes:
        target: the place that it gets; it may be on the same node.
    """

    pod: PlannedPod
    source: str
    target: Placement


class Proof(Enum):
    """What is known of better plans; the value is for people."""

    OPTIMAL = "no plan costs less"
    CUT = "the search was cut: a plan may cost less"
    IMPOSSIBLE = "no plan exists"
    UNKNOWN = "the search was cut: a plan may exist"

    @property
    def settled(self) -> bool:
        """Whether it is certain."""
        return self in (Proof.OPTIMAL, Proof.IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves that make room for some pods, in an order in which each new place is free.

    Attributes:
        proof: what is known of better plans.
        moves: in order.
        placed: where the pods that waited fit after them.
        freed: the nodes that are empty after them, where that was asked for.
        bound: no plan costs less than this; ``cost`` where that is proven to be the least.
        states: how many partial plans were looked at.
    """

    proof: Proof
    moves: tuple[Move, ...] = ()
    placed: tuple[tuple[PlannedPod, Placement], ...] = ()
    freed: frozenset[str] = frozenset()
    bound: int = 0
    states: int = 0

    @property
    def found(self) -> bool:
        """Whether it is a plan."""
        return self.proof in (Proof.OPTIMAL, Proof.CUT)

    @property
    def cost(self) -> int:
        """The weights of all pods that move."""
        return sum(move.pod.weight for move in self.moves)


def comparable(wanted: Iterable[PlannedPod], situation: Situation) -> bool:
    """Return whether all orders of the same moves lead to the same places.

    Which of an online and an offline task may join the other depends on which came first.
    """
    every = (*wanted, *situation.movable.values())
    return all(pod.request.terms.task_class is TaskClass.NORMAL for pod in every)


def shortage(needs: Amounts, room: Amounts) -> dict[str, int]:
    """Return what a node lacks for a pod, by resource; empty where it lacks nothing."""
    missing: dict[str, int] = {}
    for name, amount in needs.items():
        if name in room and amount > room[name]:
            missing[name] = amount - room[name]
    return missing


def plus(room: Amounts, needs: Amounts) -> Amounts:
    """Return what is free after a pod left."""
    return {name: free + needs.get(name, 0) for name, free in room.items()}


def minus(room: Amounts, needs: Amounts) -> Amounts:
    """Return what is free after a pod came."""
    return {name: free - needs.get(name, 0) for name, free in room.items()}
