"""What a pod requests: HAMi's documentation and source, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import Defaults, DialectError, SchedulingPolicy
from adapters.dialects.hami.tests.builders import (
    HAMI,
    a_container,
    a_hami,
    a_pod,
    only,
    read,
    request_or_error,
    with_config,
)
from adapters.dialects.matching import dialect_of
from adapters.dialects.registry import dialects
from adapters.dialects.tests.builders import ALL
from adapters.wire.kube import Amount, Container, Pod, Resources
from core.hardware.card import Level, Mode
from core.hardware.quantity import MIB
from core.requests.request import CardKey, NodeKey, Phase, Request, Weights

Limits = dict[str, Amount]


def rejected(pod: Pod, config: dict[str, object] | None = None) -> DialectError:
    found = request_or_error(pod, a_hami(None, **config or {}))
    assert isinstance(found, DialectError), found
    return found


def whose(limits: Limits, annotations: dict[str, str] | None = None) -> str | None:
    """The dialect of a pod with these limits, by their whole names."""
    pod = a_pod(Container("main", Resources(limits=limits)), annotations=annotations)
    found = dialect_of(pod, ALL)
    return None if found is None else found.name


# --- which pods mean HAMi -------------------------------------------------------------------------


@pytest.mark.parametrize("amount", ["gpumem", "gpumem-percentage", "gpucores", "priority"])
def test_a_resource_that_only_hami_has_means_hami(amount: str) -> None:
    assert whose({"nvidia.com/gpu": 1, f"nvidia.com/{amount}": 1}) == "hami"
    assert whose({f"nvidia.com/{amount}": 1}) == "hami"


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.com/use-gputype",
        "nvidia.com/nouse-gputype",
        "nvidia.com/use-gpuuuid",
        "nvidia.com/nouse-gpuuuid",
        "nvidia.com/vgpu-mode",
        "nvidia.com/numa-bind",
        "hami.io/node-scheduler-policy",
        "hami.io/gpu-scheduler-policy",
        "hami.io/device-scoring-weights",
    ],
)
def test_an_annotation_that_only_hami_reads_beside_a_number_of_cards_means_hami(key: str) -> None:
    assert whose({"nvidia.com/gpu": 1}, {key: "A100"}) == "hami"
    assert whose({"cpu": 1}, {key: "A100"}) is None
    assert whose({"nvidia.com/gpu": 0}, {key: "A100"}) is None
    assert whose({"volcano.sh/vgpu-number": 1}, {key: "A100"}) == "volcano"


def test_in_a_pod_that_means_hami_a_number_of_cards_alone_is_hamis_too() -> None:
    pod = a_pod(a_container({"gpu": 1, "gpumem": 1}, "a"), a_container({"gpu": 1}, "b"))

    found = dialect_of(pod, ALL)

    assert found is not None
    assert [each.exclusive for each in found.read_request(pod).containers] == [False, True]


def test_a_number_of_cards_alone_is_a_whole_card_wherever_it_is_described() -> None:
    assert whose({"nvidia.com/gpu": 1}) == "nvidia"
    assert whose({"nvidia.com/gpu": 0}) is None


def test_a_renamed_number_of_cards_means_hami_alone() -> None:
    hami = a_hami(resourceCountName="example.com/vgpu")
    pod = a_pod(Container("main", Resources(limits={"example.com/vgpu": 2})))

    assert hami.matches(pod)
    assert (hami.companions, hami.shared_resources) == (
        frozenset(),
        frozenset({"example.com/vgpu"}),
    )
    assert only(pod, hami).count == 2


def test_a_pod_of_two_dialects_is_rejected() -> None:
    with pytest.raises(DialectError, match="mixes the dialects koordinator, hami"):
        whose({"koordinator.sh/gpu": 50, "nvidia.com/gpumem": 4000})


# --- amounts --------------------------------------------------------------------------------------


def test_memory_counts_mib_and_compute_percent_of_each_card() -> None:
    container = only(a_pod({"gpu": 2, "gpumem": "3000", "gpucores": "30"}))

    assert (container.count, container.memory, container.compute) == (2, 3000 * MIB, 30)
    assert not container.exclusive
    assert not container.linked


def test_a_percentage_of_memory_is_rounded_down_to_mib() -> None:
    container = only(a_pod({"gpu": 1, "gpumem-percentage": 33}))

    assert (container.memory, container.memory_percent, container.compute) == (None, 33, 0)
    assert container.memory_on(40961 * MIB) == 13517 * MIB


@pytest.mark.parametrize(
    "limits",
    [
        {"gpu": 1, "gpumem-percentage": 100},
        {"gpu": 1, "gpumem-percentage": 100, "gpucores": 100},
        {"gpu": 1, "priority": 0},
    ],
)
def test_all_memory_without_a_part_of_compute_is_the_whole_card(limits: Limits) -> None:
    container = only(a_pod(limits))

    assert (container.memory_percent, container.compute, container.exclusive) == (100, 100, True)


def test_all_compute_is_exclusive_whatever_the_memory() -> None:
    assert only(a_pod({"gpu": 1, "gpumem": 1000, "gpucores": 100})).exclusive
    assert not only(a_pod({"gpu": 1, "gpucores": 99})).exclusive


@pytest.mark.parametrize(
    ("limits", "compute"),
    [({"gpu": 1, "gpumem": 0}, 0), ({"gpu": 1, "gpumem-percentage": 0}, 0)],
)
def test_zero_memory_is_all_memory_as_for_hami_and_the_author_is_warned(
    limits: Limits, compute: int
) -> None:
    request = read(a_pod(limits))

    (container,) = request.containers
    assert (container.memory_percent, container.compute) == (100, compute)
    assert "0 is as if it were omitted: all memory of the card" in request.notes[0]


def test_zero_of_one_and_an_amount_of_the_other_kind_of_memory_is_that_amount() -> None:
    request = read(a_pod({"gpu": 1, "gpumem": 0, "gpumem-percentage": 40}))

    assert (request.containers[0].memory_percent, request.notes) == (40, ())


def test_an_amount_of_memory_counts_units_of_the_clusters_factor() -> None:
    hami = a_hami(memoryFactor=10)

    assert only(a_pod({"gpu": 1, "gpumem": 300}), hami).memory == 3000 * MIB


@pytest.mark.parametrize("limits", [{"gpu": 1, "gpumem": 300}, {"gpu": 1, "gpumem-percentage": 50}])
def test_without_an_amount_of_compute_the_clusters_default_applies(limits: Limits) -> None:
    assert only(a_pod(limits), a_hami(defaultCores=20)).compute == 20


@pytest.mark.parametrize("limits", [{"gpu": 1, "gpucores": 5}, {"gpu": 1, "priority": 1}])
def test_without_an_amount_of_memory_the_clusters_default_applies_in_mib(limits: Limits) -> None:
    hami = a_hami(defaultMemory=5000, memoryFactor=10)

    assert only(a_pod(limits), hami).memory == 5000 * MIB


def test_without_a_number_of_cards_the_clusters_default_applies() -> None:
    assert only(a_pod({"gpucores": 5}), a_hami(defaultGPUNum=2)).count == 2


def test_zero_memory_is_the_clusters_default_and_the_author_is_warned_of_it() -> None:
    request = read(a_pod({"gpu": 1, "gpumem": 0}), a_hami(defaultMemory=5000))

    assert request.containers[0].memory == 5000 * MIB
    assert "omitted: 5000 MiB" in request.notes[0]


def test_a_number_of_cards_alone_gets_the_clusters_default_memory_of_exclusive_cards() -> None:
    """Source: HAMi 4707fb02 pkg/device/nvidia/device.go:417,573.

    The webhook adds all compute for a container that names no memory.
    """
    hami = a_hami(defaultMemory=5000, defaultCores=20)

    every = dialects(with_config(defaultMemory=5000), Defaults())
    meant = dialect_of(a_pod({"gpu": 2}), every)
    assert meant is not None
    assert meant.name == "hami"
    wanted = only(a_pod({"gpu": 2}), hami)
    assert (wanted.count, wanted.memory, wanted.compute) == (2, 5000 * MIB, 100)
    assert wanted.exclusive
    assert not hami.matches(a_pod({"gpu": 0}))
    assert not a_hami(defaultCores=20).matches(a_pod({"gpu": 2}))


def test_amounts_without_a_number_of_cards_get_one_card_and_the_author_is_warned() -> None:
    request = read(a_pod({"gpumem": 4000}))

    assert request.containers[0].count == 1
    assert request.notes == (
        "spec.containers[main]: names nvidia.com/gpumem without nvidia.com/gpu: it gets 1",
    )


@pytest.mark.parametrize(
    ("limits", "field", "problem"),
    [
        ({"gpu": 0, "gpumem": 1}, "[nvidia.com/gpu]", "must be 1 or more beside nvidia.com/gpumem"),
        ({"gpu": -1, "gpumem": 1}, "[nvidia.com/gpu]", "must be 0 to 1024; it counts cards"),
        ({"gpu": 1.5, "gpumem": 1}, "[nvidia.com/gpu]", "whole number, 0 to 1024; it counts"),
        ({"gpu": 1, "gpumem": -1}, "[nvidia.com/gpumem]", "it counts MiB of each card"),
        ({"gpu": 1, "gpumem": 2**31}, "[nvidia.com/gpumem]", "must be 0 to 2147483647"),
        ({"gpu": 1, "gpumem": "4Gi"}, "[nvidia.com/gpumem]", "must be a plain number"),
        ({"gpu": 1, "gpumem": "1Mi"}, "[nvidia.com/gpumem]", "must be a plain number"),
        ({"gpu": 1, "gpumem": "all"}, "[nvidia.com/gpumem]", "must be a whole number"),
        ({"gpu": 1, "gpumem-percentage": 101}, "-percentage]", "percent of each card's memory"),
        ({"gpu": 1, "gpucores": 101}, "[nvidia.com/gpucores]", "percent of each card's compute"),
        ({"gpu": 1, "priority": 2}, "[nvidia.com/priority]", "0 is high, 1 is low"),
        ({"gpu": 1, "gpumem": 1, "gpumem-percentage": 1}, ".resources", "one of the two, not both"),
        ({"priority": 1}, ".resources", "needs nvidia.com/gpu too, the number of cards"),
    ],
)
def test_an_invalid_amount_is_rejected(limits: Limits, field: str, problem: str) -> None:
    error = rejected(a_pod(limits))

    assert error.field.startswith("spec.containers[main].resources")
    assert error.field.endswith(field)
    assert problem in error.problem


def test_without_a_default_number_amounts_need_a_number_of_cards() -> None:
    error = rejected(a_pod({"gpumem": 1}), {"defaultGPUNum": 0})

    assert error.problem == "needs nvidia.com/gpu too, the number of cards"


def test_the_unit_of_memory_is_named() -> None:
    error = rejected(a_pod({"gpumem": -1}), {"memoryFactor": 10})

    assert "it counts units of 10 MiB" in error.problem


def test_a_limit_must_equal_its_request() -> None:
    resources = Resources(limits={"nvidia.com/gpumem": 2}, requests={"nvidia.com/gpumem": 1})

    error = rejected(a_pod(Container("main", resources)))

    assert error.problem == "must equal the request, which is 1"


def test_a_pod_that_requests_no_card_is_rejected() -> None:
    assert rejected(a_pod({"gpu": 0})).problem == "requests no nvidia.com/gpu"


def test_each_container_has_its_own_amounts_and_phase() -> None:
    request = read(
        a_pod(
            a_container({"gpu": 1, "gpumem": 1}, "main"),
            a_container({}, "log"),
            init=[
                a_container({"gpu": 1, "gpumem": 2}, "load"),
                a_container({"gpu": 1, "gpumem": 3}, "mesh", sidecar=True),
            ],
        )
    )

    assert [(each.name, each.memory, each.phase) for each in request.containers] == [
        ("load", 2 * MIB, Phase.INIT),
        ("mesh", 3 * MIB, Phase.SIDECAR),
        ("main", MIB, Phase.MAIN),
    ]


# --- annotations ----------------------------------------------------------------------------------


def annotated(**texts: str) -> Request:
    """Annotations by the name after the slash, with ``_`` for ``-``."""
    hami = ("node_scheduler_policy", "gpu_scheduler_policy", "device_scoring_weights")
    named = {
        f"{'hami.io' if key in hami else 'nvidia.com'}/{key.replace('_', '-')}": value
        for key, value in texts.items()
    }
    return read(a_pod({"gpu": 2, "gpumem": 1}, annotations=named))


def test_types_and_uuids_are_lists() -> None:
    request = annotated(
        use_gputype="A100, V100",
        nouse_gputype="SXM",
        use_gpuuuid="GPU-1,GPU-2",
        nouse_gpuuuid="GPU-2",
    )

    assert request.allow_types == ("A100", "V100")
    assert request.deny_types == ("SXM",)
    assert request.allow_uuids == frozenset({"GPU-1", "GPU-2"})
    assert request.deny_uuids == {"GPU-2"}


def test_an_empty_list_is_no_constraint() -> None:
    request = annotated(use_gputype=" ", nouse_gputype="", use_gpuuuid=",", nouse_gpuuuid="")

    assert (request.allow_types, request.allow_uuids) == (None, None)
    assert (request.deny_types, request.deny_uuids) == ((), frozenset())


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("hami-core", {Mode.SHARED}),
        ("mig", {Mode.MIG}),
        ("hami-core,mig", {Mode.SHARED, Mode.MIG}),
        ("mps, mig", {Mode.MPS, Mode.MIG}),
        ("mps", {Mode.MPS}),
    ],
)
def test_a_mode_limits_the_cards(text: str, modes: set[Mode]) -> None:
    assert annotated(vgpu_mode=text).modes == modes
    assert annotated().modes == {Mode.SHARED, Mode.MIG, Mode.MPS}


@pytest.mark.parametrize("text", ["", "MIG", "time-slicing"])
def test_an_unknown_mode_is_rejected(text: str) -> None:
    pod = a_pod({"gpu": 1, "gpumem": 1}, annotations={"nvidia.com/vgpu-mode": text})

    assert "hami-core" in rejected(pod).problem


def test_what_a_pod_that_asks_for_mps_does_not_get_is_said() -> None:
    assert annotated(vgpu_mode="hami-core").notes == ()
    (note,) = annotated(vgpu_mode="mps,hami-core").notes
    assert "no MPS daemon" in note


def test_policies_order_nodes_and_cards() -> None:
    plain = annotated().ranking
    other = annotated(
        node_scheduler_policy="spread",
        gpu_scheduler_policy="binpack",
        device_scoring_weights="slot=0,core=1,memory=3",
    ).ranking

    assert (plain.nodes, plain.cards[0]) == ((NodeKey.FULLEST,), CardKey.EMPTIEST)
    assert (other.nodes, other.cards[0]) == ((NodeKey.EMPTIEST,), CardKey.FULLEST)
    assert other.weights == Weights(0, 1, 3)


def test_the_operators_defaults_apply_where_the_pod_names_no_policy() -> None:
    hami = a_hami(Defaults(SchedulingPolicy.SPREAD, SchedulingPolicy.BINPACK, topology_aware=True))
    request = read(a_pod({"gpu": 2, "gpumem": 1}), hami)

    assert (request.ranking.nodes, request.ranking.cards[0]) == (
        (NodeKey.EMPTIEST,),
        CardKey.FULLEST,
    )
    assert request.containers[0].linked


def test_mutex_means_cards_for_the_pod_alone() -> None:
    assert annotated(gpu_scheduler_policy="mutex").containers[0].exclusive


def test_a_topology_aware_pod_prefers_linked_cards() -> None:
    request = annotated(gpu_scheduler_policy="topology-aware")

    assert request.containers[0].linked
    assert request.topology.levels == (Level.NUMA, Level.PCIE, Level.LINK)
    assert request.topology.required is None


def test_numa_bind_requires_one_numa_node() -> None:
    request = annotated(numa_bind="true")

    assert request.containers[0].linked
    assert (request.topology.levels, request.topology.required) == ((), Level.NUMA)
    assert annotated(numa_bind="false").topology.required is None


# --- properties -----------------------------------------------------------------------------------

amounts = st.one_of(st.integers(-1, 200), st.sampled_from(["3000", "1Gi", "x", "1.5", "1k", 2**31]))
limits = st.dictionaries(
    st.sampled_from(["gpu", "gpumem", "gpumem-percentage", "gpucores", "priority"]), amounts
)


@given(limits)
def test_any_amounts_are_a_request_for_cards_or_an_error_with_a_field(limits: Limits) -> None:
    pod = a_pod(limits)

    found = request_or_error(pod)

    if isinstance(found, DialectError):
        assert found.field.startswith("spec.containers[")
        assert found.problem
        return
    (container,) = found.containers
    assert container.count >= 1
    assert (container.memory is None) is not (container.memory_percent is None)
    assert 0 <= container.compute <= 100
    assert container.exclusive is (container.compute == 100)
    assert HAMI.read_request(pod) == found
