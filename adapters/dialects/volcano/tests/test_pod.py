from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import DialectError
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.tests.builders import a_container, a_pod, volcano
from adapters.wire.kube import Container, Pod, Resources
from core.hardware.card import Mode
from core.hardware.quantity import MIB
from core.requests.request import ContainerRequest, Phase, Request

RULES = "deviceshare.GPUExclusiveRules"


def read(requested: Pod) -> Request:
    return volcano().read_request(requested)


def rejection(requested: Pod, dialect: Any = None) -> DialectError:
    with pytest.raises(DialectError) as error:
        (dialect or volcano()).read_request(requested)
    return error.value


def only_request(container: Container) -> ContainerRequest:
    (wanted,) = read(a_pod(container)).containers
    return wanted


def annotated(**annotations: str) -> Pod:
    return a_pod(a_container(number=1), annotations=annotations)


# The guide's examples.


def test_the_guides_hami_core_pod_requests_half_a_cards_compute_and_3000_mib() -> None:
    requested = a_pod(
        a_container("cuda-container", number=1, cores=50, memory=3000),
        annotations={"volcano.sh/vgpu-mode": "hami-core"},
    )

    request = read(requested)

    assert request.containers == (
        ContainerRequest("cuda-container", 1, memory=3000 * MIB, compute=50, step=MIB),
    )
    assert request.modes == {Mode.SHARED}


def test_the_guides_mig_pod_requests_a_slice_of_3000_mib() -> None:
    requested = a_pod(
        a_container("cuda-container", number=1, memory=3000),
        annotations={"volcano.sh/vgpu-mode": "mig"},
    )

    request = read(requested)

    assert request.containers == (
        ContainerRequest("cuda-container", 1, memory=3000 * MIB, step=MIB),
    )
    assert request.modes == {Mode.MIG}


# The resources of the user, row by row: reference section 1.2.


def test_a_number_alone_requests_whole_cards_without_compute() -> None:
    assert only_request(a_container(number=2)) == ContainerRequest(
        "main", 2, memory_percent=100, step=MIB
    )


def test_memory_is_of_each_card_and_in_units() -> None:
    dialect = volcano({"gpuMemoryFactor": 8})

    (wanted,) = dialect.read_request(a_pod(a_container(number=2, memory=375))).containers

    assert wanted == ContainerRequest("main", 2, memory=3000 * MIB, step=8 * MIB)


@pytest.mark.parametrize("amount", [3000, "3000", "3k", "3e3"])
def test_memory_is_read_as_kubernetes_prints_plain_numbers(amount: str | int) -> None:
    assert only_request(a_container(number=1, memory=amount)).memory == 3000 * MIB


@pytest.mark.parametrize(
    "amount", ["4Gi", "1Gi ", "1Ki", "3000Mi", "3000m", "4G", "-1", "0.5", "much", 0, "0"]
)
def test_memory_that_is_not_a_number_of_units_is_rejected_with_the_remedy(
    amount: str | int,
) -> None:
    error = rejection(a_pod(a_container(number=1, memory=amount)))

    assert error.field == "spec.containers[main].resources.limits[volcano.sh/vgpu-memory]"
    assert error.value == amount
    assert error.problem == (
        "must be a plain number of units of 1 MiB, 1 or more; "
        "omitted, it means all memory of the card"
    )


def test_a_percentage_is_of_each_cards_memory() -> None:
    assert only_request(a_container(number=1, percent=33)) == ContainerRequest(
        "main", 1, memory_percent=33, step=MIB
    )


@pytest.mark.parametrize("amount", [0, 101, -5, "half", "1Ki"])
def test_a_percentage_outside_1_to_100_is_rejected(amount: str | int) -> None:
    error = rejection(a_pod(a_container(number=1, percent=amount)))

    assert error.value == amount
    assert error.problem == "must be percent of each card's memory, 1 to 100"


def test_memory_and_percentage_together_are_rejected_by_both_names() -> None:
    error = rejection(a_pod(a_container(number=1, memory=3000, percent=50)))

    assert error.value == "volcano.sh/vgpu-memory: 3000, volcano.sh/vgpu-memory-percentage: 50"
    assert error.problem == "must name one of the two, not both"


@pytest.mark.parametrize("amount", [None, 0])
def test_no_cores_reserve_no_compute(amount: int | None) -> None:
    wanted = only_request(a_container(number=1, cores=amount))

    assert (wanted.compute, wanted.exclusive) == (0, False)


def test_100_cores_are_exclusive() -> None:
    wanted = only_request(a_container(number=1, cores=100, memory=3000))

    assert (wanted.compute, wanted.exclusive) == (100, True)


@pytest.mark.parametrize("amount", [101, -1, "1Gi"])
def test_cores_outside_0_to_100_are_rejected(amount: str | int) -> None:
    assert rejection(a_pod(a_container(number=1, cores=amount))).problem == (
        "must be percent of each card's compute, 0 to 100"
    )


@pytest.mark.parametrize("amount", [0, -1, "two", 1 << 31])
def test_a_number_below_1_is_rejected(amount: str | int) -> None:
    assert rejection(a_pod(a_container(number=amount))).problem == (
        "must be a number of cards, 1 or more, or be omitted"
    )


def test_memory_without_a_number_means_one_card_and_is_noted() -> None:
    request = read(a_pod(a_container(memory=3000)))

    assert request.containers == (ContainerRequest("main", 1, memory=3000 * MIB, step=MIB),)
    assert request.notes == (
        "container main names volcano.sh/vgpu-memory without volcano.sh/vgpu-number: "
        "it gets one card",
    )


@pytest.mark.parametrize(
    ("container", "named"),
    [
        (a_container(cores=50), "volcano.sh/vgpu-cores"),
        (a_container(percent=50), "volcano.sh/vgpu-memory-percentage"),
        (a_container(percent=50, cores=0), "volcano.sh/vgpu-memory-percentage"),
    ],
)
def test_cores_or_percentage_without_a_card_are_rejected(container: Container, named: str) -> None:
    error = rejection(a_pod(container))

    assert error.value == named
    assert error.problem == "needs volcano.sh/vgpu-number too, the number of cards"


def test_a_request_counts_where_there_is_no_limit() -> None:
    container = Container("main", Resources(None, {keys.COUNT: 1, keys.MEMORY: "3k"}))

    assert only_request(container).memory == 3000 * MIB


# Which pods match, and what is out of scope.


@pytest.mark.parametrize(
    "name",
    [
        *(keys.COUNT, keys.MEMORY, keys.MEMORY_PERCENT, keys.CORES),
        *("volcano.sh/gpu-memory", "volcano.sh/gpu-number", "volcano.sh/vgpu-memroy"),
    ],
)
def test_a_pod_matches_when_any_container_names_a_resource_of_volcano(name: str) -> None:
    assert volcano().matches(a_pod(Container(), init=[a_container(others={name: 0})]))


@pytest.mark.parametrize("name", ["cpu", "nvidia.com/gpu", "volcano.sh/other"])
def test_a_pod_without_a_resource_of_volcano_does_not_match(name: str) -> None:
    assert not volcano().matches(a_pod(a_container(others={name: 1})))


@pytest.mark.parametrize("name", ["volcano.sh/gpu-memory", "volcano.sh/gpu-number"])
def test_the_older_plugins_resources_are_rejected_by_name_as_out_of_scope(name: str) -> None:
    error = rejection(a_pod(a_container(others={name: 1024})))

    assert error.field == f"spec.containers[main].resources[{name}]"
    assert error.value == 1024
    assert error.problem == (
        "is of Volcano's older GPU sharing, which is out of scope; "
        "use volcano.sh/vgpu-number and volcano.sh/vgpu-memory"
    )


def test_a_misspelt_resource_is_rejected_with_the_valid_names() -> None:
    error = rejection(a_pod(a_container(number=1, others={"volcano.sh/vgpu-memroy": 3000})))

    assert error.problem == (
        "must be one of volcano.sh/vgpu-cores, volcano.sh/vgpu-memory, "
        "volcano.sh/vgpu-memory-percentage, volcano.sh/vgpu-number"
    )


def test_the_declared_priority_resource_is_rejected_rather_than_ignored() -> None:
    dialect = volcano({"resourcePriorityName": "example.com/priority"})
    requested = a_pod(a_container(number=1, others={"example.com/priority": 1}))

    assert dialect.matches(requested)
    assert "priority class" in rejection(requested, dialect).problem


def test_renamed_resources_are_read_and_the_old_names_rejected() -> None:
    dialect = volcano({"resourceCountName": "example.com/cards"})

    request = dialect.read_request(a_pod(a_container(others={"example.com/cards": 2})))

    assert request.containers[0].count == 2
    assert "example.com/cards" in rejection(a_pod(a_container(number=1)), dialect).problem


# Containers.


def test_init_containers_and_sidecars_request_as_the_main_ones_do_in_start_order() -> None:
    requested = a_pod(
        a_container("a", number=1),
        Container("idle"),
        a_container("b", number=1),
        init=[
            a_container("warm", number=2),
            a_container("proxy", number=1, restart_policy="Always"),
        ],
    )

    assert [(wanted.name, wanted.count, wanted.phase) for wanted in read(requested).containers] == [
        ("warm", 2, Phase.INIT),
        ("proxy", 1, Phase.SIDECAR),
        ("a", 1, Phase.MAIN),
        ("b", 1, Phase.MAIN),
    ]


# Annotations.


def test_without_a_mode_either_will_do() -> None:
    assert read(annotated()).modes == {Mode.SHARED, Mode.MPS, Mode.MIG}


@pytest.mark.parametrize("mode", ["", "mps", "MIG", "whole"])
def test_a_mode_that_no_node_has_is_rejected(mode: str) -> None:
    error = rejection(annotated(**{"volcano.sh/vgpu-mode": mode}))

    assert error.field == "metadata.annotations[volcano.sh/vgpu-mode]"
    assert error.value == mode
    assert error.problem == "must be hami-core or mig, or be omitted to allow both"


def test_use_gputype_lists_the_only_types_and_decides_alone() -> None:
    request = read(
        annotated(**{"nvidia.com/use-gputype": " A100 ,,h100", "nvidia.com/nouse-gputype": "A100"})
    )

    assert request.allow_types == ("A100", "h100")
    assert request.deny_types == ()
    assert request.notes == (
        "nvidia.com/nouse-gputype has no effect beside nvidia.com/use-gputype",
    )


@pytest.mark.parametrize("use", [{}, {"nvidia.com/use-gputype": " , "}])
def test_nouse_gputype_excludes_types_where_no_type_is_required(use: dict[str, str]) -> None:
    request = read(annotated(**use, **{"nvidia.com/nouse-gputype": "A30, T4"}))

    assert request.allow_types is None
    assert request.deny_types == ("A30", "T4")
    assert request.notes == ()


def test_uuid_lists_allow_and_bar_cards() -> None:
    request = read(
        annotated(
            **{
                "volcano.sh/vgpu-use-gpuuuid": "u1, u2,",
                "volcano.sh/vgpu-nouse-gpuuuid": " u2",
            }
        )
    )

    assert request.allow_uuids == frozenset({"u1", "u2"})
    assert request.deny_uuids == {"u2"}


def test_a_blank_uuid_list_is_not_a_constraint() -> None:
    assert read(annotated(**{"volcano.sh/vgpu-use-gpuuuid": " , "})).allow_uuids is None


@pytest.mark.parametrize(
    ("names", "group"),
    [
        ({"scheduling.k8s.io/group-name": "a"}, "team/a"),
        ({"scheduling.volcano.sh/group-name": "b"}, "team/b"),
        (
            {"scheduling.volcano.sh/group-name": "b", "scheduling.k8s.io/group-name": "a"},
            "team/a",
        ),
    ],
)
def test_podgroup_spread_names_the_group_by_namespace(names: dict[str, str], group: str) -> None:
    assert read(annotated(**names)).terms.group is None
    assert read(annotated(**names)).terms.member_of == group
    assert (
        read(annotated(**names, **{"volcano.sh/vgpu-podgroup-policy": "spread"})).terms.group
        == group
    )


def test_podgroup_spread_outside_a_group_is_noted() -> None:
    request = read(annotated(**{"volcano.sh/vgpu-podgroup-policy": "spread"}))

    assert request.terms.group is None
    assert request.notes == (
        "volcano.sh/vgpu-podgroup-policy has no effect: the pod is in no PodGroup",
    )


@pytest.mark.parametrize("policy", ["", "binpack"])
def test_another_podgroup_policy_is_rejected(policy: str) -> None:
    error = rejection(annotated(**{"volcano.sh/vgpu-podgroup-policy": policy}))

    assert error.value == policy
    assert error.problem == "must be spread, or be omitted"


def test_the_priority_is_that_of_the_priority_class() -> None:
    assert read(a_pod(a_container(number=1), priority=1000)).priority == 1000
    assert read(a_pod(a_container(number=1))).priority == 0


def test_a_pod_is_under_every_exclusive_rule_whose_labels_it_carries() -> None:
    dialect = volcano(
        arguments={RULES: [{"tier": "gold", "app": "a"}, {"app": "a"}, {"tier": "silver"}]}
    )

    request = dialect.read_request(
        a_pod(a_container(number=1), labels={"app": "a", "tier": "gold"})
    )

    assert request.terms.exclusions == {"app=a,tier=gold", "app=a"}


# Any values.

amounts = st.one_of(st.text(max_size=6), st.integers(-5, 5), st.floats(), st.just("3k"))
names = st.sampled_from([keys.COUNT, keys.MEMORY, keys.MEMORY_PERCENT, keys.CORES])
keys_of_pods = st.sampled_from(
    [keys.MODE, keys.USE_TYPE, keys.AVOID_TYPE, keys.USE_UUID, keys.GROUP_POLICY]
)


@given(
    st.dictionaries(names, amounts, min_size=1),
    st.dictionaries(keys_of_pods, st.text(max_size=8) | st.sampled_from(["mig", "spread"])),
)
def test_garbage_gives_a_valid_request_or_a_dialect_error(
    limits: dict[str, str | int | float], annotations: dict[str, str]
) -> None:
    requested = a_pod(Container("main", Resources(limits)), annotations=annotations)

    try:
        request = read(requested)
    except DialectError:
        return

    (wanted,) = request.containers
    assert wanted.count >= 1
    assert 0 <= wanted.compute <= 100
    assert (wanted.memory is None) != (wanted.memory_percent is None)


@pytest.mark.parametrize(
    ("memory", "notes"),
    [
        (3000, []),
        (4864, []),
        (
            5120,
            [
                "container main: slice 1g.5gb of A100-SXM4-40GB fits by its configured size"
                " and has 4864 MiB of the 5 GiB requested"
            ],
        ),
        (
            6000,
            [
                "container main: slice 1g.6gb of A30 fits by its configured size"
                " and has 5952 MiB of the 6000 MiB requested"
            ],
        ),
        (None, []),
    ],
)
def test_a_slice_with_less_memory_than_requested_is_noted(
    memory: int | None, notes: list[str]
) -> None:
    requested = a_pod(
        Container("idle"), a_container(number=1, memory=memory), annotations={keys.MODE: keys.MIG}
    )

    assert list(read(requested).notes) == notes


def test_slices_are_not_noted_for_a_pod_that_does_not_name_the_mode() -> None:
    assert read(a_pod(a_container(number=1, memory=5120))).notes == ()


def test_a_table_that_states_what_slices_have_gives_no_note() -> None:
    groups = [{"group": "g", "geometries": [{"name": "1g.5gb", "memory": 4864, "count": 7}]}]
    tables: list[object] = [
        {"models": ["A100-SXM4-40GB"], "allowedGeometries": groups},
        {"models": [], "allowedGeometries": []},
    ]
    dialect = volcano({"knownMigGeometries": tables})
    requested = a_pod(a_container(number=1, memory=5120), annotations={keys.MODE: keys.MIG})

    assert dialect.read_request(requested).notes == ()


@pytest.mark.parametrize(
    ("init", "main"),
    [
        ((), (a_container("a", number=1), a_container("b", number=1))),
        ((a_container("prepare", number=1),), (a_container("train", number=2),)),
        ((), (a_container("a", memory=3000), Container("idle"), a_container("c", number=2))),
    ],
)
def test_a_pod_that_volcanos_device_plugin_never_starts_has_a_note(
    init: tuple[Container, ...], main: tuple[Container, ...]
) -> None:
    """It compares the devices of the pod with those of one container."""
    notes = read(a_pod(*main, init=init)).notes

    assert "Volcano's device plugin never starts" in notes[-1]


def test_a_pod_with_one_container_that_has_cards_has_no_such_note() -> None:
    several = a_pod(a_container("a", number=3), Container("b"), init=(Container("c"),))

    assert read(several).notes == ()
