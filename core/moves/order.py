"""An order of moves in which each new place is free when its step comes."""

from collections.abc import Sequence

from core.ledger.node_ledger import LedgerError, NodeLedger
from core.moves.plan import Move
from core.moves.situation import NONE, Amounts, Situation, minus, plus, shortage
from core.requests.grant import Allocation

MOST = 10_000
"""Sets of moves that are tried as the first ones."""


def in_order(moves: Sequence[Move], situation: Situation) -> tuple[Move, ...] | None:
    """The moves in such an order, the given one where that is possible; None where none was found.

    A pod that is moved frees its place and takes the new one in one step.
    """
    return _Order(moves, situation).run()


class _Order:
    """Depth first; the state of the cluster depends only on which moves were made.

    Attributes:
        stuck: sets of moves, by position, after which the others cannot all follow.
        undo: the ledgers and the room before each move that is made.
    """

    def __init__(self, moves: Sequence[Move], situation: Situation) -> None:
        self.moves = moves
        self.inventory = situation.inventory
        self.ledgers: dict[str, NodeLedger] = {}
        self.room: dict[str, Amounts] = dict(situation.room)
        self.stuck: set[frozenset[int]] = set()
        self.undo: list[tuple[dict[str, NodeLedger], dict[str, Amounts]]] = []

    def run(self) -> tuple[Move, ...] | None:
        """The moves in order."""
        chosen: list[int] = []
        number = 0
        while len(chosen) < len(self.moves):
            done = frozenset(chosen)
            number = self._next(done, number)
            if number < len(self.moves):
                chosen.append(number)
                number = 0
            else:
                self.stuck.add(done)
                if not chosen or len(self.stuck) > MOST:
                    return None
                number = chosen.pop() + 1
                self.ledgers, self.room = self.undo.pop()
        return tuple(self.moves[each] for each in chosen)

    def _next(self, done: frozenset[int], first: int) -> int:
        """Make the first move from a position on that may come next; its position."""
        for number in range(first, len(self.moves)):
            if number not in done and done | {number} not in self.stuck:
                before = self.ledgers.copy(), self.room.copy()
                if self._make(self.moves[number]):
                    self.undo.append(before)
                    return number
                self.ledgers, self.room = before
        return len(self.moves)

    def _make(self, move: Move) -> bool:
        """Make one move; whether the new place was free."""
        pod, source, target = move.pod, move.source, move.target.node
        self.ledgers[source] = self._ledger(source).release(pod.request.uid)
        self.room[source] = plus(self.room.get(source, NONE), pod.needs)
        if shortage(pod.needs, self.room.get(target, NONE)):
            return False
        allocation = Allocation.of(pod.request, move.target)
        try:
            self.ledgers[target] = self._ledger(target).reserve(allocation)
        except LedgerError:
            return False
        self.room[target] = minus(self.room.get(target, NONE), pod.needs)
        return True

    def _ledger(self, node: str) -> NodeLedger:
        return self.ledgers.get(node) or self.inventory.ledger(node)
