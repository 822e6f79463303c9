"""What is left of a node, against requests of every size."""

from dataclasses import replace

from hypothesis import given

from core.feasibility.fit import fit
from core.feasibility.fragmentation import FreeShares, fragmentation, free_shares
from core.hardware.card import Mode
from core.hardware.mig import NO_GEOMETRY
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.request import ContainerRequest, Request, SharingTerms, TaskClass
from core.tests.builders import a_card, a_grant, a_mig_card, empty, held, like_cards, unreadable
from core.tests.strategies import ledgers


def fits(ledger: NodeLedger, model: str, memory: int) -> bool:
    """Whether a share of any card of a model fits, in any dialect."""
    uuids = frozenset(card.uuid for card in ledger.node.cards if card.model == model)
    container = ContainerRequest("main", 1, memory=memory)
    return any(
        isinstance(
            fit(
                Request(
                    "new", "default/new", dialect, (container,), frozenset(Mode), allow_uuids=uuids
                ),
                ledger,
            ),
            Placement,
        )
        for dialect in {name for card in ledger.node.cards for name in card.dialects}
    )


@given(ledgers(pods=8))
def test_the_largest_share_fits_and_no_larger_one_does(ledger: NodeLedger) -> None:
    for left in free_shares(ledger):
        assert left.largest == 0 or fits(ledger, left.model, left.largest)
        assert not fits(ledger, left.model, left.largest + 1)


@given(ledgers(pods=8))
def test_stranded_memory_is_a_part_of_what_is_free(ledger: NodeLedger) -> None:
    for left in free_shares(ledger):
        assert 0 <= left.stranded <= left.free
        assert left.free - left.stranded >= left.largest or left.stranded == 0
        assert left.idle <= left.cards


def test_idle_cards_are_free_as_a_whole() -> None:
    (left,) = free_shares(empty(*like_cards(2)))

    assert left == FreeShares("A100", 2, 2, 32 * GIB, 16 * GIB, 0, 0, 0)


def test_fragmentation_is_how_much_of_its_card_is_in_use_for_a_free_byte() -> None:
    idle = empty(*like_cards(2))
    half = empty(a_card()).reserve(held(a_grant("a", 8 * GIB)))
    sick = empty(replace(a_card(), healthy=False)).adopt(held(a_grant("a", 8 * GIB)))
    full = empty(a_card()).reserve(held(a_grant("a", 16 * GIB)))

    assert fragmentation([idle]) == 0
    assert fragmentation([half]) == 50
    assert fragmentation([half, half, full, sick]) == 50
    assert fragmentation([idle, half]) == 10
    assert fragmentation([full]) == 0
    assert [left.fragmentation for left in free_shares(half)] == [50]


def test_models_are_apart() -> None:
    small = replace(a_card("b", 1, memory=8 * GIB), model="A10")

    assert [(left.model, left.largest) for left in free_shares(empty(a_card("a"), small))] == [
        ("A100", 16 * GIB),
        ("A10", 8 * GIB),
    ]


def test_memory_without_compute_or_a_slot_is_stranded() -> None:
    full = empty(*like_cards(2, slots=1)).adopt(held(a_grant("c0", 4 * GIB, compute=100)))

    (left,) = free_shares(full)

    assert (left.free, left.largest, left.stranded) == (28 * GIB, 16 * GIB, 12 * GIB)


def test_compute_without_memory_is_stranded() -> None:
    full = empty(a_card()).adopt(held(a_grant(memory=16 * GIB, compute=30)))

    (left,) = free_shares(full)

    assert (left.largest, left.stranded, left.stranded_compute) == (0, 0, 70)


def test_a_card_that_cannot_be_read_or_is_unhealthy_is_stranded() -> None:
    sick = replace(a_card("b", 1), healthy=False)
    (left,) = free_shares(empty(a_card("a"), sick).adopt(unreadable("x", ["a"])))

    assert (left.largest, left.stranded, left.idle) == (0, 32 * GIB, 0)


def test_of_a_card_in_mig_mode_the_largest_free_slice_counts() -> None:
    (left,) = free_shares(empty(a_mig_card()))

    assert (left.free, left.largest, left.stranded) == (4 * GIB, 4 * GIB, 0)


def test_memory_beside_an_online_task_is_stranded_for_normal_ones_in_every_dialect() -> None:
    shared = replace(a_card(), dialects=frozenset({"a", "b"}))
    online = replace(held(a_grant("a", 8 * GIB)), terms=SharingTerms(TaskClass.ONLINE))

    (left,) = free_shares(empty(shared).adopt(online))

    assert (left.free, left.largest, left.stranded) == (8 * GIB, 0, 8 * GIB)


def test_a_card_that_only_a_claim_gets_is_idle_and_the_largest_share_or_neither() -> None:
    alone = [replace(card, dialects=frozenset()) for card in like_cards(2)]
    kept = [replace(alone[0], healthy=False), replace(alone[1], problem="withdrawn")]
    one_held = empty(*alone).adopt(held(a_grant("c0", 16 * GIB)))

    (free,), (taken,), (withdrawn,) = map(free_shares, (empty(*alone), one_held, empty(*kept)))

    assert (free.idle, free.largest, free.stranded) == (2, 16 * GIB, 0)
    assert (taken.idle, taken.largest, taken.stranded) == (1, 16 * GIB, 0)
    assert (withdrawn.idle, withdrawn.largest, withdrawn.stranded) == (0, 0, 32 * GIB)


def test_a_card_in_mig_mode_without_a_layout_is_not_idle() -> None:
    (left,) = free_shares(empty(replace(a_mig_card(), geometry=NO_GEOMETRY)))

    assert (left.cards, left.idle, left.largest) == (1, 0, 0)
