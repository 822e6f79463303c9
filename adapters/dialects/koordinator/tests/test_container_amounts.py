"""Requests of one container: every row of the normalisation table, before and after webhooks."""

import pytest

from adapters.dialects.dialect import DialectError
from adapters.dialects.koordinator.tests.builders import (
    KOORDINATOR,
    Amounts,
    a_container,
    a_pod,
    cards,
    eight,
    gib,
    indexes,
    only_request,
    place,
    rejection,
    the_request,
    used,
)
from core.hardware.quantity import FULL, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.request import ContainerRequest, Phase


def a_request(
    count: int = 1, compute: int = 0, ratio: int | None = None, memory: int | None = None
) -> ContainerRequest:
    """Exclusive where the request has all memory in percent, or all compute."""
    return ContainerRequest(
        "c0",
        count,
        memory=memory,
        memory_percent=ratio,
        compute=compute,
        exclusive=FULL in (ratio, compute),
        linked=True,
    )


ACCEPTED: dict[str, tuple[Amounts, Amounts, ContainerRequest]] = {
    "row 1: gpu 50": (
        {"gpu": 50},
        {"gpu-core": 50, "gpu-memory-ratio": 50, "gpu.shared": 1},
        a_request(compute=50, ratio=50),
    ),
    "row 2: gpu 100": (
        {"gpu": 100},
        {"gpu-core": 100, "gpu-memory-ratio": 100, "gpu.shared": 1},
        a_request(compute=100, ratio=100),
    ),
    "row 3: gpu 200": (
        {"gpu": 200},
        {"gpu-core": 200, "gpu-memory-ratio": 200, "gpu.shared": 2},
        a_request(2, compute=100, ratio=100),
    ),
    "row 5: ratio 200": (
        {"gpu-memory-ratio": 200},
        {"gpu-memory-ratio": 200, "gpu.shared": 2},
        a_request(2, ratio=100),
    ),
    "row 6: core 200 and 64Gi": (
        {"gpu-core": 200, "gpu-memory": "64Gi"},
        {"gpu-core": 200, "gpu-memory": "64Gi", "gpu.shared": 2},
        a_request(2, compute=100, memory=gib(32)),
    ),
    "row 7: 8Gi": (
        {"gpu-memory": "8Gi"},
        {"gpu-memory": "8Gi", "gpu.shared": 1},
        a_request(memory=gib(8)),
    ),
    "row 8: 160Gi": (
        {"gpu-memory": "160Gi"},
        {"gpu-memory": "160Gi", "gpu.shared": 1},
        a_request(memory=gib(160)),
    ),
    "row 10: two halves of one card's worth": (
        {"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100},
        {"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100},
        a_request(2, compute=50, ratio=50),
    ),
    "row 11: two whole cards by shared": (
        {"gpu.shared": 2, "gpu-core": 200, "gpu-memory-ratio": 200},
        {"gpu.shared": 2, "gpu-core": 200, "gpu-memory-ratio": 200},
        a_request(2, compute=100, ratio=100),
    ),
    "row 13: 5Gi over two cards": (
        {"gpu.shared": 2, "gpu-memory": "5Gi"},
        {"gpu.shared": 2, "gpu-memory": "5Gi"},
        a_request(2, memory=2560 * MIB),
    ),
    "row 14: all memory and half the compute is exclusive": (
        {"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 100},
        {"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 100},
        a_request(compute=50, ratio=100),
    ),
    "row 15: all compute and half the memory (exclusive here, W6)": (
        {"gpu-core": 100, "gpu-memory-ratio": 50},
        {"gpu-core": 100, "gpu-memory-ratio": 50, "gpu.shared": 1},
        a_request(compute=100, ratio=50),
    ),
    "row 17: nvidia.com/gpu 2": (
        {"nvidia.com/gpu": 2},
        {"nvidia.com/gpu": 2},
        a_request(2, compute=100, ratio=100),
    ),
    "hygon's whole cards": (
        {"dcu.com/gpu": 1},
        {"dcu.com/gpu": 1},
        a_request(compute=100, ratio=100),
    ),
    "AMD's whole cards": (
        {"amd.com/gpu": 3},
        {"amd.com/gpu": 3},
        a_request(3, compute=100, ratio=100),
    ),
    "gpu over stated cards": (
        {"gpu": 100, "gpu.shared": 2},
        {"gpu-core": 100, "gpu-memory-ratio": 100, "gpu.shared": 2},
        a_request(2, compute=50, ratio=50),
    ),
    "a ratio of two cards decides the count": (
        {"gpu-core": 50, "gpu-memory-ratio": 200},
        {"gpu-core": 50, "gpu-memory-ratio": 200, "gpu.shared": 2},
        a_request(2, compute=25, ratio=100),
    ),
    "core and memory of one card": (
        {"gpu-core": 30, "gpu-memory": 1073741824},
        {"gpu-core": 30, "gpu-memory": "1Gi", "gpu.shared": 1},
        a_request(compute=30, memory=gib(1)),
    ),
    "a rest of bytes is rounded down": (
        {"gpu.shared": 3, "gpu-memory": 100},
        {"gpu.shared": 3, "gpu-memory": 100},
        a_request(3, memory=33),
    ),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_a_legal_row_means_the_same_before_the_webhook_and_after(row: str) -> None:
    before, after, wanted = ACCEPTED[row]

    assert only_request(before) == wanted
    assert only_request(after) == wanted


LIMITS = "spec.containers[c0].resources.limits[{}]"
SHARE = "koordinator.sh/{}"
REJECTED: dict[str, tuple[Amounts, str, int, str]] = {
    "row 4: gpu 150": (
        {"gpu": 150},
        "koordinator.sh/gpu",
        150,
        "must be at most 100 for 1 card; whole cards are a multiple of 100",
    ),
    "row 4 after the webhook": (
        {"gpu-core": 150, "gpu-memory-ratio": 150, "gpu.shared": 1},
        "koordinator.sh/gpu-core",
        150,
        "must be at most 100 for 1 card",
    ),
    "row 9: core alone": (
        {"gpu-core": 100},
        "koordinator.sh/gpu-core",
        100,
        "needs koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio beside it",
    ),
    "row 9 after the webhook": (
        {"gpu-core": 100, "gpu.shared": 1},
        "koordinator.sh/gpu-core",
        100,
        "needs koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio beside it",
    ),
    "shared alone": (
        {"gpu.shared": 1},
        "koordinator.sh/gpu.shared",
        1,
        "needs koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio beside it",
    ),
    "row 12: 100 percent over three cards": (
        {"gpu.shared": 3, "gpu-memory-ratio": 100},
        "koordinator.sh/gpu-memory-ratio",
        100,
        "must be a multiple of 3 for 3 cards",
    ),
    "300 percent over two cards": (
        {"gpu.shared": 2, "gpu-memory-ratio": 300},
        "koordinator.sh/gpu-memory-ratio",
        300,
        "must be at most 200 for 2 cards",
    ),
    "row 16: memory and ratio": (
        {"gpu-memory": "8Gi", "gpu-memory-ratio": 10},
        "koordinator.sh/gpu-memory",
        gib(8),
        "cannot be combined with koordinator.sh/gpu-memory-ratio; remove one of them",
    ),
    "row 18: whole cards and memory": (
        {"nvidia.com/gpu": 1, "gpu-memory": "8Gi"},
        "koordinator.sh/gpu-memory",
        gib(8),
        "cannot be combined with nvidia.com/gpu, which requests whole cards",
    ),
    "whole cards of two vendors": (
        {"nvidia.com/gpu": 1, "amd.com/gpu": 2},
        "amd.com/gpu",
        2,
        "cannot be combined with nvidia.com/gpu, which requests whole cards",
    ),
    "row 19: a whole NPU": (
        {"huawei.com/npu-core": 8, "gpu-memory-ratio": 100},
        "huawei.com/npu-core",
        8,
        "is not a GPU; Dragoman allocates GPUs only, remove it from this pod",
    ),
    "row 20: a part of an NPU": (
        {"gpu.shared": 1, "huawei.com/npu-cpu": 4, "gpu-memory": "12Gi"},
        "huawei.com/npu-cpu",
        4,
        "is not a GPU; Dragoman allocates GPUs only, remove it from this pod",
    ),
    "an NPU's dvpp": (
        {"huawei.com/npu-dvpp": 50},
        "huawei.com/npu-dvpp",
        50,
        "is not a GPU; Dragoman allocates GPUs only, remove it from this pod",
    ),
    "fpga beside a GPU": (
        {"gpu": 100, "fpga": 100},
        "koordinator.sh/fpga",
        100,
        "is not a GPU; Dragoman allocates GPUs only, remove it from this pod",
    ),
    "gpu and core": (
        {"gpu": 50, "gpu-core": 30},
        "koordinator.sh/gpu-core",
        30,
        "cannot be combined with koordinator.sh/gpu, which includes it",
    ),
    "core 200 beside the ratio of one card": (
        {"gpu-core": 200, "gpu-memory-ratio": 50},
        "koordinator.sh/gpu-core",
        200,
        "must be at most 100 for 1 card; whole cards are a multiple of 100",
    ),
    "fewer bytes than cards": (
        {"gpu.shared": 3, "gpu-memory": 2},
        "koordinator.sh/gpu-memory",
        2,
        "must be at least 3, one byte for each card",
    ),
    "nothing": (
        {"gpu-core": 0, "gpu-memory-ratio": 0},
        "koordinator.sh/gpu-core",
        0,
        "requests nothing; must be 1 or more, or be omitted",
    ),
}


@pytest.mark.parametrize("row", REJECTED)
def test_an_invalid_row_is_rejected_with_field_value_and_remedy(row: str) -> None:
    requested, name, value, problem = REJECTED[row]

    with pytest.raises(DialectError) as rejected:
        the_request(requested)

    assert rejected.value.field == LIMITS.format(name)
    assert rejected.value.value == value
    assert rejected.value.problem == problem


def test_an_amount_that_is_not_a_quantity_is_rejected() -> None:
    with pytest.raises(DialectError, match="must be a whole number, 0 to 102400"):
        the_request({"gpu": "a lot"})


def test_an_amount_below_zero_is_rejected() -> None:
    with pytest.raises(DialectError, match="must be 0 to 9223372036854775807"):
        the_request({"nvidia.com/gpu": -1})


def test_a_zero_beside_other_amounts_is_ignored() -> None:
    assert only_request({"gpu-core": 0, "gpu-memory-ratio": 50}) == a_request(ratio=50)


@pytest.mark.parametrize(
    ("printed", "memory"),
    [("64G", 64 * 10**9), ("1k", 1000), (1073741824, gib(1)), ("1e9", 10**9), ("1Ti", gib(1024))],
)
def test_memory_is_read_as_kubernetes_prints_it(printed: str | int, memory: int) -> None:
    assert only_request({"gpu-memory": printed}).memory == memory


def test_a_thousand_percent_is_printed_with_a_letter() -> None:
    assert only_request({"gpu-memory-ratio": "1k"}).count == 10


@pytest.mark.parametrize("name", ["gpu", "gpu-memory-ratio"])
def test_a_deprecated_name_means_the_new_one(name: str) -> None:
    assert only_request({f"kubernetes.io/{name}": 50}) == only_request({name: 50})


def test_deprecated_core_and_memory_mean_the_new_ones() -> None:
    old: Amounts = {"kubernetes.io/gpu-core": 30, "kubernetes.io/gpu-memory": "8Gi"}

    assert only_request(old) == a_request(compute=30, memory=gib(8))


def test_the_new_name_wins_over_the_deprecated_one() -> None:
    assert only_request({"gpu": 50, "kubernetes.io/gpu": 100}) == a_request(compute=50, ratio=50)


@pytest.mark.parametrize("name", ["kubernetes.io/fpga"])
def test_deprecated_names_of_other_devices_are_rejected(name: str) -> None:
    with pytest.raises(DialectError, match="is not a GPU"):
        the_request({name: 100})


def test_rdma_beside_cards_changes_nothing_of_their_request() -> None:
    assert only_request({"rdma": 100, "gpu": 50}) == only_request({"gpu": 50})


def test_a_request_without_a_limit_counts() -> None:
    pod = a_pod(a_container({}, requests={"gpu": 50}))

    assert KOORDINATOR.read_request(pod).containers[0].compute == 50


def test_w7_row_21_each_container_gets_its_own_half() -> None:
    half: Amounts = {"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 50}
    pod = a_pod(half, half)

    placement = place(pod, NodeLedger.of(cards(1)))

    assert [(g.container, g.compute, g.memory) for g in placement.grants] == [
        ("c0", 50, gib(40)),
        ("c1", 50, gib(40)),
    ]


def test_w7_row_22_a_half_and_a_whole_are_not_two_times_75_percent() -> None:
    pod = a_pod({"gpu": 50}, {"gpu": 100})

    placement = place(pod, NodeLedger.of(cards(2)))

    assert [(g.compute, g.exclusive) for g in placement.grants] == [(50, False), (100, True)]


def test_w7_row_23_30_and_35_percent_share_one_card() -> None:
    pod = a_pod({"gpu": 30}, {"gpu": 35})

    placement = place(pod, NodeLedger.of(cards(1)))

    assert [grant.compute for grant in placement.grants] == [30, 35]


def test_w8_row_24_an_init_container_leaves_its_card_to_the_main_one() -> None:
    before = a_pod({"gpu": 100}, init=[a_container({"gpu": 100}, "init")])
    after = a_pod(
        {"gpu-core": 100, "gpu-memory-ratio": 100, "gpu.shared": 1},
        init=[a_container({"gpu": 100}, "init")],
    )
    ledger = NodeLedger.of(cards(1))

    assert [wanted.phase for wanted in KOORDINATOR.read_request(after).containers] == [
        Phase.INIT,
        Phase.MAIN,
    ]
    assert indexes(ledger, place(before, ledger)) == [0, 0]
    assert indexes(ledger, place(after, ledger)) == [0, 0]


def test_row_6_gets_two_exclusive_cards() -> None:
    ledger = used(eight(), 0, half=[2])

    placement = place(a_pod({"gpu-core": 200, "gpu-memory": "64Gi"}), ledger)

    assert indexes(ledger, placement) == [4, 5]
    assert {(g.memory, g.exclusive) for g in placement.grants} == {(gib(32), True)}


def test_row_8_more_memory_than_any_card_has_stays_pending_with_the_amount() -> None:
    reason = rejection(a_pod({"gpu-memory": "160Gi"}), NodeLedger.of(cards(2)))

    assert reason.text() == "2 of 2 cards: memory 80 GiB short"
