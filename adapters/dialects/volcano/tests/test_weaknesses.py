"""Known weaknesses of Volcano, and what Dragoman does instead."""

import pytest

from adapters.dialects.dialect import DialectError
from adapters.dialects.merge import read_node
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.tests.builders import (
    A100,
    a_container,
    a_kube_node,
    a_node,
    a_pod,
    assigned,
    entry,
    idle,
    place,
    volcano,
    written,
)
from adapters.wire.kube import Container, Pod
from core.feasibility.fit import fit
from core.hardware.card import Mode
from core.hardware.mig import NO_GEOMETRY
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import node_value
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, Reason

MIG = entry("u0", mode="mig")


def of_memory(name: str, memory: int) -> Pod:
    return a_pod(a_container(number=1, memory=memory), name=name)


def on_mig(*memories: int) -> list[str]:
    """The slices that pods of some MiB get in sequence on one idle card."""
    pods = [of_memory(f"p{place}", memory) for place, memory in enumerate(memories)]
    found = assigned(volcano(), NodeLedger.of(a_node(MIG)), *pods)
    return [text.partition("]")[0].partition("[")[2] or text for text in found]


def adopted(ledger: NodeLedger, requested: Pod, text: str) -> NodeLedger:
    """The ledger after a dialect has read the pod's record from its annotation only."""
    dialect = volcano()
    bound = a_pod(*requested.spec.containers, annotations={keys.ASSIGNED: text})
    request = dialect.read_request(bound)
    grants = dialect.read_result(bound, request, ledger.node)
    return ledger.adopt(Allocation.of(request, Placement(ledger.node.name, grants)))


def test_w1_each_container_of_a_pod_has_its_own_devices() -> None:
    requested = a_pod(
        a_container("a", number=1, memory=1000), a_container("b", number=1, memory=2000)
    )

    _, answer = place(NodeLedger.of(a_node(idle(1))), requested)

    assert isinstance(answer, Placement)
    assert answer.grants == (
        Grant("a", "u0", 1000 * MIB, 0),
        Grant("b", "u0", 2000 * MIB, 0),
    )


def test_w2_a_container_without_devices_shifts_no_share() -> None:
    requested = a_pod(Container("idle"), a_container("main", number=1, memory=1000))

    ledger = adopted(NodeLedger.of(a_node(idle(1))), requested, "u0,NVIDIA,1000,0:")

    (allocation,) = ledger.allocations.values()
    assert [grant.container for grant in allocation.grants] == ["main"]


def test_w3_memory_without_a_number_is_one_card_with_limits() -> None:
    found = assigned(volcano(), NodeLedger.of(a_node(idle(1))), a_pod(a_container(memory=3000)))

    assert found == ["u0,NVIDIA,3000,0:"]


def test_w4_two_pods_at_once_get_two_slices() -> None:
    assert on_mig(3000, 3000) == ["group1-0", "group1-1"]


def test_w4_two_containers_of_a_pod_get_two_slices() -> None:
    requested = a_pod(
        a_container("a", number=1, memory=3000), a_container("b", number=1, memory=3000)
    )

    assert assigned(volcano(), NodeLedger.of(a_node(MIG)), requested) == [
        "u0[group1-0],NVIDIA,3000,0:;u0[group1-1],NVIDIA,3000,0:"
    ]


def test_w4_a_card_with_slices_in_use_gives_slices_of_their_group_only() -> None:
    assert on_mig(3000, 3000, 15000) == [
        "group1-0",
        "group1-1",
        "1 of 1 cards: no free MIG slices for a large enough profile",
    ]


def test_w5_an_unused_profile_is_reachable() -> None:
    assert on_mig(8000, 8000, 3000, 8000) == ["group2-0", "group2-1", "group2-3", "group2-2"]


def test_w6_a_drained_card_can_be_partitioned_again() -> None:
    ledger, _ = place(NodeLedger.of(a_node(MIG)), of_memory("small", 3000))

    drained = ledger.release("uid-small")

    assert assigned(volcano(), drained, of_memory("large", 40000)) == [
        "u0[group4-0],NVIDIA,40000,0:"
    ]


def test_a_whole_mig_card_is_its_largest_slice() -> None:
    large = entry("u0", memory="81920", card_type="NVIDIA-NVIDIA A100-SXM4-80GB", mode="mig")

    found = assigned(volcano(), NodeLedger.of(a_node(large)), a_pod(a_container(number=1)))

    assert found == ["u0[group4-0],NVIDIA,81920,0:"]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (3000, "group1-0"),
        (8000, "group2-0"),
        (12000, "group3-0"),
        (4864, "group1-0"),
        (5120, "group1-0"),
        (5121, "group2-0"),
        (10240, "group2-0"),
        (20480, "group3-0"),
        (40960, "group4-0"),
        (40961, "1 of 1 cards: no MIG profile is large enough"),
    ],
)
def test_an_idle_a100_allocates_the_smallest_slice_configured_with_enough(
    memory: int, expected: str
) -> None:
    """Source: Volcano v1.14.1 pkg/scheduler/api/devices/nvidia/vgpu/mig.go:189."""
    assert on_mig(memory) == [expected]


@pytest.mark.parametrize("of_each", [5120, 5000, 4864])
def test_slices_by_configured_size_together_have_no_more_memory_than_the_card(of_each: int) -> None:
    ledger, (card,) = NodeLedger.of(a_node(MIG)), a_node(MIG).cards

    for number in range(7):
        ledger, answer = place(ledger, of_memory(f"p{number}", of_each))
        assert isinstance(answer, Placement)

    (use,) = ledger.usages
    assert use.memory == 7 * 4864 * MIB <= card.memory
    assert isinstance(place(ledger, of_memory("last", of_each))[1], Reason)


def test_the_record_of_a_slice_states_the_request_and_the_ledger_what_the_slice_has() -> None:
    """Source: Volcano v1.14.1 pkg/scheduler/api/devices/nvidia/vgpu/utils.go:102-168."""
    requested = of_memory("p", 5120)

    ledger, answer = place(NodeLedger.of(a_node(MIG)), requested)

    assert isinstance(answer, Placement)
    text = written(volcano(), requested, answer, ledger.node)[keys.ASSIGNED]
    assert text == "u0[group1-0],NVIDIA,5120,0:"
    assert [grant.memory for grant in answer.grants] == [4864 * MIB]
    assert adopted(NodeLedger.of(a_node(MIG)), requested, text).usages[0].memory == 4864 * MIB


def test_w8_an_unhealthy_card_is_not_chosen() -> None:
    ledger = NodeLedger.of(a_node(entry("u0") + entry("u1", health="false")))

    found = assigned(
        volcano(), ledger, a_pod(a_container(number=1)), a_pod(a_container(number=1), name="q")
    )

    assert found == [
        "u0,NVIDIA,40960,0:",
        "1 of 2 cards: unhealthy; 1 of 2 cards: memory 40 GiB short",
    ]


def test_w11_a_node_without_allocatable_memory_is_rejected_with_a_reason() -> None:
    dialect = volcano()
    served, problems = read_node(
        a_kube_node(idle(1), allocatable={keys.COUNT: 10, keys.MEMORY: 0}), None, [dialect]
    )

    found = assigned(dialect, NodeLedger.of(served), a_pod(a_container(number=1)))

    zero = "allocatable volcano.sh/vgpu-memory is 0: the device plugin does not serve the cards"
    assert found == [f"1 of 1 cards: {zero}"]
    assert problems == (f"node node-1: {zero}",)


def test_w12_two_containers_on_one_card_are_both_charged_after_a_restart() -> None:
    requested = a_pod(
        a_container("a", number=1, memory=20000), a_container("b", number=1, memory=20000)
    )

    ledger = adopted(
        NodeLedger.of(a_node(idle(1))), requested, "u0,NVIDIA,20000,0:;u0,NVIDIA,20000,0:"
    )

    assert ledger.usages[0].memory == 40000 * MIB
    assert ledger.usages[0].slots == 2


def test_w16_every_key_of_a_result_is_the_schedulers_alone() -> None:
    dialect = volcano()
    on = a_node(idle(1))
    requested = a_pod(a_container(number=1))
    _, answer = place(NodeLedger.of(on), requested)

    assert isinstance(answer, Placement)
    assert written(dialect, requested, answer, on).keys() <= dialect.result_keys


def test_w17_spread_prefers_the_emptier_node() -> None:
    dialect = volcano(
        arguments={"deviceshare.SchedulePolicy": "spread", "deviceshare.ScheduleWeight": 1}
    )
    request = dialect.read_request(of_memory("new", 1000))
    used, _ = place(NodeLedger.of(a_node(idle(1), name="used")), of_memory("old", 1000))
    empty = NodeLedger.of(a_node(idle(1), name="empty"))

    def value(ledger: NodeLedger) -> int:
        answer = fit(request, ledger)
        assert isinstance(answer, Placement)
        return node_value(request.ranking.nodes[0], request, ledger, answer)

    assert value(empty) > value(used)


def test_w18_a_number_of_0_is_rejected_and_charges_nothing() -> None:
    with pytest.raises(DialectError):
        volcano().read_request(a_pod(a_container(number=0, memory=3000)))


def test_w19_a_percentage_places_a_pod() -> None:
    found = assigned(
        volcano(), NodeLedger.of(a_node(idle(1))), a_pod(a_container(number=1, percent=50))
    )

    assert found == ["u0,NVIDIA,20480,0:"]


def test_w19_the_unreachable_mode_mps_is_rejected_at_admission() -> None:
    with pytest.raises(DialectError, match="must be hami-core or mig"):
        volcano().read_request(a_pod(a_container(number=1), annotations={keys.MODE: "mps"}))


def test_w20_an_unknown_mig_model_is_never_shared_as_hami_core() -> None:
    register = entry("u0", mode="mig", card_type="NVIDIA-NVIDIA Future")
    on = a_node(register)
    wants_hami = a_pod(a_container(number=1, memory=1), annotations={keys.MODE: "hami-core"})

    found = assigned(volcano(), NodeLedger.of(on), wants_hami, of_memory("any", 1))

    assert (on.cards[0].mode, on.cards[0].geometry) == (Mode.MIG, NO_GEOMETRY)
    assert found == [
        "1 of 1 cards: other sharing mode",
        "1 of 1 cards: in MIG mode, and no MIG layout of it is known",
    ]


def test_w21_the_ledger_allocates_the_slice_and_releases_the_slice() -> None:
    empty = NodeLedger.of(a_node(MIG))

    ledger = adopted(empty, of_memory("p", 3000), "u0[group1-0],NVIDIA,3000,0:")

    assert ledger.usages[0].memory == 4864 * MIB
    assert ledger.release("uid-p").usages == empty.usages


def test_w22_what_no_eviction_can_cure_has_its_own_reason() -> None:
    request = volcano().read_request(a_pod(a_container(number=3)))

    answer = fit(request, NodeLedger.of(a_node(idle(2))))

    assert isinstance(answer, Reason)
    assert answer.cause is Cause.TOO_FEW


def test_w27_a_rule_keeps_a_card_only_as_long_as_its_own_pod_is_there() -> None:
    dialect = volcano(
        arguments={"deviceshare.GPUExclusiveRules": [{"tier": "gold"}, {"tier": "silver"}]}
    )
    gold = a_pod(a_container(number=1, memory=1), name="gold", labels={"tier": "gold"})
    silver = a_pod(a_container(number=1, memory=1), name="silver", labels={"tier": "silver"})
    next_gold = a_pod(a_container(number=1, memory=1), name="next", labels={"tier": "gold"})
    ledger, _ = place(NodeLedger.of(a_node(idle(1))), gold, dialect)
    ledger, _ = place(ledger, silver, dialect)

    _, beside = place(ledger, next_gold, dialect)
    _, after = place(ledger.release("uid-gold"), next_gold, dialect)

    assert isinstance(beside, Reason)
    assert isinstance(after, Placement)


def test_w28_no_share_is_written_as_0_which_would_be_no_limit() -> None:
    dialect = volcano({"gpuMemoryFactor": 1024})
    on = a_node(entry("u0", memory="40"), dialect)

    found = assigned(dialect, NodeLedger.of(on), a_pod(a_container(number=1, percent=1)))

    assert found == ["u0,NVIDIA,1,0:"]


def test_w30_a_renamed_resource_does_not_hide_the_node() -> None:
    dialect = volcano({"resourceCountName": "example.com/cards"})
    allocatable = {"example.com/cards": "10"}
    served, problems = read_node(a_kube_node(idle(1), allocatable=allocatable), None, [dialect])

    found = assigned(
        dialect, NodeLedger.of(served), a_pod(a_container(others={"example.com/cards": 1}))
    )

    assert problems == ()
    assert found == ["u0,NVIDIA,40960,0:"]


def test_init_containers_have_shares_of_their_own() -> None:
    requested = a_pod(Container("main"), init=[a_container("warm", number=1, memory=3000)])

    assert assigned(volcano(), NodeLedger.of(a_node(idle(1))), requested) == ["u0,NVIDIA,3000,0:"]


def test_cards_of_one_node_may_differ_in_mode() -> None:
    on = a_node(entry("u0", mode="mig") + entry("u1"))
    wants_mig = a_pod(a_container(number=1, memory=3000), annotations={keys.MODE: "mig"}, name="m")
    wants_hami = a_pod(
        a_container(number=1, memory=3000), annotations={keys.MODE: "hami-core"}, name="h"
    )

    assert assigned(volcano(), NodeLedger.of(on), wants_mig, wants_hami) == [
        "u0[group1-0],NVIDIA,3000,0:",
        "u1,NVIDIA,3000,0:",
    ]


def test_one_short_entry_does_not_hide_the_node() -> None:
    on = a_node(f"u0,10,40960,{A100}:{entry('u1')}")

    assert [card.uuid for card in on.cards] == ["u1"]


def test_a_slice_also_has_the_requested_compute() -> None:
    half = a_pod(a_container(number=1, memory=3000, cores=50))

    _, answer = place(NodeLedger.of(a_node(MIG)), half)

    assert isinstance(answer, Placement)
    assert [grant.compute >= 50 for grant in answer.grants] == [True]
