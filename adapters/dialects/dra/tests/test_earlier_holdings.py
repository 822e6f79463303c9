"""What a claim holds whose devices the ledger knows, while slices change."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.holders import enlarged, holding
from adapters.dialects.dra.tests.builders import (
    a_card_device,
    a_claim,
    a_result,
    a_share,
    a_slice,
    with_status,
)
from adapters.wire.dra import ResourceClaim, ResourceSlice
from core.hardware.quantity import FULL, GIB
from core.requests.grant import Allocation, Grant
from core.tests.builders import a_card, a_node

NODE = a_node(a_card("GPU-0", 0, 80 * GIB), a_card("GPU-1", 1, 80 * GIB))
FIRST = a_slice(a_card_device("gpu-0", "GPU-0"))
NOW_SECOND = a_slice(a_card_device("gpu-0", "GPU-1"))
WHOLE = a_claim(a_result("gpu-0"))
UNPARSED = a_claim(a_share("gpu-0", memory="many"))


def held(
    claim: ResourceClaim, earlier: Allocation | None, *slices: ResourceSlice
) -> Allocation | None:
    found = allocated(claim)
    assert found is not None
    return holding(found, NODE, Devices(slices), earlier)


def known(claim: ResourceClaim = WHOLE, *slices: ResourceSlice) -> Allocation:
    """What the ledger has of the claim since it was committed."""
    found = held(claim, None, *(slices or (FIRST,)))
    assert found is not None
    return replace(found, attempt=7)


@pytest.mark.parametrize("claim", [WHOLE, with_status({"allocation": 7})])
@pytest.mark.parametrize("slices", [(), (FIRST,)])
def test_what_is_known_stays_with_and_without_slices_and_with_an_unreadable_status(
    claim: ResourceClaim, slices: tuple[ResourceSlice, ...]
) -> None:
    earlier = known()

    assert held(claim, earlier, *slices) == replace(earlier, attempt=0)


def test_a_device_that_is_another_card_now_is_held_beside_the_earlier_one() -> None:
    found = held(WHOLE, known(), NOW_SECOND)

    assert found is not None
    assert [grant.card for grant in found.grants] == ["GPU-0", "GPU-1"]


def test_another_allocation_of_the_claim_replaces_the_earlier_one() -> None:
    found = held(a_claim(a_share("gpu-0", memory="1Gi")), known(), NOW_SECOND)

    assert found is not None
    assert [(grant.card, grant.memory) for grant in found.grants] == [("GPU-1", GIB)]


def test_the_same_device_allocated_at_another_time_is_another_allocation() -> None:
    allocation = {"devices": {"results": [a_result("gpu-0")]}}
    claims = [
        with_status({"allocation": allocation | {"allocationTimestamp": time}})
        for time in ("2026-11-24T00:00:00Z", "2026-11-24T00:00:01Z")
    ]

    found = held(claims[1], known(claims[0]), NOW_SECOND)

    assert found is not None
    assert [grant.card for grant in found.grants] == ["GPU-1"]


def test_where_it_is_not_certain_which_allocation_is_known_slices_decide() -> None:
    uncertain = replace(known(), devices="")

    found = held(WHOLE, uncertain, NOW_SECOND)

    assert found is not None
    assert [grant.card for grant in found.grants] == ["GPU-1"]
    assert held(WHOLE, uncertain) == replace(uncertain, attempt=0)
    nothing_here = a_claim(a_result("nic", "nic.example.com"), node="elsewhere")
    assert held(nothing_here, uncertain) is None
    anywhere = a_claim(a_result("nic", "nic.example.com"), node=None)
    assert held(anywhere, uncertain) == replace(uncertain, attempt=0)


def test_what_is_in_use_as_unknown_becomes_known_and_never_less_before() -> None:
    unclear = known(UNPARSED)
    assert unclear.blocked == {"GPU-0"}

    moved = held(UNPARSED, unclear, NOW_SECOND)

    assert moved is not None
    assert moved.blocked == {"GPU-0", "GPU-1"}
    assert held(UNPARSED, unclear) is not None
    undescribed = known(WHOLE, a_slice())
    clear = held(WHOLE, undescribed, FIRST)
    assert undescribed.blocked == {"GPU-0", "GPU-1"}
    assert clear == replace(known(), attempt=0)


grants = st.lists(
    st.builds(
        Grant,
        st.just(""),
        st.sampled_from(["GPU-0", "GPU-1"]),
        st.integers(0, 80),
        st.integers(0, FULL),
        st.booleans(),
    ),
    max_size=3,
)


@given(grants, grants)
def test_two_lists_hold_no_less_than_each(earlier: list[Grant], newer: list[Grant]) -> None:
    found = enlarged(earlier, newer)

    for card in ("GPU-0", "GPU-1"):
        have = [grant for grant in found if grant.card == card]
        for each in (earlier, newer):
            want = [grant for grant in each if grant.card == card]
            assert len(have) >= len(want)
            assert sum(g.compute for g in have) >= sum(g.compute for g in want)
            assert any(g.exclusive for g in have) >= any(g.exclusive for g in want)
            if not any(g.exclusive for g in have):
                assert sum(g.memory for g in have) >= sum(g.memory for g in want)


@given(grants)
def test_the_same_list_twice_is_the_list(own: list[Grant]) -> None:
    assert enlarged(own, own) == tuple(own)


def test_a_device_of_no_certain_node_is_known_on_each() -> None:
    everywhere = FIRST.__replace__(spec=FIRST.spec.__replace__(node_name=None))

    found = held(a_claim(a_result("gpu-0"), node=None), None, everywhere)

    assert found is not None
    assert [grant.card for grant in found.grants] == ["GPU-0"]
