"""The request of a pod as a whole: vendor, isolation, MetaX's trigger, priority."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import NO_RESULT, DialectError
from adapters.dialects.formats.hami_record import METAX_QOS
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import (
    HAMI_CORE,
    KOORDINATOR,
    Amounts,
    a_container,
    a_pod,
    cards,
    eight,
    rejection,
    the_request,
)
from adapters.wire.kube import Pod
from core.feasibility.fit import fit
from core.hardware.card import Level, Mode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import (
    CardKey,
    NodeKey,
    PluginShare,
    Ranking,
    Request,
    SharingTerms,
    TopologyConstraint,
    Weights,
)

HALF: Amounts = {"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 50}
TRIGGER = keys.METAX_TRIGGER


@pytest.mark.parametrize("name", sorted({*keys.OWN, "amd.com/gpu", "dcu.com/gpu"}))
def test_a_pod_that_names_a_resource_of_the_dialect_matches(name: str) -> None:
    assert KOORDINATOR.matches(a_pod({"cpu": 1}, {name: 1}))


@pytest.mark.parametrize(
    "requested", [{"cpu": 1}, {"nvidia.com/gpu": 0}, {"nvidia.com/gpu": "0"}, {TRIGGER: 1}]
)
def test_a_pod_that_names_no_resource_or_no_whole_card_does_not_match(requested: Amounts) -> None:
    assert not KOORDINATOR.matches(a_pod(requested))


@pytest.mark.parametrize("name", ["koordinator.sh/rdma", "kubernetes.io/rdma"])
def test_a_pod_with_rdma_alone_does_not_match(name: str) -> None:
    assert not KOORDINATOR.matches(a_pod({name: 100}))


@pytest.mark.parametrize("name", ["koordinator.sh/rdma", "kubernetes.io/rdma"])
def test_rdma_beside_cards_is_left_to_koord_scheduler_with_a_note(name: str) -> None:
    request = KOORDINATOR.read_request(a_pod({**HALF, name: 100}))

    assert request.notes == (
        f"spec.containers[c0].resources[{name}]: only koord-scheduler with its plugin DeviceShare"
        " allocates it; Dragoman allocates the cards",
    )


def test_no_rdma_is_nothing_to_note() -> None:
    assert KOORDINATOR.read_request(a_pod({**HALF, "rdma": 0})).notes == ()


def test_a_pod_with_an_invalid_amount_matches() -> None:
    assert KOORDINATOR.matches(a_pod({"amd.com/gpu": "many"}))


def test_whole_nvidia_cards_mean_koordinator_beside_its_hints_alone() -> None:
    hint = {keys.ALLOCATE_HINT: '{"gpu": {"requiredTopologyScope": "NUMANode"}}'}
    hinted = a_pod({"nvidia.com/gpu": 2}, annotations=hint)

    assert not KOORDINATOR.matches(a_pod({"nvidia.com/gpu": 2}))
    assert KOORDINATOR.matches(hinted)
    request = KOORDINATOR.read_request(hinted)
    assert request.topology.required is Level.NUMA
    assert request.plugin is PluginShare.CARD
    assert request.alternatives == {"hami"}


@pytest.mark.parametrize(
    ("requested", "plugin"),
    [
        ([{"amd.com/gpu": 1}], PluginShare.CARD),
        ([{"dcu.com/gpu": 1}, {"cpu": 1}, {"dcu.com/gpu": 2}], PluginShare.CARD),
        ([{"gpu": 100}], None),
        ([{"gpu": 50}, {"amd.com/gpu": 1}], None),
        ([{"gpu": 100, TRIGGER: 1}], None),
    ],
)
def test_only_whole_cards_by_their_number_are_served_by_the_vendors_plugin_alone(
    requested: list[Amounts], plugin: PluginShare | None
) -> None:
    assert the_request(*requested).plugin is plugin


def test_a_pod_that_got_no_card_of_ours_has_no_result() -> None:
    node = cards(1, vendor="amd")
    pod = a_pod({"amd.com/gpu": 1})
    request = KOORDINATOR.read_request(pod)

    assert KOORDINATOR.write_result(pod, request, Placement("n", ()), node, 0) == NO_RESULT


def test_an_amount_of_zero_of_koordinator_is_rejected_and_not_ignored() -> None:
    pod = a_pod({"gpu": 0})

    assert KOORDINATOR.matches(pod)
    with pytest.raises(DialectError, match="requests nothing"):
        KOORDINATOR.read_request(pod)


def test_a_pod_that_requests_nothing_is_rejected() -> None:
    with pytest.raises(DialectError, match="requests no GPU"):
        the_request({"nvidia.com/gpu": 0})


def test_the_seeds_pod_is_read() -> None:
    container = a_container({"cpu": 4, "memory": "2Gi", **HALF}, "curlimage", requests=HALF)
    pod = a_pod(container, labels=HAMI_CORE)

    request = KOORDINATOR.read_request(pod)

    (wanted,) = request.containers
    assert request == Request(
        uid=pod.metadata.uid,
        pod=f"default/{pod.metadata.name}",
        dialect="koordinator",
        containers=(wanted,),
        isolation="HAMi-core",
        ranking=Ranking(
            (CardKey.EMPTIEST, CardKey.LOW_INDEX),
            (NodeKey.EMPTIEST,),
            Weights(slots=0, compute=0, memory=1),
        ),
        topology=TopologyConstraint((Level.NUMA, Level.PCIE), by_partition=True),
    )
    assert (wanted.name, wanted.count, wanted.memory_percent, wanted.compute) == (
        "curlimage",
        1,
        50,
        50,
    )


def test_the_priority_is_the_pods() -> None:
    pod = a_pod({"gpu": 50})
    spec = msgspec.structs.replace(pod.spec, priority=9000)

    assert KOORDINATOR.read_request(Pod(pod.metadata, spec)).priority == 9000


def test_isolation_is_demanded_of_the_node_for_shared_pods_only() -> None:
    shared = a_pod({"gpu": 100}, {"gpu-memory": "80Gi"}, labels=HAMI_CORE)
    whole = a_pod({"gpu": 100}, labels=HAMI_CORE)

    assert KOORDINATOR.read_request(shared).isolation == "HAMi-core"
    assert KOORDINATOR.read_request(whole).isolation is None
    assert (
        KOORDINATOR.read_request(a_pod({"gpu": 50}, labels={keys.ISOLATION: ""})).isolation is None
    )


def test_w1_a_node_without_the_isolation_provider_is_rejected_alone() -> None:
    request = KOORDINATOR.read_request(a_pod({"gpu": 50}, labels=HAMI_CORE))

    without = fit(request, NodeLedger.of(eight()))
    having = fit(request, NodeLedger.of(cards(1)))

    assert isinstance(without, Reason)
    assert without.cause is Cause.ISOLATION
    assert isinstance(having, Placement)


def test_whole_cards_are_also_chosen_from_cards_that_cannot_be_shared() -> None:
    assert the_request({"gpu": 200}).modes == {Mode.SHARED, Mode.WHOLE}
    assert the_request({"gpu": 200}, {"gpu": 50}).modes == {Mode.SHARED}


@pytest.mark.parametrize(("name", "vendor"), keys.WHOLE_CARDS.items())
def test_whole_cards_are_of_the_vendor_that_is_named(name: str, vendor: str) -> None:
    assert the_request({name: 1}).vendor == vendor
    assert the_request({"gpu": 50}, {name: 1}).vendor == vendor
    assert the_request({"gpu": 50}).vendor is None


def test_a_request_for_nvidia_gets_no_amd_card() -> None:
    reason = fit(the_request({"nvidia.com/gpu": 1}), NodeLedger.of(cards(2, vendor="AMD")))

    assert reason == Placement("gpu-a", ())  # of NVIDIA's device plugin, if the node has one


def test_two_vendors_in_one_pod_are_rejected() -> None:
    with pytest.raises(DialectError, match="a pod's cards must be of one vendor") as rejected:
        the_request({"nvidia.com/gpu": 1}, {"amd.com/gpu": 1})

    assert rejected.value.value == "spec.containers[c0]: nvidia, spec.containers[c1]: amd"


@pytest.mark.parametrize(
    ("requested", "count"),
    [
        ({"gpu-core": "200", "gpu-memory-ratio": "200", TRIGGER: "2"}, 2),
        ({"gpu.shared": "1", "gpu-core": "5", "gpu-memory": "1Gi", TRIGGER: "1"}, 1),
    ],
)
def test_a_metax_trigger_beside_koordinators_names_is_one_request(
    requested: Amounts, count: int
) -> None:
    request = the_request(requested)

    assert [wanted.count for wanted in request.containers] == [count]
    assert request.vendor == "metax"
    assert frozenset({TRIGGER}) == KOORDINATOR.companions


def test_a_trigger_for_another_number_of_cards_is_rejected() -> None:
    with pytest.raises(DialectError, match="must be 2, the number of requested cards"):
        the_request({"gpu": 200, TRIGGER: 1})


@pytest.mark.parametrize("requested", [{TRIGGER: 1}, {"nvidia.com/gpu": 1, TRIGGER: 1}])
def test_a_trigger_without_koordinators_names_is_rejected(requested: Amounts) -> None:
    with pytest.raises(DialectError, match="in its container"):
        the_request({"gpu": 50}, requested)


@pytest.mark.parametrize(
    ("annotations", "qos"),
    [({}, "best-effort"), ({METAX_QOS: "fixed-share"}, "fixed-share")],
)
def test_a_part_of_a_metax_card_has_the_qos_policy_of_metax(
    annotations: dict[str, str], qos: str
) -> None:
    pod = a_pod({"gpu": 50, TRIGGER: 1}, annotations=annotations)
    request = KOORDINATOR.read_request(pod)

    assert request.terms.qos == qos
    assert {**KOORDINATOR.admission_defaults(pod, request).annotations, **annotations} == {
        METAX_QOS: qos
    }


def test_it_never_joins_a_card_under_another_policy() -> None:
    ledger = NodeLedger.of(cards(1, "64Gi", "metax")).adopt(
        Allocation(
            "7",
            "d/p",
            "metax",
            "gpu-a",
            (Grant("c", "GPU-0", GIB, 10),),
            terms=SharingTerms(qos="fixed-share"),
        )
    )

    rejected = rejection(a_pod({"gpu": 50, TRIGGER: 1}), ledger)

    assert [count.cause for count in rejected.counts] == [Cause.QOS]


@pytest.mark.parametrize("amounts", [{"gpu": 100, TRIGGER: 1}, {"gpu": 50}])
def test_a_whole_card_and_a_card_of_another_vendor_have_none(amounts: dict[str, int]) -> None:
    assert KOORDINATOR.read_request(a_pod(amounts)).terms.qos is None


def test_an_unknown_qos_policy_of_a_metax_card_is_rejected() -> None:
    pod = a_pod({"gpu": 50, TRIGGER: 1}, annotations={METAX_QOS: "best"})

    with pytest.raises(DialectError, match="must be one of best-effort, fixed-share, burst-share"):
        KOORDINATOR.read_request(pod)


def test_less_than_a_mib_of_a_metax_card_is_rejected() -> None:
    with pytest.raises(DialectError, match="must be at least 1 MiB of each card"):
        the_request({"gpu-memory": 1024, TRIGGER: 1})


amounts = st.one_of(
    st.integers(-5, 500), st.floats(), st.text(max_size=8), st.sampled_from(["8Gi", "1k", "100"])
)
names = st.sampled_from([*sorted(keys.OWN), *keys.WHOLE_CARDS, TRIGGER, "cpu"])
garbage = st.lists(st.dictionaries(names, amounts, max_size=4), min_size=1, max_size=3)
hints = st.dictionaries(
    st.sampled_from(
        [keys.ALLOCATE_HINT, keys.PARTITION_SPEC, keys.NUMA_SPEC, *keys.SCHEDULING_HINTS]
    ),
    st.one_of(st.text(max_size=12), st.sampled_from(["{}", "null", '{"gpu":null}', "[" * 9999])),
    max_size=2,
)


@given(garbage, hints)
def test_garbage_gives_a_request_or_a_dialect_error_and_nothing_else(
    containers: list[dict[str, str | int | float]], annotations: dict[str, str]
) -> None:
    pod = a_pod(*containers, annotations=annotations)

    try:
        request = KOORDINATOR.read_request(pod)
    except DialectError:
        return

    assert KOORDINATOR.matches(pod) or any("nvidia.com/gpu" in each for each in containers)
    assert all(
        (wanted.memory is None) != (wanted.memory_percent is None) for wanted in request.containers
    )
    assert all(wanted.count >= 1 and 0 <= wanted.compute <= 100 for wanted in request.containers)
