"""The record on a placed pod, written and read back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import NO_RESULT, DialectError
from adapters.dialects.formats.hami_record import METAX_ALLOCATED, TIME
from adapters.dialects.formats.hami_record import NODE_KEY as NODE_OF_RECORD
from adapters.dialects.metax import keys
from adapters.dialects.metax.tests.builders import (
    METAX,
    a_container,
    a_pod,
    place,
    run,
    whole_node,
    zones,
)
from adapters.wire.kube import Container, Pod
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant, Placement
from core.requests.request import Phase, PluginShare

NOW = 1_760_000_000_123_456_789
NODE = zones(2, 2)
SLICE = {"sgpu": 1, "vcore": 30, "vmemory": 4}
DEVICES = "GPU-3,Metax-SGPU,4096,30:;"
JSON = '[[{"uuid":"GPU-3","compute":30,"vRam":4096}]]'


def with_record(pod: Pod, **record: str) -> Pod:
    """The pod with more annotations, by the name of their constant."""
    others = {"JSON": METAX_ALLOCATED, "NODE": NODE_OF_RECORD, "TIME": TIME}
    texts = {others.get(key) or getattr(keys, key): value for key, value in record.items()}
    metadata = msgspec.structs.replace(
        pod.metadata, annotations={**(pod.metadata.annotations or {}), **texts}
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def written(pod: Pod, ledger: NodeLedger) -> tuple[Pod, tuple[Grant, ...]]:
    """The pod with its record, and its grants."""
    request, placement = METAX.read_request(pod), place(pod, ledger)
    result = METAX.write_result(pod, request, placement, ledger.node, NOW)
    metadata = msgspec.structs.replace(
        pod.metadata, annotations={**(pod.metadata.annotations or {}), **result.annotations}
    )
    return msgspec.structs.replace(pod, metadata=metadata), placement.grants


def read_back(pod: Pod, node: Node = NODE) -> tuple[Grant, ...]:
    return METAX.read_result(pod, METAX.read_request(pod), node)


def rejection(pod: Pod, node: Node = NODE) -> DialectError:
    with pytest.raises(DialectError) as rejected:
        read_back(pod, node)
    return rejected.value


# --- writing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [SLICE, {"gpu": 1}])
def test_all_that_is_written_is_barred_to_pod_authors(limits: dict[str, str | int | float]) -> None:
    pod = a_pod(limits)
    node = whole_node() if "gpu" in limits else NODE

    result = METAX.write_result(
        pod, METAX.read_request(pod), place(pod, NodeLedger.of(node)), node, NOW
    )

    assert {*result.annotations, *result.labels} <= METAX.result_keys


def test_every_key_is_written_by_one_of_the_two_sorts() -> None:
    assert METAX.result_keys == {
        "hami.io/vgpu-node",
        "hami.io/vgpu-time",
        "hami.io/metax-sgpu-devices-to-allocate",
        "hami.io/metax-sgpu-devices-allocated",
        "hami.io/metax-gpu-devices-to-allocate",
        "hami.io/metax-gpu-devices-allocated",
        "metax-tech.com/gpu-devices-allocated",
        "metax-tech.com/predicate-time",
        "hami.io/bind-phase",
        "hami.io/bind-time",
    }


@pytest.mark.parametrize(("length", "labels"), [(63, 1), (64, 0)])
def test_a_node_name_too_long_for_a_label_stays_an_annotation(length: int, labels: int) -> None:
    node = zones(1, name="n" * length)
    pod = a_pod(SLICE)

    result = METAX.write_result(
        pod, METAX.read_request(pod), place(pod, NodeLedger.of(node)), node, NOW
    )

    assert result.annotations["hami.io/vgpu-node"] == "n" * length
    assert len(result.labels) == labels


def test_no_other_resources_are_allowed_beside_these() -> None:
    assert METAX.companions == frozenset()
    assert METAX.name == "metax"


# --- reading ---------------------------------------------------------------------------------


def test_a_pod_without_a_record_has_no_result() -> None:
    assert not METAX.has_result(a_pod(SLICE))
    assert not METAX.has_result(with_record(a_pod(SLICE), NODE="node-a", TIME="1"))


@pytest.mark.parametrize(
    "record",
    [{"SGPU_ALLOCATED": DEVICES}, {"JSON": JSON}, {"SGPU_ALLOCATED": DEVICES, "JSON": JSON}],
)
def test_either_record_is_enough(record: dict[str, str]) -> None:
    pod = with_record(a_pod(SLICE), **record)

    assert METAX.has_result(pod)
    assert read_back(pod) == (Grant("main", "GPU-3", 4 * GIB, 30),)


def test_whole_cards_are_read_from_their_own_record() -> None:
    pod = with_record(a_pod({"gpu": 1}), GPU_ALLOCATED="node-a-metax-7,Metax-GPU,65536,100:;")

    assert METAX.has_result(pod)
    assert read_back(pod, whole_node()) == (
        Grant("main", "node-a-metax-7", 64 * GIB, 100, exclusive=True),
    )


@pytest.mark.parametrize(
    ("limits", "plugin"), [({"gpu": 1}, PluginShare.CARD), ({"sgpu": 1}, None)]
)
def test_only_whole_cards_are_served_by_metaxs_plugin_alone(
    limits: dict[str, str | int | float], plugin: PluginShare | None
) -> None:
    assert METAX.read_request(a_pod(limits)).plugin is plugin


def test_a_pod_that_got_no_card_of_ours_has_no_result() -> None:
    pod = a_pod({"gpu": 1})
    nothing = Placement("node-a", ())

    assert METAX.write_result(pod, METAX.read_request(pod), nothing, NODE, 0) == NO_RESULT


def test_a_whole_card_on_a_node_that_names_its_cards_may_be_any_of_them() -> None:
    pod = with_record(a_pod({"gpu": 1}), GPU_ALLOCATED="node-a-metax-7,Metax-GPU,65536,100:;")

    assert rejection(pod).problem == "does not say which of the node's cards the pod has"


def test_a_grant_of_a_card_that_the_node_does_not_have_keeps_its_uuid() -> None:
    pod = with_record(a_pod(SLICE), SGPU_ALLOCATED="GPU-99,Metax-SGPU,4096,30:;")

    assert [grant.card for grant in read_back(pod)] == ["GPU-99"]


def test_exclusivity_and_phase_come_from_the_request() -> None:
    pod = with_record(
        a_pod(a_container({"sgpu": 1}), init=[a_container(SLICE, "prepare"), a_container({}, "x")]),
        SGPU_ALLOCATED="GPU-3,Metax-SGPU,4096,30:;;GPU-3,Metax-SGPU,65536,100:;",
    )

    assert read_back(pod) == (
        Grant("prepare", "GPU-3", 4 * GIB, 30, phase=Phase.INIT),
        Grant("main", "GPU-3", 64 * GIB, 100, exclusive=True),
    )


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"GPU_ALLOCATED": DEVICES}, "must list the cards of the pod"),
        ({"SGPU_ALLOCATED": ""}, "covers 0 containers, the pod has 1"),
        ({"SGPU_ALLOCATED": DEVICES + ";"}, "covers 2 containers, the pod has 1"),
        ({"SGPU_ALLOCATED": ";"}, "has 0 cards for main, which requests 1"),
        ({"SGPU_ALLOCATED": "GPU-1"}, "must end with ';'"),
        ({"SGPU_ALLOCATED": DEVICES.replace("SGPU", "GPU")}, "must read 'UUID,Metax-SGPU"),
        ({"JSON": "{}"}, "not a MetaX record"),
        ({"SGPU_ALLOCATED": DEVICES, "JSON": JSON.replace("30", "31")}, "differs from"),
        ({"SGPU_ALLOCATED": DEVICES, "NODE": "node-b"}, "the pod is bound to node-a"),
    ],
)
def test_a_record_that_does_not_match_the_pod_is_rejected(
    record: dict[str, str], problem: str
) -> None:
    assert problem in rejection(with_record(a_pod(SLICE), **record)).problem


def test_cards_for_a_container_without_a_request_are_rejected() -> None:
    pod = with_record(
        a_pod(a_container({}, "plain"), a_container(SLICE)), SGPU_ALLOCATED=f"{DEVICES};"
    )

    assert rejection(pod).problem == "has 1 cards for plain, which requests 0"


# --- properties ------------------------------------------------------------------------------

RandomRequest = dict[str, str | int | float]
"""The limits of one container."""

NOTHING: RandomRequest = {}
shares: st.SearchStrategy[RandomRequest] = st.fixed_dictionaries(
    {"sgpu": st.integers(1, 2)},
    optional={"vcore": st.integers(1, 50), "vmemory": st.sampled_from([1, "1500M", "3Gi"])},
)
cards: st.SearchStrategy[RandomRequest] = st.fixed_dictionaries({"gpu": st.integers(1, 2)})


def lists_of(some: st.SearchStrategy[RandomRequest]) -> st.SearchStrategy[list[RandomRequest]]:
    return st.lists(st.just(NOTHING) | some, min_size=1, max_size=3).filter(any)


def containers(requested: list[RandomRequest]) -> list[Container]:
    return [a_container(each, f"c{number}") for number, each in enumerate(requested)]


@given(lists_of(shares), st.integers(0, 2))
def test_grants_of_shares_are_read_back(requested: list[RandomRequest], init: int) -> None:
    every = containers(requested)
    ledger = run(NodeLedger.of(zones(4, 4)), a_pod(SLICE))
    pod, grants = written(a_pod(*every[init:], init=every[:init]), ledger)

    assert read_back(pod) == grants


@given(lists_of(cards))
def test_grants_of_whole_cards_are_read_back(requested: list[RandomRequest]) -> None:
    node = whole_node()
    pod, grants = written(a_pod(*containers(requested)), NodeLedger.of(node))

    assert read_back(pod, node) == grants


@given(lists_of(shares), st.integers(0, 2))
def test_the_rules_for_pods_of_hami_read_what_we_write_alike(
    requested: list[RandomRequest], init: int
) -> None:
    every = containers(requested)
    pod, grants = written(a_pod(*every[init:], init=every[:init]), NodeLedger.of(zones(4, 4)))

    adopted = METAX.read_adopted(pod, zones(4, 4))

    assert adopted is not None
    assert adopted.grants == grants


def test_whole_cards_of_an_older_record_without_init_containers_are_read() -> None:
    node = whole_node()
    record = {"GPU_ALLOCATED": "node-a-metax-7,Metax-GPU,65536,100:;"}
    pod = with_record(a_pod({"gpu": 1}, init=[a_container(name="first")]), **record)

    adopted = METAX.read_adopted(pod, node)

    assert adopted is not None
    assert adopted.grants == (Grant("main", "node-a-metax-7", 64 * GIB, 100, exclusive=True),)


pieces = st.lists(
    st.sampled_from(["GPU-1", "GPU-2", ",", ":", ";", "Metax-SGPU", "4096", "30", "-1", "["])
).map("".join)
texts = pieces | st.text(max_size=20) | st.just(DEVICES)


@given(texts, st.none() | texts | st.just(JSON))
def test_any_record_is_read_or_rejected_with_its_key(devices: str, json: str | None) -> None:
    record = {"SGPU_ALLOCATED": devices} | ({} if json is None else {"JSON": json})
    pod = with_record(a_pod(SLICE), **record)

    try:
        found = read_back(pod)
    except DialectError as error:
        rejected = error.field
    else:
        assert [grant.container for grant in found] == ["main"]
        return
    assert rejected.removeprefix("metadata.annotations[").removesuffix("]") in METAX.result_keys
