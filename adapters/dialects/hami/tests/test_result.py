"""The record on a placed pod: written, read by the rules of HAMi's plugin, and read back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adoption import adopt
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.hami.tests.builders import (
    HAMI,
    NOW,
    PluginDevice,
    a_container,
    a_device,
    a_hami,
    a_kube_node,
    a_mig_device,
    a_pod,
    as_the_plugin_reads,
    cards,
    place,
    read,
    the_node,
)
from adapters.dialects.koordinator.dialect import Koordinator
from adapters.dialects.tests.builders import ALL
from adapters.wire.kube import Pod, with_annotations
from core.feasibility.fit import fit
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant, Placement
from core.requests.request import Phase

ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG = "hami.io/vgpu-mig-allocations"
SHARE = {"gpu": 1, "gpumem": 3000, "gpucores": 30}


def written(pod: Pod, node: Node) -> tuple[Pod, Placement]:
    """The pod with its record, and its placement."""
    placement = place(pod, node)
    result = HAMI.write_result(pod, read(pod), placement, node, NOW)
    texts = {**(pod.metadata.annotations or {}), **result.annotations}
    return with_annotations(pod, texts), placement


def texts_of(pod: Pod) -> dict[str, str]:
    return dict(pod.metadata.annotations or {})


def rejected(pod: Pod, node: Node, **texts: str) -> DialectError:
    changed = with_annotations(pod, {**texts_of(pod), **texts})
    with pytest.raises(DialectError) as error:
        HAMI.read_result(changed, read(changed), node)
    return error.value


def test_the_record_is_what_hamis_scheduler_writes() -> None:
    pod, _ = written(a_pod(SHARE), cards(1))

    assert texts_of(pod) == {
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-time": "1790000000",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1790000000",
        "hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,3000,30:;",
        "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,3000,30:;",
    }
    assert texts_of(pod).keys() <= HAMI.result_keys


def test_hamis_monitor_finds_the_pods_of_its_node_by_a_label() -> None:
    pod, short, long = a_pod(SHARE), cards(1), cards(1, "n" * 64)

    assert HAMI.write_result(pod, read(pod), place(pod, short), short, NOW).labels == {
        "hami.io/vgpu-node": "n"
    }
    assert HAMI.write_result(pod, read(pod), place(pod, long), long, NOW).labels == {}


def test_the_plugin_finds_the_devices_of_each_container_by_position() -> None:
    plain = a_pod(
        a_container({}, "log"),
        a_container({"gpu": 2, "gpumem-percentage": 50}, "train"),
        init=[
            a_container({}, "fetch"),
            a_container({"gpu": 1, "gpumem": 100}, "load"),
            a_container({}, "mesh", sidecar=True),
        ],
    )

    pod, _ = written(plain, cards(2))

    assert texts_of(pod)[ALLOCATED] == (
        ";GPU-1,NVIDIA,100,0:;;;GPU-1,NVIDIA,20480,0:GPU-0,NVIDIA,20480,0:;"
    )
    assert as_the_plugin_reads(pod, texts_of(pod)) == {
        "load": [PluginDevice("GPU-1", 100, 0)],
        "train": [PluginDevice("GPU-1", 20480, 0), PluginDevice("GPU-0", 20480, 0)],
    }


def test_slices_are_recorded_as_the_plugin_makes_them() -> None:
    node = the_node(a_kube_node(a_mig_device(0), a_mig_device(1)))
    plain = a_pod(
        a_container({}, "log"),
        a_container({"gpu": 2, "gpumem": 8000}, "train"),
        annotations={"nvidia.com/vgpu-mode": "mig"},
    )

    pod, placement = written(plain, node)

    assert texts_of(pod)[ALLOCATED] == ";GPU-1,NVIDIA,9856,29:GPU-1,NVIDIA,9856,29:;"
    assert texts_of(pod)[MIG] == (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"2g.10gb",'
        '"placement":{"start":0,"size":2}},'
        '{"containerIndex":1,"deviceIndex":1,"gpuUUID":"GPU-1","profile":"2g.10gb",'
        '"placement":{"start":2,"size":2}}]'
    )
    assert HAMI.read_result(pod, read(pod), node) == placement.grants


def test_a_record_that_gives_a_container_a_card_or_a_slice_twice_is_rejected() -> None:
    pod, _ = written(a_pod({"gpu": 2, "gpumem": 100}), cards(2))
    error = rejected(pod, cards(2), **{ALLOCATED: "GPU-0,NVIDIA,100,0:GPU-0,NVIDIA,100,0:;"})
    assert error.problem == "names a card or a slice twice for one container"

    node = the_node(a_kube_node(a_mig_device(0)))
    cut, _ = written(a_pod({"gpu": 2, "gpumem": 8000}), node)
    same = texts_of(cut)[MIG].replace('"start":2', '"start":0')
    assert rejected(cut, node, **{MIG: same}).problem == error.problem


def test_what_the_plugin_adds_to_the_slices_is_ignored() -> None:
    node = the_node(a_kube_node(a_mig_device()))
    pod, placement = written(a_pod({"gpu": 1, "gpumem": 100}), node)
    places = json.loads(texts_of(pod)[MIG])
    places[0] |= {"migUUID": "MIG-1", "gpuInstanceID": 7, "computeInstanceID": 0}

    later = with_annotations(pod, {**texts_of(pod), MIG: json.dumps(places)})

    assert placement.grants[0].slice is not None
    assert (placement.grants[0].slice.profile, placement.grants[0].slice.start) == ("1g.5gb", 6)
    assert HAMI.read_result(later, read(later), node) == placement.grants


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "cannot be parsed"),
        ("[]", "must name a slice of GPU-0 for device 0"),
        ("other card", "must name a slice of GPU-0 for device 0"),
        ("other place", "must name a slice of GPU-0 that its layouts have"),
        ("twice", "must have one slice for each device"),
        ('"\ud800"', "cannot be parsed"),
    ],
)
def test_a_record_of_slices_that_the_card_does_not_have_is_rejected(
    text: str, problem: str
) -> None:
    node = the_node(a_kube_node(a_mig_device()))
    pod, _ = written(a_pod({"gpu": 1, "gpumem": 100}), node)
    own = texts_of(pod)[MIG]
    texts = {
        "other card": own.replace("GPU-0", "GPU-9"),
        "other place": own.replace('"start":6', '"start":7'),
        "twice": f"{own[:-1]},{own[1:]}",
    }

    error = rejected(pod, node, **{MIG: texts.get(text, text)})

    assert error.field == f"metadata.annotations[{MIG}]"
    assert problem in error.problem


def test_a_record_without_slices_is_rejected_on_a_partitioned_card() -> None:
    node = the_node(a_kube_node(a_mig_device()))
    pod, _ = written(a_pod({"gpu": 1, "gpumem": 100}), node)
    texts = {key: value for key, value in texts_of(pod).items() if key != MIG}

    with pytest.raises(DialectError, match="must name a slice of GPU-0 for device 0"):
        HAMI.read_result(with_annotations(pod, texts), read(pod), node)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({ALLOCATED: "GPU-0,NVIDIA,3000,30:;;"}, "covers 2 containers, the pod has 1"),
        ({ALLOCATED: ";"}, "has 0 cards for main, which requests 1"),
        ({ALLOCATED: "GPU-0,DCU,3000,30:;"}, "every device must read 'UUID,NVIDIA,MEMORY,COMPUTE'"),
        ({"hami.io/vgpu-node": "other"}, "the pod is bound to n"),
    ],
)
def test_a_record_that_contradicts_the_pod_is_rejected(texts: dict[str, str], problem: str) -> None:
    pod, _ = written(a_pod(SHARE), cards(1))

    assert problem in rejected(pod, cards(1), **texts).problem


def test_a_card_for_a_container_that_requests_none_is_rejected() -> None:
    pod, _ = written(a_pod(a_container({}, "log"), a_container(SHARE, "main")), cards(1))

    error = rejected(pod, cards(1), **{ALLOCATED: "GPU-0,NVIDIA,3000,30:;;"})

    assert error.problem == "has 1 cards for log, which requests 0"


def test_a_record_may_name_a_card_that_the_node_no_longer_has() -> None:
    pod, placement = written(a_pod(SHARE), cards(1))

    assert HAMI.read_result(pod, read(pod), Node("n", ())) == placement.grants


def test_a_pod_has_a_result_once_its_cards_are_recorded() -> None:
    pod, _ = written(a_pod(SHARE), cards(1))

    assert HAMI.has_result(pod)
    assert not HAMI.has_result(a_pod(SHARE))


# --- slices that nothing describes ----------------------------------------------------------------


def place_on(uuid: str, device: int = 0) -> str:
    place = {"start": 0, "size": 2}
    entry = {"containerIndex": 0, "deviceIndex": device, "gpuUUID": uuid, "profile": "2g.10gb"}
    return json.dumps([{**entry, "placement": place}])


def in_use(node: Node, listed: str, mig: str | None = None) -> frozenset[str]:
    """The cards that a pod with HAMi's record blocks."""
    texts = {ALLOCATED: f"{listed},NVIDIA,9856,29:;", **({} if mig is None else {MIG: mig})}
    request = {"gpu": 1, "gpumem": 8000}
    found = adopt(a_pod(request, annotations=texts, node="n"), node, ALL)
    assert found is not None
    assert (found.unread is None) == (not found.blocked)
    ledger = NodeLedger.of(node).adopt(found)
    for uuid in found.blocked:
        chosen = with_annotations(a_pod(request), {"nvidia.com/use-gpuuuid": uuid})
        assert not isinstance(fit(read(chosen), ledger), Placement)
    return found.blocked


@pytest.mark.parametrize("mode", ["mig", "shared"])
def test_a_record_of_hami_before_2_10_with_a_slice_closes_its_card(mode: str) -> None:
    made = a_mig_device if mode == "mig" else a_device
    node = the_node(a_kube_node(made(0), made(1)))

    assert in_use(node, "GPU-0[1-0]") == {"GPU-0"}


@pytest.mark.parametrize("text", ["GPU-0[1-0],{d};GPU-0,{d};", "GPU-0,{d};GPU-0[1-0],{d};"])
def test_a_slice_in_brackets_closes_its_card_whatever_other_devices_say(text: str) -> None:
    request = {"gpu": 1, "gpumem": 4000}
    listed = text.format(d="NVIDIA,4864,14:")
    device = 1 if listed.startswith("GPU-0[") else 0
    entry = {"containerIndex": device, "deviceIndex": 0, "gpuUUID": "GPU-0", "profile": "1g.5gb"}
    record = json.dumps([{**entry, "placement": {"start": 3, "size": 1}}])
    pod = a_pod(
        a_container(request, "one"),
        a_container(request, "two"),
        annotations={ALLOCATED: listed, MIG: record},
        node="n",
    )

    found = adopt(pod, the_node(a_kube_node(a_mig_device(0), a_mig_device(1))), ALL)

    assert found is not None
    assert found.blocked == {"GPU-0"}


def test_a_card_with_more_slices_than_devices_is_closed() -> None:
    node = the_node(a_kube_node(a_mig_device(0), a_mig_device(1)))
    one, other = json.loads(place_on("GPU-0")), json.loads(place_on("GPU-0", 7))
    other[0]["placement"]["start"] = 4

    assert in_use(node, "GPU-0", json.dumps([*one, *other])) == {"GPU-0"}


def test_a_slice_that_two_containers_have_closes_the_card() -> None:
    request = {"gpu": 1, "gpumem": 8000}
    node = the_node(a_kube_node(a_mig_device(0)))
    slices = [
        {**each, "containerIndex": number}
        for number in range(2)
        for each in json.loads(place_on("GPU-0"))
    ]
    texts = {ALLOCATED: "GPU-0,NVIDIA,9856,29:;" * 2, MIG: json.dumps(slices)}
    containers = (a_container(request, "one"), a_container(request, "two"))

    found = adopt(a_pod(*containers, annotations=texts, node="n"), node, ALL)

    assert found is not None
    ledger = NodeLedger.of(node).adopt(found)
    assert not isinstance(fit(read(a_pod({"gpu": 1, "gpumem": 4000})), ledger), Placement)


def test_slices_of_a_pod_without_a_record_of_cards_close_their_card() -> None:
    pod = a_pod({"vgpu": 1}, annotations={MIG: place_on("GPU-1")}, node="n")

    found = adopt(pod, the_node(a_kube_node(a_mig_device(0), a_mig_device(1))), ALL)

    assert found is not None
    assert found.blocked == {"GPU-1"}


def test_such_a_record_closes_its_card_whatever_the_resource_is_called() -> None:
    record = {ALLOCATED: "GPU-1[1-0],NVIDIA,9856,29:;"}
    pod = a_pod({"vgpu": 1}, annotations=record, node="n")

    found = adopt(pod, cards(2), ALL)

    assert found is not None
    assert found.blocked == {"GPU-1"}


def test_a_slice_of_a_card_that_is_shared_closes_the_card_as_in_hami() -> None:
    node = the_node(a_kube_node(a_device(0), a_mig_device(1), a_device(2)))

    assert in_use(node, "GPU-0", place_on("GPU-0")) == {"GPU-0"}
    assert in_use(node, "GPU-1", place_on("GPU-1")) == frozenset()
    assert in_use(node, "GPU-0", place_on("GPU-2", 1)) == {"GPU-0", "GPU-2"}


def test_a_slice_of_a_card_that_is_not_there_closes_all_partitioned_cards_as_in_hami() -> None:
    node = the_node(a_kube_node(a_device(0), a_mig_device(1), a_mig_device(2)))

    assert in_use(node, "GPU-0", place_on("GPU-9", 1)) == {"GPU-0", "GPU-1", "GPU-2"}


# --- adoption -------------------------------------------------------------------------------------


def adopted(pod: Pod, node: Node) -> tuple[tuple[Grant, ...], str | None]:
    found = adopt(pod, node, ALL)
    assert found is not None
    assert found.dialect == "hami"
    return found.grants, found.unread


def test_hamis_own_record_omits_the_lists_of_containers_without_a_card() -> None:
    pod = a_pod(
        a_container({}, "log"),
        a_container({"gpu": 1, "gpumem": 3000}, "main"),
        annotations={ALLOCATED: "GPU-0,NVIDIA,3000,0:;"},
        init=[a_container({"gpu": 1, "gpumem": 0, "gpumem-percentage": 0}, "load")],
        node="n",
    )
    both = with_annotations(pod, {ALLOCATED: "GPU-0,NVIDIA,40960,0:;GPU-0,NVIDIA,3000,0:;"})

    assert adopted(pod, cards(1)) == ((Grant("", "GPU-0", 3000 * MIB, 0),), None)
    assert adopted(both, cards(1)) == (
        (
            Grant("load", "GPU-0", 40960 * MIB, 0, phase=Phase.INIT),
            Grant("main", "GPU-0", 3000 * MIB, 0),
        ),
        None,
    )


def test_a_forged_record_of_less_than_the_request_counts_as_the_request() -> None:
    pod = a_pod(SHARE, annotations={ALLOCATED: "GPU-0,NVIDIA,1,1:;"}, node="n")

    assert adopted(pod, cards(1)) == ((Grant("main", "GPU-0", 3000 * MIB, 30),), None)


def test_amounts_that_admission_rejects_are_adopted_by_hamis_rules() -> None:
    clamped = a_pod(
        {"gpu": 1, "gpumem": 3000, "gpucores": 150},
        annotations={ALLOCATED: "GPU-0,NVIDIA,3000,100:;"},
        node="n",
    )
    nothing = a_pod({"gpu": 0, "gpumem": 3000}, node="n")

    assert adopted(clamped, cards(1)) == (
        (Grant("main", "GPU-0", 3000 * MIB, FULL, exclusive=True),),
        None,
    )
    assert adopted(nothing, cards(1)) == ((), None)


def test_a_pod_without_a_record_blocks_every_card_of_nvidia() -> None:
    found = adopt(a_pod(SHARE, node="n"), cards(2), ALL)

    assert found is not None
    assert found.blocked == {"GPU-0", "GPU-1"}


# --- whole cards ----------------------------------------------------------------------------------

KOORDINATOR = Koordinator.configured({}, Defaults())
WHOLE = Card("GPU-5", "n", 5, "nvidia", "A100", 40 * GIB, 10, dialects=frozenset({"koordinator"}))


def whole_card(node: Node, count: int = 1) -> dict[str, str]:
    pod = a_pod({"gpu": count})
    request = KOORDINATOR.read_request(pod)
    found = fit(request, NodeLedger.of(node))
    assert isinstance(found, Placement)
    result = KOORDINATOR.write_result(pod, request, found, node, NOW)
    assert {*result.annotations} <= KOORDINATOR.result_keys
    return dict(result.annotations)


def test_a_whole_card_that_hami_describes_gets_hamis_record() -> None:
    texts = whole_card(cards(2), 2)

    assert texts[ALLOCATED] == "GPU-0,NVIDIA,40960,100:GPU-1,NVIDIA,40960,100:;"
    assert texts["hami.io/bind-phase"] == "allocating"
    assert "scheduling.koordinator.sh/device-allocated" not in texts


def test_a_whole_card_that_hami_does_not_describe_gets_koordinators_record() -> None:
    texts = whole_card(Node("n", (WHOLE,)))

    assert texts.keys() == {"scheduling.koordinator.sh/device-allocated"}


def test_a_whole_card_that_both_describe_gets_both_records() -> None:
    (card,) = cards(1).cards
    both = replace(card, dialects=frozenset({"hami", "koordinator"}))

    texts = whole_card(Node("n", (both,)))

    assert texts[ALLOCATED] == "GPU-0,NVIDIA,40960,100:;"
    assert "scheduling.koordinator.sh/device-allocated" in texts


def test_a_whole_card_of_hami_is_bound_under_the_nodes_lock() -> None:
    request = KOORDINATOR.read_request(a_pod({"gpu": 1}))
    kube = a_kube_node()

    assert KOORDINATOR.needs_node_lock(request, kube)
    assert not KOORDINATOR.needs_node_lock(request, type(kube)())
    assert HAMI.needs_node_lock(read(a_pod(SHARE)), kube)
    assert not HAMI.needs_node_lock(read(a_pod(SHARE)), type(kube)())


# --- properties -----------------------------------------------------------------------------------

members = st.lists(
    st.tuples(
        st.sampled_from([Phase.INIT, Phase.SIDECAR, Phase.MAIN]),
        st.integers(0, 2),
        st.integers(1, 4000),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=5,
)


@given(drawn=members, mig=st.booleans())
def test_the_plugin_and_our_reader_read_what_was_written(
    drawn: list[tuple[Phase, int, int, int]], *, mig: bool
) -> None:
    made = [
        (
            phase,
            a_container(
                {"gpu": count, "gpumem": memory, "gpucores": cores} if count else {},
                f"c{number}",
                sidecar=phase is Phase.SIDECAR,
            ),
        )
        for number, (phase, count, memory, cores) in enumerate(drawn)
    ]
    pod = a_pod(
        *(one for phase, one in made if phase is Phase.MAIN),
        init=[one for phase, one in made if phase is not Phase.MAIN],
    )
    if not any(count for _, count, _, _ in drawn):
        return
    node = the_node(a_kube_node(a_mig_device(0), a_mig_device(1))) if mig else cards(2)
    placement = fit(read(pod), NodeLedger.of(node))
    if not isinstance(placement, Placement):
        return
    bound, _ = written(pod, node)

    expected: dict[str, list[PluginDevice]] = {}
    for grant in placement.grants:
        device = PluginDevice(grant.card, grant.memory // MIB, grant.compute)
        expected.setdefault(grant.container, []).append(device)
    assert as_the_plugin_reads(bound, texts_of(bound)) == expected
    assert HAMI.read_result(bound, read(bound), node) == placement.grants


@given(st.text(alphabet='GPU-01,NVIDA:;"[]{}', max_size=40), st.text(max_size=20))
def test_any_record_gives_grants_or_an_error_and_nothing_else(devices: str, slices: str) -> None:
    pod = a_pod(SHARE, annotations={ALLOCATED: devices, MIG: slices})

    try:
        found = HAMI.read_result(pod, read(pod), cards(1))
    except DialectError:
        return
    assert len(found) == 1


def test_a_configured_dialect_has_its_name() -> None:
    assert a_hami().name == "hami"
