"""Holds of a quota: within the limits, renewed, lowered and dropped."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import GIB
from core.quota.amounts import NOTHING, QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaHold, Shortage, holds_of
from core.tests.builders import a_grant, a_ledger
from core.tests.builders import held as allocation


def a_quota(memory: int = 24 * GIB, cards: int | None = None) -> Quota:
    return Quota("ml", QuotaLimits(cards=cards, memory=memory), counted=True)


def a_hold(uid: str = "a", memory: int = 4 * GIB, node: str = "n", cards: int = 100) -> QuotaHold:
    return QuotaHold(uid, f"ml/{uid}", node, QuotaAmounts(cards, memory, 0))


def held(quota: Quota, *holds: QuotaHold) -> Quota:
    for hold in holds:
        found = quota.hold(hold)
        assert isinstance(found, Quota)
        quota = found
    return quota


def refused(quota: Quota, hold: QuotaHold) -> str:
    found = quota.hold(hold)
    assert isinstance(found, Shortage)
    return found.text()


def test_holds_are_accepted_up_to_the_limit() -> None:
    quota = held(a_quota(24 * GIB), a_hold("a", 20 * GIB), a_hold("b", 4 * GIB))

    assert quota.used() == QuotaAmounts(200, 24 * GIB, 0)
    assert refused(quota, a_hold("c", 1 * GIB)) == (
        "quota of namespace ml: memory 1 GiB short (24 GiB of 24 GiB used)"
    )


def test_cards_are_short_in_cards() -> None:
    quota = held(a_quota(99 * GIB, cards=2000), a_hold("a", cards=1500))

    assert refused(quota, a_hold("b", cards=1000)) == (
        "quota of namespace ml: cards 0.5 short (1.5 of 2 used)"
    )


def test_a_pod_that_alone_exceeds_the_limit_is_refused_with_both_amounts() -> None:
    assert refused(a_quota(24 * GIB), a_hold("a", 25 * GIB)) == (
        "quota of namespace ml: the pod counts 25 GiB of memory, and the limit is 24 GiB"
    )
    assert refused(a_quota(24 * GIB, cards=1000), a_hold("a", 1 * GIB, cards=1500)) == (
        "quota of namespace ml: the pod counts 1.5 cards, and the limit is 1 card"
    )


def test_a_resource_that_is_exceeded_refuses_only_pods_that_ask_for_it() -> None:
    full = a_quota(24 * GIB).adopt(a_hold("x", 30 * GIB))
    asks_none = QuotaHold("y", "ml/y", "n", QuotaAmounts(100, 0, 10))

    assert isinstance(full.hold(asks_none), Quota)


def test_a_pod_counts_once_with_the_most_that_it_holds_on_any_node() -> None:
    quota = held(a_quota(24 * GIB), a_hold("a", 20 * GIB, "n1"), a_hold("a", 24 * GIB, "n2"))

    assert quota.used() == quota.of_pod("a") == QuotaAmounts(100, 24 * GIB, 0)
    assert quota.used(without="a") == NOTHING


def test_a_renewed_hold_has_a_higher_number_and_is_accepted_whatever_the_limit_is_now() -> None:
    over = a_quota(4 * GIB).adopt(a_hold("a", 20 * GIB))
    (first,) = over.holds.values()

    renewed = held(over, a_hold("a", 5 * GIB))

    (second,) = renewed.holds.values()
    assert (second.amounts, second.number > first.number) == (first.amounts, True)


def test_a_number_is_above_the_fence_of_the_ledger() -> None:
    quota = a_quota().hold(a_hold(), above=41)

    assert isinstance(quota, Quota)
    assert quota.holds["a", "n"].number == quota.sequence == 42


def test_a_hold_is_lowered_or_dropped_unless_it_was_renewed() -> None:
    quota = held(a_quota(), a_hold("a", 20 * GIB))
    hold = quota.holds["a", "n"]
    less = QuotaAmounts(50, GIB, 0)

    assert quota.settle(hold, less).of_pod("a") == less
    assert quota.settle(hold, NOTHING).holds == {}
    renewed = held(quota, a_hold("a", 1 * GIB))
    assert renewed.settle(hold, NOTHING) is renewed
    gone = quota.settle(hold, NOTHING)
    assert gone.settle(hold, NOTHING) is gone


def test_a_quota_begins_to_count_with_a_state_of_its_own() -> None:
    begun = Quota("ml").begun()

    assert (begun.counted, begun.sequence) == (True, 1)


def up_to(gib: int) -> st.SearchStrategy[int]:
    return st.integers(0, gib).map(lambda whole: whole * GIB)


holds = st.builds(
    a_hold, st.sampled_from("abc"), up_to(12), st.sampled_from("xy"), st.integers(0, 900)
)


@given(st.lists(holds, max_size=12), up_to(24), st.integers(0, 2000))
def test_accepted_holds_never_exceed_the_limits(
    asked: Sequence[QuotaHold], memory: int, cards: int
) -> None:
    quota = a_quota(memory, cards)
    for hold in asked:
        found = quota.hold(hold)
        quota = quota if isinstance(found, Shortage) else found

        assert quota.limits.exceeded(quota.used()) == ()


@given(st.lists(holds, max_size=8), up_to(24))
def test_a_hold_is_refused_only_where_it_would_exceed_a_limit(
    asked: Sequence[QuotaHold], memory: int
) -> None:
    quota = a_quota(memory)
    for hold in asked:
        found = quota.hold(hold)
        forced = quota.adopt(hold)
        if isinstance(found, Shortage):
            assert forced.limits.exceeded(forced.used())
        else:
            assert found == forced
            quota = found


def test_limits_of_the_cluster_bind_beside_those_of_the_quota() -> None:
    quota = Quota("ml", QuotaLimits(memory=8 * GIB), host_limits=QuotaLimits(memory=4 * GIB))

    short = quota.shortage("a", QuotaAmounts(1000, 5 * GIB))

    assert short is not None
    assert (short.resource, short.limit) == ("memory", 4 * GIB)
    assert quota.shortage("a", QuotaAmounts(1000, 4 * GIB)) is None


def test_a_ledger_gives_a_hold_of_each_pod_without_a_number() -> None:
    first = allocation(a_grant("n-0", 4 * GIB), uid="a")
    second = allocation(a_grant("n-1", 8 * GIB), uid="b")

    holds = [*holds_of(a_ledger().adopt(first).adopt(second))]

    assert [(hold.uid, hold.node, hold.amounts, hold.number) for hold in holds] == [
        ("a", "n", QuotaAmounts(250, 4 * GIB, 0), 0),
        ("b", "n", QuotaAmounts(500, 8 * GIB, 0), 0),
    ]
