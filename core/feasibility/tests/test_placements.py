"""All placements of a request on a node: ``fit`` finds one of them wherever there is one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given

from core.feasibility import fit as fit_module
from core.feasibility.fit import fit, placements
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import KUBELET_CHOOSES, Allocation, Placement
from core.requests.request import PluginShare, Request
from core.tests.builders import (
    a_card,
    a_container,
    a_grant,
    a_mig_card,
    a_request,
    empty,
    held,
    like_cards,
)
from core.tests.strategies import ledgers, requests


@given(requests(containers=2), ledgers(pods=4))
def test_there_is_a_placement_where_the_request_fits_and_each_can_be_reserved(
    request: Request, ledger: NodeLedger
) -> None:
    found = [*placements(request, ledger)]

    assert bool(found) == isinstance(fit(request, ledger), Placement)
    for placement in found:
        ledger.reserve(Allocation.of(request, placement))


@given(ledgers(pods=4))
def test_every_choice_of_two_cards_is_a_placement(ledger: NodeLedger) -> None:
    request = a_request(a_container(GIB, 2))

    def possible() -> Iterator[frozenset[str]]:
        for chosen in combinations(ledger.node.cards, 2):
            uuids = frozenset(card.uuid for card in chosen)
            if isinstance(fit(replace(request, allow_uuids=uuids), ledger), Placement):
                yield uuids

    found = {
        frozenset(grant.card for grant in placement.grants)
        for placement in placements(request, ledger)
    }
    assert found == {*possible()}


def test_every_slice_of_a_card_is_a_placement() -> None:
    request = replace(a_request(a_container(GIB)), modes=frozenset(type(a_mig_card().mode)))

    slices = [place.grants[0].slice for place in placements(request, empty(a_mig_card()))]

    assert len({(each.profile, each.start) for each in slices if each}) == len(slices) == 7


def test_choices_past_the_most_tries_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TRIES", 3)

    assert len([*placements(a_request(), empty(*like_cards(5)))]) == 3


def test_a_node_that_the_request_never_fits_has_no_placement() -> None:
    assert not [*placements(a_request(a_container(count=2)), empty(a_card()))]


def test_the_kubelet_has_one_choice_or_none() -> None:
    request = replace(a_request(), plugin=PluginShare.DEVICE)
    free = empty(a_card())
    busy = free.reserve(held(a_grant("a")))

    (found,) = placements(request, free)

    assert Allocation.of(request, found).unread == KUBELET_CHOOSES
    assert not [*placements(request, busy)]
    with pytest.raises(LedgerError):
        busy.reserve(Allocation.of(request, found))
