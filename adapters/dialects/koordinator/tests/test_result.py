"""The record of a placement, written and read back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects import allocation_record
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.formats.hami_record import METAX_ALLOCATED
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    HAMI_CORE,
    KOORDINATOR,
    Amounts,
    a_container,
    a_device,
    a_kube_node,
    a_pod,
    an_info,
    bound,
    cards,
    gib,
    place,
    the_node,
    used,
)
from adapters.wire.kube import Pod
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant, Placement
from core.requests.request import Phase

SEED = (
    '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50",'
    '"koordinator.sh/gpu-memory":"11520Mi","koordinator.sh/gpu-memory-ratio":"50"}}]}'
)
HALF: Amounts = {"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 50}


def write(pod: Pod, placement: Placement, node: Node) -> Result:
    return KOORDINATOR.write_result(pod, KOORDINATOR.read_request(pod), placement, node, now=1)


def placed(pod: Pod, node: Node) -> tuple[Placement, Result]:
    placement = place(pod, NodeLedger.of(node))
    return placement, write(pod, placement, node)


def read(pod: Pod, node: Node) -> tuple[Grant, ...]:
    return KOORDINATOR.read_result(pod, KOORDINATOR.read_request(pod), node)


def test_the_seeds_result_is_written_with_the_id_that_todays_scheduler_adds() -> None:
    node = cards(2, "23040Mi")
    pod = a_pod(HALF, labels=HAMI_CORE)

    result = write(pod, place(pod, used(node, half=[0])), node)

    assert result.annotations == {keys.ALLOCATED: SEED.replace("}}]", '},"id":"GPU-1"}]')}
    assert result.labels == {"hami.io/vgpu-node": "gpu-a"}


def test_the_seeds_result_is_read_without_an_id() -> None:
    pod = a_pod(HALF, annotations={keys.ALLOCATED: SEED})

    assert KOORDINATOR.has_result(pod)
    assert read(pod, cards(2, "23040Mi")) == (Grant("c0", "GPU-1", 11520 * MIB, 50),)


RDMA = '[{"minor":-1,"resources":{"koordinator.sh/rdma":"1"},"id":"0000:1f:00.0"}]'


def test_what_koord_scheduler_stated_of_other_devices_stays() -> None:
    node = cards(1)
    pod = bound(
        a_pod({**HALF, "rdma": 100}),
        {keys.ALLOCATED: f'{{"fpga":null,"gpu":[{{"minor":7}}],"rdma":{RDMA}}}'},
    )

    _, alone = placed(a_pod(HALF), node)
    _, beside = placed(pod, node)

    cards_only = alone.annotations[keys.ALLOCATED]
    assert beside.annotations[keys.ALLOCATED] == (
        f'{{"fpga":null,{cards_only[1:-1]},"rdma":{RDMA}}}'
    )


@pytest.mark.parametrize("text", ["", "null", "[]", '{"rdma":'])
def test_a_text_without_other_devices_adds_nothing(text: str) -> None:
    node = cards(1)

    _, alone = placed(a_pod(HALF), node)
    _, beside = placed(bound(a_pod(HALF), {keys.ALLOCATED: text}), node)

    assert beside == alone


def test_a_pod_without_the_annotation_has_no_result() -> None:
    assert not KOORDINATOR.has_result(a_pod(HALF))


def test_what_a_scheduler_alone_may_write_is_named() -> None:
    assert (
        frozenset(
            {
                "scheduling.koordinator.sh/device-allocated",
                "scheduling.koordinator.sh/bind-timestamp",
                "scheduling.koordinator.sh/gpu-minors",
                "hami.io/vgpu-node",
                "hami.io/vgpu-time",
                "hami.io/bind-phase",
                "hami.io/bind-time",
                "hami.io/vgpu-devices-allocated",
                "hami.io/vgpu-devices-to-allocate",
                "metax-tech.com/gpu-devices-allocated",
                "dragoman.dev/allocation",
            }
        )
        == KOORDINATOR.result_keys
    )


def test_the_monitors_label_is_written_for_hami_core_only_and_never_too_long() -> None:
    long = the_node(a_device(an_info()), a_kube_node(HAMI_CORE, "n" * 64))

    assert placed(a_pod(HALF), cards(1))[1].labels == {}
    assert placed(a_pod({"gpu": 100}, labels=HAMI_CORE), cards(1))[1].labels == {}
    assert placed(a_pod(HALF, labels=HAMI_CORE), long)[1].labels == {}


def test_a_share_exclusive_by_compute_is_exclusive_again() -> None:
    pod = a_pod({"gpu-core": 100, "gpu-memory": "8Gi"})
    placement, result = placed(pod, cards(1))

    assert read(bound(pod, result.annotations), cards(1)) == placement.grants
    assert placement.grants[0].exclusive


def test_a_percentage_is_written_as_requested() -> None:
    _, result = placed(a_pod({"gpu-memory-ratio": 29}), cards(1, "23040Mi"))

    assert '"koordinator.sh/gpu-memory-ratio":"29"' in result.annotations[keys.ALLOCATED]


def test_shares_of_several_containers_are_merged_at_their_peak() -> None:
    pod = a_pod(
        {"gpu-memory": "10Gi", "gpu-core": 20},
        {"gpu-memory-ratio": 25},
        init=[a_container({"gpu-memory": "70Gi"}, "setup")],
    )
    _, result = placed(pod, cards(1))

    assert json.loads(result.annotations[keys.ALLOCATED]) == {
        "gpu": [
            {
                "minor": 0,
                "resources": {
                    "koordinator.sh/gpu-core": "20",
                    "koordinator.sh/gpu-memory": "70Gi",
                    "koordinator.sh/gpu-memory-ratio": "87",
                },
                "id": "GPU-0",
            }
        ]
    }


def test_percentages_of_several_containers_add_up_to_no_more_than_the_card() -> None:
    node = the_node(a_device(an_info(memory="10")))
    pod = a_pod({"gpu-memory-ratio": 55}, {"gpu-memory-ratio": 50})

    _, result = placed(pod, node)

    assert '"koordinator.sh/gpu-memory-ratio":"100"' in result.annotations[keys.ALLOCATED]


def test_merged_cards_are_in_order_of_first_appearance() -> None:
    pod = a_pod({"gpu": 30}, {"gpu": 30}, {"gpu": 30})
    node = cards(2)
    grants = tuple(
        Grant(f"c{place}", card, gib(24), 30)
        for place, card in enumerate(["GPU-1", "GPU-0", "GPU-1"])
    )

    result = write(pod, Placement("gpu-a", grants), node)

    devices = json.loads(result.annotations[keys.ALLOCATED])["gpu"]
    ratios = [device["resources"]["koordinator.sh/gpu-memory-ratio"] for device in devices]
    assert ([device["minor"] for device in devices], ratios) == ([1, 0], ["60", "30"])


def test_a_share_of_the_whole_pod_can_be_written_again() -> None:
    pod = a_pod({"gpu": 30}, {"gpu": 30})
    placement = Placement("gpu-a", (Grant("", "GPU-0", gib(48), 60),))

    result = write(pod, placement, cards(1))

    assert '"koordinator.sh/gpu-memory-ratio":"60"' in result.annotations[keys.ALLOCATED]


def test_our_own_record_distinguishes_several_containers() -> None:
    pod = a_pod({"gpu": 30}, {"gpu": 35}, init=[a_container({"gpu": 50}, "proxy", sidecar=True)])
    node = cards(2)

    placement, result = placed(pod, node)

    assert {grant.phase for grant in placement.grants} == {Phase.SIDECAR, Phase.MAIN}
    assert read(bound(pod, result.annotations), node) == placement.grants


def test_w7_the_peers_record_of_several_containers_is_a_share_of_the_whole_pod() -> None:
    pod = a_pod({"gpu": 50}, {"gpu": 100}, annotations={keys.ALLOCATED: SEED})

    assert read(pod, cards(2)) == (Grant("", "GPU-1", 11520 * MIB, 50),)


@pytest.mark.parametrize(
    ("core", "ratio", "exclusive"), [(100, 50, True), (50, 100, True), (50, 50, False)]
)
def test_a_share_of_the_whole_pod_is_exclusive_where_it_takes_all(
    core: int, ratio: int, exclusive: bool
) -> None:
    text = SEED.replace('core":"50"', f'core":"{core}"').replace('ratio":"50"', f'ratio":"{ratio}"')
    pod = a_pod(HALF, HALF, annotations={keys.ALLOCATED: text})

    assert read(pod, cards(2))[0].exclusive is exclusive


@pytest.mark.parametrize("memory", [1, 11519 * MIB, 11521 * MIB, 1 << 48])
def test_an_amount_in_our_own_record_changes_nothing(memory: int) -> None:
    own = allocation_record.encode((Grant("c0", "GPU-1", memory, 50),))
    pod = a_pod(HALF, annotations={keys.ALLOCATED: SEED, allocation_record.KEY: own})

    assert read(pod, cards(2, "23040Mi")) == (Grant("c0", "GPU-1", 11520 * MIB, 50),)


def test_our_own_record_must_name_the_cards_that_the_ecosystems_record_names() -> None:
    own = allocation_record.encode((Grant("c0", "GPU-0", 11520 * MIB, 50),))
    pod = a_pod(HALF, annotations={keys.ALLOCATED: SEED, allocation_record.KEY: own})

    with pytest.raises(DialectError, match="must agree with") as rejected:
        read(pod, cards(2, "23040Mi"))

    assert rejected.value.field == "metadata.annotations[dragoman.dev/allocation]"


def test_metax_cards_are_also_written_for_metaxs_plugin() -> None:
    pod = a_pod({"gpu": 50, keys.METAX_TRIGGER: 1})

    placement, result = placed(pod, cards(1, "64Gi", "metax"))

    assert [grant.memory for grant in placement.grants] == [gib(32)]
    assert result.annotations[METAX_ALLOCATED] == ('[[{"uuid":"GPU-0","compute":50,"vRam":32768}]]')


def test_w23_metax_cards_need_no_compute_and_know_the_containers() -> None:
    pod = a_pod({"gpu-memory": "1Gi"}, {"cpu": 1}, {"gpu": 50})

    _, result = placed(pod, cards(1, "64Gi", "metax"))

    assert result.annotations[METAX_ALLOCATED] == (
        '[[{"uuid":"GPU-0","vRam":1024}],[],[{"uuid":"GPU-0","compute":50,"vRam":32768}]]'
    )


def test_cards_of_other_vendors_are_not_written_for_metaxs_plugin() -> None:
    assert METAX_ALLOCATED not in placed(a_pod(HALF), cards(1))[1].annotations


def amounts_of(name: str, most: int, beside: Amounts | None = None) -> st.SearchStrategy[Amounts]:
    def amounts(amount: int) -> Amounts:
        return {name: amount, **(beside or {})}

    return st.integers(1, most).map(amounts)


shares = st.one_of(
    amounts_of("gpu", 100),
    amounts_of("gpu-memory-ratio", 100),
    amounts_of("gpu-memory", 2**34),
    amounts_of("gpu-core", 100, {"gpu-memory": "1Gi"}),
    amounts_of("gpu-core", 100, {"gpu-memory-ratio": 100}),
    amounts_of("nvidia.com/gpu", 2),
)
totals = st.sampled_from(["80Gi", "83201216Ki", "23040Mi", "16777215", "101"])


@given(
    st.lists(shares, min_size=1, max_size=3),
    st.lists(st.booleans(), max_size=2),
    totals,
    st.sampled_from(["nvidia", "metax"]),
)
def test_reading_what_was_written_gives_the_same_grants(
    requested: list[Amounts], inits: list[bool], total: str, vendor: str
) -> None:
    init = [
        a_container({"gpu": 25}, f"i{place}", sidecar=sidecar)
        for place, sidecar in enumerate(inits)
    ]
    pod = a_pod(*requested, init=init)
    node = cards(4, total, vendor)
    request = replace(KOORDINATOR.read_request(pod), vendor=None)
    placement = fit(request, NodeLedger.of(node))
    if not isinstance(placement, Placement):
        return

    result = KOORDINATOR.write_result(pod, request, placement, node, now=1)

    assert read(bound(pod, result.annotations), node) == placement.grants
