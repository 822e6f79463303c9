"""Mirrored records: their texts, and that no peer sees more room than there is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects import registry
from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import Dialect
from adapters.dialects.matching import dialect_of
from adapters.dialects.mirrors import held_shares, mirrors
from adapters.dialects.tests.builders import ALL, NODE, bound
from adapters.dialects.tests.peer_counts import koordinator_left, volcano_cards
from adapters.wire.kube import Amount, Metadata, Pod
from core.feasibility.fit import fit
from core.hardware.card import Mode
from core.hardware.mig import Slice
from core.hardware.quantity import FULL, GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import Phase, SharingTerms, TaskClass

VOLCANO = "volcano.sh/vgpu-ids-new"
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
MARKS = {"dragoman.dev/mirror-volcano": "true", "dragoman.dev/mirror-koordinator": "true"}
TARGETS = [each for each in ALL if each.name in registry.mirror_targets()]
PLAIN = Pod(Metadata(name="p", namespace="d", uid="7"))
CARDS = {card.uuid: card for card in NODE.cards}
HALF: dict[str, Amount] = {
    "nvidia.com/gpu": 1,
    "nvidia.com/gpumem": 40000,
    "nvidia.com/gpucores": 30,
}


def holds(*grants: Grant, dialect: str = "hami") -> Allocation:
    return Allocation("7", "d/p", dialect, "n", grants)


def mirrored(
    *held: Allocation, pod: Pod = PLAIN, targets: Sequence[Dialect] = TARGETS
) -> dict[str, str]:
    return mirrors(pod, dialect_of(pod, ALL), held, NODE, targets)


def used(ledger: NodeLedger, uuid: str) -> CardUsage:
    return next(
        usage for card, usage in zip(NODE.cards, ledger.usages, strict=True) if card.uuid == uuid
    )


def test_a_share_is_stated_in_the_words_of_each_peer_that_describes_the_card() -> None:
    assert mirrored(holds(Grant("c", "u1", 40000 * MIB, 30)), pod=bound(HALF)) == {
        VOLCANO: "u1,NVIDIA,40000,30:",
        KOORDINATOR: '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"30",'
        '"koordinator.sh/gpu-memory":"40000Mi","koordinator.sh/gpu-memory-ratio":"49"},"id":"u1"}]}',
        **MARKS,
    }


def test_amounts_between_two_units_are_rounded_up() -> None:
    written = mirrored(holds(Grant("c", "u1", 40000 * MIB + 1, 0)))

    assert written[VOLCANO] == "u1,NVIDIA,40001,0:"
    assert '"koordinator.sh/gpu-memory-ratio":"49"' in written[KOORDINATOR]


def test_containers_that_run_at_once_take_a_place_each_and_an_init_container_none_of_theirs() -> (
    None
):
    shares = (
        Grant("first", "u0", 9 * GIB, 20, phase=Phase.INIT),
        Grant("c", "u0", 4 * GIB, 10),
        Grant("d", "u0", 2 * GIB, 5),
    )

    assert mirrored(holds(*shares))[VOLCANO] == "u0,NVIDIA,9216,20:u0,NVIDIA,1,0:"


@pytest.mark.parametrize(
    "held",
    [
        holds(Grant("c", "u0", GIB, 0, exclusive=True)),
        replace(holds(), blocked=frozenset({"u0"})),
        replace(holds(Grant("c", "u0", GIB, 0)), terms=SharingTerms(task_class=TaskClass.OFFLINE)),
        replace(holds(Grant("c", "u0", GIB, 0)), terms=SharingTerms(qos="fixed-share")),
    ],
)
def test_what_a_peer_cannot_say_takes_the_whole_card(held: Allocation) -> None:
    written = mirrored(held)

    assert written[VOLCANO] == "u0,NVIDIA,81920,100:"
    assert '"koordinator.sh/gpu-core":"100"' in written[KOORDINATOR]
    assert '"koordinator.sh/gpu-memory":"80Gi"' in written[KOORDINATOR]
    assert '"koordinator.sh/gpu-memory-ratio":"100"' in written[KOORDINATOR]


def test_a_slice_takes_the_card_from_vc_scheduler_by_a_group_that_no_table_has() -> None:
    part = Slice("1g.5gb", 5 * GIB, 0, 1, 14, "group1", 0)

    written = mirrored(holds(Grant("c", "u2", 5 * GIB, 14, slice=part)))

    assert written == {
        VOLCANO: "u2[dragoman-0],NVIDIA,0,100:",
        "dragoman.dev/mirror-volcano": "true",
    }


def test_shares_of_a_pod_and_of_its_claims_add_up() -> None:
    claimed = Allocation("claim", "d/claim", "dra", "n", (Grant("", "u1", 2 * GIB, 20),))

    written = mirrored(holds(Grant("c", "u1", GIB, 10)), claimed)

    assert written[VOLCANO] == "u1,NVIDIA,3072,30:u1,NVIDIA,1,0:"


def test_cards_that_no_peer_describes_or_that_are_gone_have_no_mirror() -> None:
    assert not mirrored(holds(Grant("c", "m0", GIB, 0)))
    assert not mirrored(holds(Grant("c", "gone", GIB, 0)))


def test_a_pod_gets_no_mirror_in_the_words_of_its_own_dialect() -> None:
    limits: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024}

    written = mirrored(holds(Grant("c", "u1", GIB, 0), dialect="volcano"), pod=bound(limits))

    assert written.keys() == {KOORDINATOR, "dragoman.dev/mirror-koordinator"}


def test_only_the_asked_records_are_written() -> None:
    assert not mirrored(holds(Grant("c", "u1", GIB, 0)), targets=[])


def test_what_koord_scheduler_stated_of_other_devices_stays() -> None:
    pod = bound(HALF, {KOORDINATOR: '{"rdma":[{"minor":3}]}'})

    written = mirrored(holds(Grant("c", "u1", GIB, 0)), pod=pod)

    assert written[KOORDINATOR].endswith('}],"rdma":[{"minor":3}]}')


@pytest.mark.parametrize("limits", [HALF, {}])
def test_a_mirror_is_never_adopted(limits: dict[str, Amount]) -> None:
    mirror = mirrored(holds(Grant("c", "u1", GIB, 0)))

    assert adopt(bound(limits, mirror), NODE, ALL) == adopt(bound(limits), NODE, ALL)


def test_a_mirror_is_no_record_of_a_pod_and_a_record_without_a_mark_is() -> None:
    own = {"hami.io/vgpu-devices-allocated": "u1,NVIDIA,1024,0:;"}
    mirror = mirrored(holds(Grant("c", "u1", GIB, 0)))

    assert registry.own_records(mirror.keys()) == frozenset()
    assert registry.own_records((own | mirror).keys()) == own.keys()
    assert registry.own_records(mirror.keys() - MARKS.keys()) == {VOLCANO, KOORDINATOR}


def test_only_the_service_writes_mirrors_and_marks() -> None:
    assert mirrored(holds(Grant("c", "u1", GIB, 0))).keys() <= registry.service_keys()


LIMITS: list[dict[str, Amount]] = [
    HALF,
    {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 33},
    {"nvidia.com/gpu": 1},
    {"koordinator.sh/gpu-core": 30, "koordinator.sh/gpu-memory-ratio": 33},
    {"koordinator.sh/gpu": 100},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 7001, "volcano.sh/vgpu-cores": 10},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-cores": 100},
]


@given(st.lists(st.sampled_from(LIMITS), max_size=12), st.integers(1, 90_000), st.integers(0, FULL))
def test_a_peer_that_reads_all_records_gives_nothing_that_the_ledger_does_not_have(
    wanted: list[dict[str, Amount]], memory: int, compute: int
) -> None:
    ledger, annotations = NodeLedger.of(NODE), list[dict[str, str]]()
    for number, limits in enumerate(wanted):
        name = f"p{number}"
        pod = Pod(Metadata(name=name, namespace="d", uid=name), bound(limits).spec)
        dialect = dialect_of(pod, ALL)
        assert dialect is not None
        request = dialect.read_request(pod)
        placement = fit(request, ledger)
        if not isinstance(placement, Placement) or not placement.grants:
            continue
        allocation = Allocation.of(request, placement)
        ledger = ledger.allocate(allocation)
        written = dialect.write_result(pod, request, placement, NODE, 0).annotations
        annotations.append({**written, **mirrors(pod, dialect, (allocation,), NODE, TARGETS)})

    for uuid, counted in volcano_cards(NODE.cards, annotations).items():
        if counted.fits(memory, compute) and not counted.is_mig:
            usage, card = used(ledger, uuid), CARDS[uuid]
            assert usage.memory + memory * MIB <= card.memory
            assert usage.compute + compute <= FULL
            assert usage.slots < card.slots
            assert not any(share.exclusive for share in usage.shares)
    for uuid, (memory_left, ratio, compute_left) in koordinator_left(
        NODE.cards, annotations
    ).items():
        usage, card = used(ledger, uuid), CARDS[uuid]
        assert memory_left <= card.memory - usage.memory
        assert compute_left <= FULL - usage.compute
        if any(share.exclusive for share in usage.shares):
            assert ratio <= 0


def test_a_node_with_a_card_in_mig_mode_is_part_of_these_tests() -> None:
    assert [card.uuid for card in NODE.cards if card.mode is Mode.MIG] == ["u2"]
    assert held_shares((), NODE) == ()


def test_a_mark_makes_a_mirror_of_no_record_of_the_pods_own_dialect() -> None:
    keys = registry.mirror_keys(["volcano", "hami"])

    assert keys == {VOLCANO, "dragoman.dev/mirror-volcano"}
    assert registry.own_records(keys) == frozenset()
    assert registry.own_records(keys, "volcano") == {VOLCANO}


def test_a_dialect_whose_scheduler_counts_no_mirrors_writes_none() -> None:
    (metax,) = [each for each in ALL if each.name == "metax"]
    held = held_shares((holds(Grant("c", "m0", GIB, 0)),), NODE)

    assert metax.write_mirror(PLAIN, held) == {}
