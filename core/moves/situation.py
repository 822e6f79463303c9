"""A cluster as a planner of moves sees it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from core.feasibility.inventory import Inventory
from core.requests.request import Request, TaskClass

Amounts = Mapping[str, int]
"""Amounts of a node's other resources, such as CPU, by name; each resource in its own unit."""

NONE: Amounts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that waits for a place, or that may be moved to another one.

    Attributes:
        request: what it asks for.
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
