"""The smallest change of a request, against trying every smaller one."""

from dataclasses import replace

import pytest
from hypothesis import given

from core.feasibility.fit import fit
from core.feasibility.smallest_change import ChangeKind, smallest_changes
from core.hardware.quantity import FULL, GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.request import ContainerRequest, Request
from core.tests.builders import a_card, a_container, a_grant, a_request, empty, held, like_cards
from core.tests.strategies import ledgers, requests


def fits(request: Request, ledger: NodeLedger) -> bool:
    return isinstance(fit(request, ledger), Placement)


def changes(request: Request, ledger: NodeLedger) -> dict[ChangeKind, Request]:
    found = smallest_changes(request, lambda changed: fits(changed, ledger))
    return {change.kind: change.request for change in found}


@given(ledgers(), requests(containers=1))
def test_every_change_makes_the_request_fit(ledger: NodeLedger, request: Request) -> None:
    for changed in changes(request, ledger).values():
        assert changed != request
        assert fits(changed, ledger)


def test_the_most_memory_that_fits_is_kept() -> None:
    ledger = empty(a_card()).adopt(held(a_grant(memory=10 * GIB)))

    found = changes(a_request(a_container(8 * GIB)), ledger)

    assert found.keys() == {ChangeKind.MEMORY}
    assert found[ChangeKind.MEMORY].containers[0].memory == 6 * GIB
    above = replace(a_container(8 * GIB), memory=6 * GIB + MIB)
    assert not fits(a_request(above), ledger)


def test_a_percentage_of_memory_is_lowered_too() -> None:
    ledger = empty(a_card()).adopt(held(a_grant(memory=12 * GIB)))

    found = changes(a_request(ContainerRequest("main", 1, memory_percent=80)), ledger)

    assert found[ChangeKind.MEMORY].containers[0].memory_percent == 25


def test_compute_is_lowered_by_percent() -> None:
    ledger = empty(a_card()).adopt(held(a_grant(compute=70)))

    found = changes(a_request(a_container(compute=50)), ledger)

    assert found[ChangeKind.COMPUTE].containers[0].compute == 30


def test_cards_are_taken_away_one_by_one() -> None:
    found = changes(a_request(a_container(count=5)), empty(*like_cards(3)))

    assert found[ChangeKind.COUNT].containers[0].count == 3


def test_only_the_container_that_is_too_large_changes() -> None:
    two = a_request(a_container(20 * GIB, name="x"), a_container(GIB, name="y"))

    (change,) = smallest_changes(two, lambda changed: fits(changed, empty(*like_cards(2))))

    assert (change.kind, change.container) == (ChangeKind.MEMORY, "x")


def test_an_exclusive_card_may_be_shared_instead() -> None:
    alone = a_request(replace(a_container(), exclusive=True))

    found = changes(alone, empty(a_card()).adopt(held(a_grant())))

    assert found.keys() == {ChangeKind.EXCLUSIVE}


@pytest.mark.parametrize(
    ("constrained", "kind"),
    [
        (replace(a_request(), allow_types=("H100",)), ChangeKind.TYPES),
        (replace(a_request(), deny_uuids=frozenset({"a"})), ChangeKind.UUIDS),
        (replace(a_request(), isolation="other"), ChangeKind.ISOLATION),
    ],
)
def test_a_constraint_that_alone_forbids_the_node_is_named(
    constrained: Request, kind: ChangeKind
) -> None:
    assert changes(constrained, empty(a_card())).keys() == {kind}


def test_where_no_single_change_helps_there_is_none() -> None:
    assert changes(replace(a_request(), vendor="other"), empty(a_card())) == {}


@pytest.mark.parametrize("percent", [None, 50, FULL])
def test_less_than_all_compute_is_not_exclusive_where_only_all_of_it_was(
    percent: int | None,
) -> None:
    ledger = empty(a_card(memory=16 * GIB)).adopt(held(a_grant(memory=0, compute=10)))
    whole = ContainerRequest(
        "main",
        1,
        memory=GIB if percent is None else None,
        memory_percent=percent,
        compute=100,
        exclusive=True,
        exclusive_by_amount=True,
    )

    found = changes(a_request(whole), ledger)

    if percent == FULL:  # all memory in percent keeps the card exclusive
        assert ChangeKind.COMPUTE not in found
    else:
        (lowered,) = found[ChangeKind.COMPUTE].containers
        assert (lowered.compute, lowered.exclusive) == (90, False)
    for_itself = replace(whole, exclusive_by_amount=False)
    assert ChangeKind.COMPUTE not in changes(a_request(for_itself), ledger)


def test_less_than_all_memory_in_percent_is_not_exclusive_where_only_all_of_it_was() -> None:
    ledger = empty(a_card(memory=16 * GIB)).adopt(held(a_grant(memory=8 * GIB)))
    whole = ContainerRequest(
        "main", 1, memory_percent=FULL, exclusive=True, exclusive_by_amount=True
    )

    (lowered,) = changes(a_request(whole), ledger)[ChangeKind.MEMORY].containers

    assert (lowered.memory_percent, lowered.exclusive) == (50, False)
