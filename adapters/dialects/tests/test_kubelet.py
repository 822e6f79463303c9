"""Pods without a record of their cards, and the devices that the kubelet assigned."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption import adopt, adopt_from_kubelet
from adapters.dialects.tests.builders import ALL, NODE, bound
from adapters.wire.kube import Amount, Container, Pod, Resources
from adapters.wire.records.hardware import DeviceHolding
from core.hardware.card import Mode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET, Allocation, Grant
from core.requests.request import Phase

GPU, MEMORY = "nvidia.com/gpu", "volcano.sh/gpu-memory"
REPLICAS, PROFILE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
ALONE = bound({GPU: 2})


def adopted(pod: Pod, *holdings: DeviceHolding) -> Allocation:
    found = adopt(pod, NODE, ALL)
    assert found is not None
    return adopt_from_kubelet(found, pod, NODE, ALL, holdings)


def a_holding(
    *cards: str, container: str = "c", resource: str = GPU, **more: object
) -> DeviceHolding:
    plain = DeviceHolding("7", container, resource, len(cards), cards)
    return replace(plain, **more)  # type: ignore[arg-type]  # a test's fields


def a_container(name: str, limits: Mapping[str, Amount], restart: str | None = None) -> Container:
    return Container(name, Resources(limits=dict(limits)), restart)


def test_a_pod_of_nvidias_plugin_has_the_cards_that_the_kubelet_assigned_and_no_others() -> None:
    found = adopted(ALONE, a_holding("u0", "u1"))

    assert (found.dialect, found.unread, found.blocked) == (KUBELET, None, frozenset())
    assert found.grants == tuple(
        Grant("c", uuid, 80 * GIB, 100, exclusive=True) for uuid in ("u0", "u1")
    )
    ledger = NodeLedger.of(NODE).adopt(found)
    assert ledger.problems() == ()
    free = {
        card.uuid for card, use in zip(NODE.cards, ledger.usages, strict=True) if not use.shares
    }
    assert free == {"m0", "m1", "u2"}


def test_every_container_has_its_own_share_and_a_finished_init_container_releases_its_share() -> (
    None
):
    spec = msgspec.structs.replace(
        ALONE.spec,
        init_containers=(a_container("i", {GPU: 1}),),
        containers=(
            a_container("a", {GPU: "1"}),
            a_container("b", {GPU: 1}),
            a_container("idle", {GPU: 0}),
        ),
    )
    pod = msgspec.structs.replace(ALONE, spec=msgspec.structs.replace(spec, priority=9))

    found = adopted(
        pod,
        a_holding("u1", container="b"),
        a_holding("u0", container="i"),
        a_holding("u0", container="a"),
    )

    assert [(g.container, g.card, g.phase) for g in found.grants] == [
        ("i", "u0", Phase.INIT),
        ("a", "u0", Phase.MAIN),
        ("b", "u1", Phase.MAIN),
    ]
    assert found.priority == 9
    assert NodeLedger.of(NODE).adopt(found).problems() == ()


def test_of_cards_that_others_may_share_only_these_are_blocked() -> None:
    found = adopted(ALONE, a_holding("u0", count=2, shared=True))

    assert (found.dialect, found.grants) == (KUBELET, ())
    assert found.blocked == {"u0"}
    assert (
        found.unread
        == "the kubelet assigned its cards, and no record says which part of them is its own"
    )


@pytest.mark.parametrize("resource", [REPLICAS, PROFILE])
def test_of_replicas_and_mig_devices_exactly_the_reported_cards_are_blocked(resource: str) -> None:
    pod = bound({resource: 1})
    card = next(card for card in NODE.cards if card.vendor == "nvidia")
    sliced = replace(NODE, cards=(*NODE.cards, replace(card, uuid="s0", index=9, mode=Mode.MIG)))
    own = "s0" if resource == PROFILE else "u1"

    before = adopt(pod, sliced, ALL)
    assert before is not None
    found = adopt_from_kubelet(
        before, pod, sliced, ALL, [a_holding(own, resource=resource, shared=True)]
    )

    assert {own} <= before.blocked
    assert (found.dialect, found.grants) == (KUBELET, ())
    assert found.blocked == {own}


def test_an_agent_that_reports_a_part_of_the_resources_leaves_the_pod_unknown() -> None:
    pod = bound({GPU: 1, REPLICAS: 1})

    assert adopted(pod, a_holding("u0")) == adopted(pod)


def test_a_pod_of_volcanos_older_plugin_blocks_the_card_of_its_container() -> None:
    pod = bound({MEMORY: 1024}, {"volcano.sh/gpu-index": "0"})

    found = adopted(pod, a_holding("u1", resource=MEMORY, count=1024, shared=True))

    assert (found.dialect, found.grants) == ("volcano", ())
    assert found.blocked == {"u1"}


@pytest.mark.parametrize(
    "holdings",
    [
        pytest.param([], id="nothing"),
        pytest.param([replace(a_holding("u0", "u1"), pod="8")], id="another pod"),
        pytest.param([a_holding("u0")], id="too few: the kubelet is not done yet"),
        pytest.param([a_holding("u0", "u1", "u2")], id="too many"),
        pytest.param([a_holding("u0", "u9")], id="a card that the node does not have"),
        pytest.param([a_holding("u0", "u1", container="other")], id="of no container of it"),
        pytest.param(
            [a_holding("u0", "u1"), a_holding("u2", container="x")], id="of one container too many"
        ),
        pytest.param([a_holding("u0", "u1", resource=MEMORY)], id="another resource"),
        pytest.param([a_holding("u0", "u1"), a_holding("u0", "u1")], id="twice"),
    ],
)
def test_unless_the_kubelets_devices_are_exactly_the_request_every_card_stays_blocked(
    holdings: list[DeviceHolding],
) -> None:
    assert adopted(ALONE, *holdings) == adopted(ALONE)
    assert adopted(ALONE).blocked == {"u0", "u1", "u2"}


@pytest.mark.parametrize(
    "limits",
    [
        {GPU: 2, "koordinator.sh/gpu": 100},
        {GPU: 2, "volcano.sh/vgpu-number": 1},
        {GPU: 2, "metax-tech.com/gpu": 1},
        {GPU: 2, "amd.com/gpu": 1},
    ],
)
def test_a_pod_that_requests_more_than_the_kubelet_reports_stays_unknown(
    limits: dict[str, Amount],
) -> None:
    pod = bound(limits)

    assert adopted(pod, a_holding("u0", "u1")) == adopted(pod)


def test_an_invalid_amount_leaves_the_pod_unknown() -> None:
    pod = bound({GPU: "many"})

    assert adopted(pod, a_holding("u0")) == adopted(pod)


def test_a_valid_record_on_the_pod_counts() -> None:
    pod = bound({GPU: 1}, {"hami.io/vgpu-devices-allocated": "u0,NVIDIA,1024,10:;"})

    found = adopted(pod, a_holding("u1"))

    assert found == adopted(pod)
    assert found.grants[0].card == "u0"


def ordered(some: list[str]) -> tuple[str, ...]:
    return tuple(sorted(some))


cards = st.lists(st.sampled_from(["u0", "u1", "u2", "m0", "u9"]), max_size=3, unique=True)
reports = st.lists(
    st.builds(
        DeviceHolding,
        st.just("7"),
        st.sampled_from(["c", "d"]),
        st.sampled_from([GPU, MEMORY]),
        st.integers(0, 3),
        cards.map(ordered),
        st.booleans(),
    ),
    max_size=3,
)


@given(st.sampled_from([{GPU: 1}, {GPU: 2}, {MEMORY: 2}, {GPU: 1, MEMORY: 1}]), reports)
def test_an_adopted_pod_never_loses_a_card_that_its_record_names(
    limits: dict[str, Amount], holdings: list[DeviceHolding]
) -> None:
    pod = bound(limits)
    before = adopted(pod)

    found = adopted(pod, *holdings)

    if found != before:
        named = {uuid for holding in holdings for uuid in holding.cards}
        assert named == {grant.card for grant in found.grants} | found.blocked
        assert sum(holding.count for holding in holdings) == sum(map(int, limits.values()))
