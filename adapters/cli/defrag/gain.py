"""What moves change of a cluster: the largest free share of each model, and fragmentation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.feasibility.fragmentation import FreeShares, fragmentation, free_shares
from core.ledger.node_ledger import NodeLedger


@dataclass(frozen=True, slots=True)
class ModelGain:
    """The free shares of one model, each before and after the moves.

    Attributes:
        model: of the cards.
        largest: bytes of the largest share of one card that fits anywhere.
        idle: cards without a share.
    """

    model: str
    largest: tuple[int, int]
    idle: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gain:
    """What is free, each before and after the moves.

    Attributes:
        models: in order of the nodes.
        fragmentation: as ``core.feasibility.fragmentation`` counts it, percent.
        empty: nodes with cards on which no pod has any.
    """

    models: tuple[ModelGain, ...]
    fragmentation: tuple[int, int]
    empty: tuple[int, int]


def gain(before: Mapping[str, NodeLedger], after: Mapping[str, NodeLedger]) -> Gain:
    """Compare two states of the same nodes."""
    then = {name: free_shares(ledger) for name, ledger in before.items()}
    now = {
        name: then[name] if ledger is before[name] else free_shares(ledger)
        for name, ledger in after.items()
    }
    earlier, later = _by_model(then.values()), _by_model(now.values())
    return Gain(
        tuple(
            ModelGain(model, *zip(earlier[model], later[model], strict=True)) for model in earlier
        ),
        (fragmentation(before.values()), fragmentation(after.values())),
        (_empty(before), _empty(after)),
    )


def _by_model(every: Iterable[tuple[FreeShares, ...]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for shares in every:
        for each in shares:
            largest, idle = found.get(each.model, (0, 0))
            found[each.model] = max(largest, each.largest), idle + each.idle
    return found


def _empty(ledgers: Mapping[str, NodeLedger]) -> int:
    return sum(bool(ledger.node.cards) and not ledger.allocations for ledger in ledgers.values())
