"""Cards that stood free while a pod waited that could have had one of them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.harness.oracles.from_annotations import Share, sums
from e2e.harness.oracles.shared_cards import FULL, SharedCards

NodeState = tuple[float, str, frozenset[str]]
"""From when, in seconds of the monotonic clock, a node has had which components for new pods."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a pod needs of one card.

    Attributes:
        memory: MiB.
        compute: percent.
        suits: whether new pods of its kind can start on a node with these components.
    """

    memory: int
    compute: int
    suits: Callable[[str, frozenset[str]], bool]


@dataclass(frozen=True, slots=True)
class IdleCards:
    """When each card had room for a need, on a node that suits it.

    Attributes:
        times: beginnings and ends, one card after the other.
    """

    times: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, shared: SharedCards, states: Sequence[NodeState], need: Need) -> "IdleCards":
        """What the states of the API server and of the nodes say; ``minors`` has all cards."""
        sizes = {card.uuid: card.memory for card in shared.cards}
        nodes = {uuid: node for node, uuids in shared.minors.items() for uuid in uuids}
        has: dict[str, list[Share]] = {}
        used: defaultdict[str, dict[str, Share]] = defaultdict(dict)
        suits: dict[str, bool] = {}
        since: dict[str, float] = {}
        times = []
        rows: list[tuple[float, str, frozenset[str] | list[Share]]] = [*states]
        rows += ((moment, uid, shares) for moment, uid, _, shares in shared.history())
        for moment, key, now in sorted(rows, key=lambda row: row[0]):
            if isinstance(now, frozenset):
                suits[key] = need.suits(key, now)
                cards = {*shared.minors[key]}
            else:
                cards = {share.card for share in (*has.get(key, ()), *now)}
                for share in has.get(key, ()):
                    del used[share.card][key]
                for share in now:
                    used[share.card][key] = share
                has[key] = now
            for card in cards:
                memory, compute = sums(used[card].values())
                has_room = memory[card] + need.memory <= sizes[card]
                has_room = has_room and compute[card] + need.compute <= FULL
                if has_room and suits.get(nodes[card]):
                    since.setdefault(card, moment)
                elif card in since:
                    times.append((since.pop(card), moment))
        return cls([*times, *((begin, float("inf")) for begin in since.values())])

    def longest(self, begin: float, end: float) -> float:
        """Seconds of a wait for which one card was free without a break, at most."""
        return max([0, *(min(end, last) - max(begin, first) for first, last in self.times)])
