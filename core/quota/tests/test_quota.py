"""Claims of a quota: within the limits, renewed, lowered and dropped."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import GIB
from core.quota.amounts import NOTHING, QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaClaim, Shortage


def a_quota(memory: int = 24, cards: int | None = None) -> Quota:
    return Quota("ml", QuotaLimits(cards=cards, memory=memory * GIB), counted=True)


def a_claim(uid: str = "a", memory: int = 4, node: str = "n", cards: int = 100) -> QuotaClaim:
    return QuotaClaim(uid, f"ml/{uid}", node, QuotaAmounts(cards, memory * GIB, 0))


def claimed(quota: Quota, *claims: QuotaClaim) -> Quota:
    for claim in claims:
        found = quota.claim(claim)
        assert isinstance(found, Quota)
        quota = found
    return quota


def refused(quota: Quota, claim: QuotaClaim) -> str:
    found = quota.claim(claim)
    assert isinstance(found, Shortage)
    return found.text()


def test_claims_are_accepted_up_to_the_limit() -> None:
    quota = claimed(a_quota(24), a_claim("a", 20), a_claim("b", 4))

    assert quota.used() == QuotaAmounts(200, 24 * GIB, 0)
    assert refused(quota, a_claim("c", 1)) == (
        "quota of namespace ml: memory 1 GiB short (24 GiB of 24 GiB used)"
    )


def test_cards_are_short_in_cards() -> None:
    quota = claimed(a_quota(99, cards=2000), a_claim("a", cards=1500))

    assert refused(quota, a_claim("b", cards=1000)) == (
        "quota of namespace ml: cards 0.5 short (1.5 of 2 used)"
    )


def test_a_pod_that_alone_exceeds_the_limit_is_refused_with_both_amounts() -> None:
    assert refused(a_quota(24), a_claim("a", 25)) == (
        "quota of namespace ml: the pod counts 25 GiB of memory, and the limit is 24 GiB"
    )
    assert refused(a_quota(24, cards=1000), a_claim("a", 1, cards=1500)) == (
        "quota of namespace ml: the pod counts 1.5 cards, and the limit is 1 card"
    )


def test_a_resource_that_is_exceeded_refuses_only_pods_that_ask_for_it() -> None:
    full = a_quota(24).adopt(a_claim("x", 30))
    asks_none = QuotaClaim("y", "ml/y", "n", QuotaAmounts(100, 0, 10))

    assert isinstance(full.claim(asks_none), Quota)


def test_a_pod_counts_once_with_the_most_that_it_claims_on_any_node() -> None:
    quota = claimed(a_quota(24), a_claim("a", 20, "n1"), a_claim("a", 24, "n2"))

    assert quota.used() == quota.of_pod("a") == QuotaAmounts(100, 24 * GIB, 0)
    assert quota.used(without="a") == NOTHING


def test_a_renewed_claim_has_a_higher_number_and_is_accepted_whatever_the_limit_is_now() -> None:
    over = a_quota(4).adopt(a_claim("a", 20))
    (first,) = over.claims.values()

    renewed = claimed(over, a_claim("a", 5))

    (second,) = renewed.claims.values()
    assert (second.amounts, second.number > first.number) == (first.amounts, True)


def test_a_number_is_above_the_fence_of_the_ledger() -> None:
    quota = a_quota().claim(a_claim(), above=41)

    assert isinstance(quota, Quota)
    assert quota.claims["a", "n"].number == quota.sequence == 42


def test_a_claim_is_lowered_or_dropped_unless_it_was_renewed() -> None:
    quota = claimed(a_quota(), a_claim("a", 20))
    claim = quota.claims["a", "n"]
    less = QuotaAmounts(50, GIB, 0)

    assert quota.settle(claim, less).of_pod("a") == less
    assert quota.settle(claim, NOTHING).claims == {}
    renewed = claimed(quota, a_claim("a", 1))
    assert renewed.settle(claim, NOTHING) is renewed
    gone = quota.settle(claim, NOTHING)
    assert gone.settle(claim, NOTHING) is gone


def test_a_quota_begins_to_count_with_a_state_of_its_own() -> None:
    begun = Quota("ml").begun()

    assert (begun.counted, begun.sequence) == (True, 1)


claims = st.builds(
    a_claim, st.sampled_from("abc"), st.integers(0, 12), st.sampled_from("xy"), st.integers(0, 900)
)


@given(st.lists(claims, max_size=12), st.integers(0, 24), st.integers(0, 2000))
def test_accepted_claims_never_exceed_the_limits(
    asked: Sequence[QuotaClaim], memory: int, cards: int
) -> None:
    quota = a_quota(memory, cards)
    for claim in asked:
        found = quota.claim(claim)
        quota = quota if isinstance(found, Shortage) else found

        assert quota.limits.exceeded(quota.used()) == ()


@given(st.lists(claims, max_size=8), st.integers(0, 24))
def test_a_claim_is_refused_only_where_it_would_exceed_a_limit(
    asked: Sequence[QuotaClaim], memory: int
) -> None:
    quota = a_quota(memory)
    for claim in asked:
        found = quota.claim(claim)
        forced = quota.adopt(claim)
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
