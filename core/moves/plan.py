"""A plan of moves, as a value."""

from dataclasses import dataclass
from enum import Enum

from core.moves.situation import PlannedPod
from core.requests.grant import Placement


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that is deleted at one place, and created again at another one.

    Attributes:
        pod: the pod.
        source: the node that it leaves.
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
