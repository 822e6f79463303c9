from dataclasses import replace

import pytest

from e2e.adversary.cards import Card
from e2e.adversary.rules import Held, broken, slice_named
from e2e.adversary.terms import Terms

CARD = Card("GPU-0", 16000, frozenset(("volcano", "metax")))
MIG = replace(CARD, memory=81920, mig=True)
ONE = Held("one", "GPU-0", 4000, 20)


def other(**fields: object) -> Held:
    return replace(ONE, pod="other", **fields)  # type: ignore[arg-type]


def said(card: Card, *held: Held) -> list[str]:
    """The first word of each broken rule."""
    return [text.split(": ")[1] for text in broken(card, held)]


def test_shares_that_fit_break_nothing() -> None:
    assert broken(CARD, [ONE, other(memory=12000, compute=80)]) == []
    assert broken(CARD, []) == []


@pytest.mark.parametrize(
    ("rule", "second"),
    [
        ("memory", other(memory=12001)),
        ("compute", other(compute=81)),
        ("exclusive", other(exclusive=True)),
        ("classes", other(terms=Terms("online"))),
    ],
)
def test_each_sum_and_company_that_is_not_allowed_is_reported(rule: str, second: Held) -> None:
    assert said(CARD, ONE, second) == [rule]


def test_a_card_has_so_many_slots() -> None:
    shares = [replace(ONE, pod=f"p{number}", compute=0, memory=1) for number in range(5)]

    assert said(CARD, *shares) == ["slots"]


def test_only_an_offline_task_lends_a_card_that_it_has_exclusively_to_online_ones() -> None:
    offline = replace(ONE, exclusive=True, terms=Terms("offline"), compute=100)

    assert said(CARD, offline, other(terms=Terms("online"), compute=0)) == []
    assert said(CARD, offline, other(terms=Terms("offline"), compute=0)) == ["exclusive"]


def test_slices_of_one_layout_that_lie_apart_are_fine() -> None:
    first, second = (slice_named(f"group2-{place}") for place in (0, 3))

    assert said(MIG, replace(ONE, part=first), other(part=second)) == []
    assert said(MIG, replace(ONE, part=first), other(part=first)) == ["slices"]
    assert said(MIG, replace(ONE, part=first), other(part=slice_named("group1-6"))) == ["layouts"]
    assert said(MIG, ONE) == ["slices"]
