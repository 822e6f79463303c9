from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import example, given

from core import fit as fit_module
from core.card import Card, Level, Mode, Scope
from core.fit import fit, unsuitable
from core.grant import Allocation, Grant, Placement
from core.ledger import LedgerError, NodeLedger
from core.mig import Slice
from core.node import Node, Partition
from core.quantity import GIB, MIB
from core.reason import Cause, Reason, Tally
from core.request import Ask, CardKey, Linking, Phase, Ranking, Request, TaskClass
from core.tests.builders import (
    a_card,
    a_grant,
    a_mig_card,
    a_request,
    an_ask,
    cards_of,
    empty,
    held,
    like_cards,
    placed,
    unreadable,
)
from core.tests.strategies import ledgers, requests


def refused(result: Placement | Reason) -> Reason:
    assert isinstance(result, Reason)
    return result


# --- against the obvious --------------------------------------------------------------------------


def every_assignment(request: Request, ledger: NodeLedger) -> Iterator[tuple[Grant, ...]]:
    """All ways to give the containers suitable cards, whether there is room or not."""
    suitable = [card for card in ledger.node.cards if unsuitable(request, card) is None]
    for groups in product(*(combinations(suitable, ask.count) for ask in request.asks)):
        pairs = [(a, card) for a, group in zip(request.asks, groups, strict=True) for card in group]
        if all(linked(request, a, group) for a, group in zip(request.asks, groups, strict=True)):
            yield from product(*(every_grant(ask, card) for ask, card in pairs))


def every_grant(ask: Ask, card: Card) -> list[Grant]:
    memory = ask.memory_on(card.memory)
    plain = Grant(ask.container, card.uuid, memory, ask.compute, ask.exclusive, ask.phase)
    if card.mode is not Mode.MIG:
        return [plain]
    return [
        replace(plain, memory=slot.memory, compute=slot.compute, slice=slot)
        for layout in card.geometry.layouts
        for slot in layout.slices
        if slot.memory >= memory and slot.compute >= ask.compute
    ]


def linked(request: Request, ask: Ask, group: tuple[Card, ...]) -> bool:
    level = request.linking.required
    if level is None or not ask.linked:
        return True
    return len({card.scope(level) for card in group}) == 1 and group[0].scope(level) is not None


def holds(request: Request, ledger: NodeLedger, grants: tuple[Grant, ...]) -> bool:
    try:
        ledger.hold(Allocation.of(request, Placement(ledger.node.name, grants)))
    except LedgerError:
        return False
    return True


def possible(request: Request, ledger: NodeLedger) -> bool:
    if request.isolation not in (None, ledger.node.isolation):
        return False
    return any(holds(request, ledger, grants) for grants in every_assignment(request, ledger))


@given(requests(), ledgers())
def test_fit_agrees_with_trying_every_assignment(request: Request, ledger: NodeLedger) -> None:
    result = fit(request, ledger)

    assert isinstance(result, Placement) == possible(request, ledger)


@given(requests(), ledgers(most=4))
def test_the_ledger_takes_every_placement(request: Request, ledger: NodeLedger) -> None:
    result = fit(request, ledger)

    if isinstance(result, Placement):
        assert [g.container for g in result.grants] == [
            ask.container for ask in request.asks for _ in range(ask.count)
        ]
        assert holds(request, ledger, result.grants)


@given(requests(containers=1), ledgers(most=4))
def test_every_card_of_a_refused_container_is_either_counted_or_would_do(
    request: Request, ledger: NodeLedger
) -> None:
    result = fit(request, ledger)

    if isinstance(result, Reason) and result.asked and result.cause is None:
        alone = replace(request, asks=(replace(request.asks[0], count=1, linked=False),))
        fitting = sum(
            isinstance(fit(replace(alone, allow_uuids=frozenset({card.uuid})), ledger), Placement)
            for card in ledger.node.cards
            if unsuitable(request, card) is None
        )
        assert sum(tally.cards for tally in result.tallies) == result.cards - fitting
        assert fitting < result.asked
