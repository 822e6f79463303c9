"""A written request is the request that the dialect reads; what differs is named as a loss."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.request_writer import (
    CardFacts,
    Loss,
    RequestWriter,
    losses,
    removed,
    unread_amounts,
)
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, Resources
from core.hardware.card import Mode
from core.hardware.quantity import FULL, GIB, MIB
from core.requests.request import ContainerRequest, Request, SharingTerms, TaskClass

DIALECTS = {dialect.name: dialect for dialect in registry.dialects({}, Defaults())}
CARD = 80 * GIB
CARDS = CardFacts(CARD)
UUIDS = st.frozensets(st.sampled_from(["GPU-0", "GPU-1", "GPU-2"]))
TYPES = st.lists(st.sampled_from(["A100", "H100", "V100"]), unique=True).map(tuple)


WRITERS: dict[str, RequestWriter] = {
    info.name: writer for info in registry.DIALECTS if (writer := info.load_writer()) is not None
}


def written_pod(name: str, request: Request, card: int | None = CARD) -> Pod:
    written = WRITERS[name].write(request, card)
    containers = tuple(
        Container(each.name, Resources(limits=dict(amounts)))
        for each, amounts in zip(request.containers, written.containers, strict=True)
    )
    return Pod(Metadata("p", annotations=dict(written.annotations)), PodSpec(containers))


def read(name: str, pod_: Pod) -> Request:
    dialect: Dialect = DIALECTS[name]
    assert dialect.matches(pod_)
    found = dialect.read_request(pod_)
    info = registry.named(name)
    assert info is not None
    return replace(found, vendor=found.vendor or info.vendor)


def again(name: str, request: Request, card: int | None = CARD) -> Request:
    return read(name, written_pod(name, request, card))


def lost(name: str, request: Request, card: int | None = CARD) -> dict[str, tuple[str, str]]:
    found = losses(request, again(name, request, card), CardFacts(card))
    return {each.field: (each.before, each.after) for each in found}


@st.composite
def containers(draw: st.DrawFn, step: int, least: int = 0) -> ContainerRequest:
    compute = draw(st.integers(least, FULL))
    memory = draw(st.none() | st.integers(1, CARD // step).map(lambda units: units * step))
    return ContainerRequest(
        "",
        draw(st.integers(1, 8)),
        memory=memory,
        memory_percent=draw(st.integers(1, FULL)) if memory is None else None,
        compute=compute,
        exclusive=compute == FULL,
        step=MIB,
    )


@st.composite
def requests(draw: st.DrawFn, step: int = MIB, least: int = 0) -> Request:
    found = draw(st.lists(containers(step, least), min_size=1, max_size=3))
    return Request(
        "",
        "default/p",
        "",
        tuple(replace(each, name=f"c{number}") for number, each in enumerate(found)),
        vendor="nvidia",
    )


@st.composite
def constrained(draw: st.DrawFn) -> Request:
    """What Volcano and HAMi can both express."""
    types = draw(TYPES)
    return replace(
        draw(requests()),
        modes=draw(
            st.sampled_from(
                [frozenset({Mode.SHARED}), frozenset({Mode.MIG, Mode.SHARED, Mode.MPS})]
            )
        ),
        allow_uuids=draw(UUIDS) or None,
        deny_uuids=draw(UUIDS),
        allow_types=types or None,
        deny_types=() if types else draw(TYPES),
    )


@given(constrained())
def test_volcano_and_hami_express_the_same_requests(request: Request) -> None:
    there = again("hami", request)
    back = again("volcano", there)

    assert list(losses(request, there, CARDS)) == []
    assert list(losses(request, back, CARDS)) == []
    assert list(losses(again("hami", back), request, CARDS)) == []
    assert there.modes == back.modes == request.modes


@pytest.mark.parametrize("modes", [{Mode.MPS}, {Mode.MPS, Mode.MIG}])
def test_hami_has_words_for_the_mode_mps(modes: set[Mode]) -> None:
    one = ContainerRequest("c", 1, memory=1 << 30, step=1 << 20)
    request = Request("", "default/p", "", (one,), modes=frozenset(modes), vendor="nvidia")

    assert again("hami", request).modes == modes
    assert "modes" in lost("volcano", replace(request, modes=frozenset({Mode.MPS})))


@given(requests(step=1))
def test_koordinator_gives_the_same_amounts_on_the_card(request: Request) -> None:
    whole = any(
        each.exclusive and each.memory_percent == each.compute == FULL
        for each in request.containers
    )
    exempt = {"vendor", "modes"} if whole else {"vendor"}

    assert lost("koordinator", request).keys() <= exempt


WHOLE = ContainerRequest("c", 2, memory_percent=FULL, compute=FULL, exclusive=True)


@pytest.mark.parametrize(
    ("name", "vendor", "resource"),
    [("koordinator", "amd", "amd.com/gpu"), ("nvidia", "nvidia", "nvidia.com/gpu")],
)
def test_whole_cards_are_written_as_their_number(name: str, vendor: str, resource: str) -> None:
    request = Request("", "default/p", "", (WHOLE,), vendor=vendor)

    assert WRITERS[name].write(request, CARD).containers == ({resource: 2},)
    assert lost(name, request).keys() <= {"modes"}


def test_koordinator_writes_whole_nvidia_cards_in_words_that_are_its_alone() -> None:
    request = Request("", "default/p", "", (WHOLE,), vendor="nvidia")

    (written,) = WRITERS["koordinator"].write(request, CARD).containers

    assert {name.partition("/")[0] for name in written} == {"koordinator.sh"}


def test_nvidias_plugin_has_no_word_for_a_part_of_a_card() -> None:
    part = replace(WHOLE, memory_percent=50, compute=50, exclusive=False)

    found = lost("nvidia", Request("", "default/p", "", (part,), vendor="nvidia"))

    assert {"container c: memory", "container c: compute", "container c: exclusive"} <= found.keys()


def test_devices_that_the_kubelet_chooses_are_lost_in_every_other_dialect() -> None:
    shared = Pod(
        Metadata("p"), PodSpec((Container("c", Resources(limits={"nvidia.com/gpu.shared": 1})),))
    )

    assert "devices that the kubelet chooses" in lost("hami", read("nvidia", shared))


@given(requests(least=1))
def test_metax_gives_the_same_amounts_on_the_card(request: Request) -> None:
    share = replace(request, vendor="metax", terms=replace(request.terms, qos=None))

    assert lost("metax", share).keys() <= {"QoS policy"}


@given(requests(step=1), st.data())
def test_every_dialect_gives_at_least_the_memory_and_keeps_exclusive_cards(
    request: Request, data: st.DataObject
) -> None:
    mixed = replace(
        request,
        containers=tuple(
            replace(each, exclusive=each.exclusive or data.draw(st.booleans()))
            for each in request.containers
        ),
    )
    for name in DIALECTS:
        after = again(name, mixed)
        for one, other in zip(mixed.containers, after.containers, strict=True):
            assert other.count == one.count
            assert other.memory_on(CARD) >= one.memory_on(CARD)
            assert other.exclusive or not one.exclusive


@pytest.mark.parametrize("name", ["koordinator", "hami", "metax"])
def test_a_pod_with_exclusive_parts_of_cards_is_exact(name: str) -> None:
    part = ContainerRequest("c", 2, memory=GIB, compute=30, exclusive=True)
    request = Request("", "default/p", "", (part,), vendor="metax" if name == "metax" else "nvidia")

    assert lost(name, request).keys() <= {"vendor", "QoS policy"}


def test_one_exclusive_container_of_several_gets_all_compute() -> None:
    part = ContainerRequest("c", 1, memory=GIB, compute=30, exclusive=True)
    other = ContainerRequest("d", 1, memory=GIB, compute=30)
    request = Request("", "default/p", "", (part, other), vendor="nvidia")

    assert lost("hami", request) == {"container c: compute": ("30 %", "100 %")}


def test_an_amount_that_no_request_contains_is_named_and_removed() -> None:
    limits: dict[str, str | int | float] = {"nvidia.com/gpu": 1, "nvidia.com/priority": 1}
    pod = Pod(Metadata("p"), PodSpec((Container("c", Resources(limits=limits)),)))
    info = registry.named("hami")
    assert info is not None

    assert unread_amounts(pod, WRITERS["hami"]) == [
        Loss("container c: nvidia.com/priority", "1", "removed")
    ]
    assert info.texts(WRITERS["hami"]) >= info.result_keys


def test_all_memory_of_a_card_is_not_written_in_the_words_of_metax() -> None:
    half = ContainerRequest("c", 1, memory_percent=FULL, compute=50)

    (written,) = WRITERS["metax"].write(Request("", "default/p", "", (half,)), None).containers

    assert written == {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 50}


def test_a_percentage_needs_the_memory_of_a_card_in_the_words_of_metax() -> None:
    half = ContainerRequest("c", 1, memory_percent=50, compute=10)

    with pytest.raises(DialectError, match=r"50 % of the card's memory.*--card-memory"):
        WRITERS["metax"].write(Request("", "default/p", "", (half,)), None)


def test_whole_cards_of_metax_are_counted() -> None:
    whole = ContainerRequest("c", 2, memory_percent=FULL, compute=FULL, exclusive=True)
    request = Request("", "default/p", "", (whole,), modes=frozenset({Mode.WHOLE}), vendor="metax")

    assert lost("metax", request) == {}
    assert lost("koordinator", request) == {"modes": ("whole", "shared, whole")}


@pytest.mark.parametrize("task_class", [TaskClass.ONLINE, TaskClass.OFFLINE])
def test_metax_has_classes_of_tasks(task_class: TaskClass) -> None:
    compute = 0 if task_class is TaskClass.ONLINE else 20
    one = ContainerRequest("c", 1, memory=GIB, compute=compute)
    request = Request(
        "", "default/p", "", (one,), vendor="metax", terms=SharingTerms(task_class=task_class)
    )

    assert lost("metax", request).keys() <= {"QoS policy"}
    assert lost("koordinator", request)["task class"] == (task_class.value, "normal")


def test_koordinator_has_the_qos_policy_of_metax_cards() -> None:
    one = ContainerRequest("c", 1, memory=GIB, compute=20)
    request = Request(
        "", "default/p", "", (one,), vendor="metax", terms=SharingTerms(qos="fixed-share")
    )

    assert lost("koordinator", request) == {}
    assert lost("metax", request) == {}


def test_koordinator_without_the_memory_of_a_card_makes_a_card_with_all_memory_exclusive() -> None:
    one = ContainerRequest("c", 1, memory_percent=FULL)
    request = Request("", "default/p", "", (one,))

    found = lost("koordinator", request, None)
    assert found["container c: exclusive"] == ("no", "yes")
    assert lost("koordinator", request) == {}


def test_a_request_for_mig_slices_is_one_in_volcano_and_hami_alone() -> None:
    one = ContainerRequest("c", 1, memory=GIB)
    request = Request("", "default/p", "", (one,), modes=frozenset({Mode.MIG}), vendor="nvidia")

    assert lost("volcano", request) == lost("hami", request) == {}
    assert lost("koordinator", request)["modes"] == ("mig", "shared")


def test_memory_below_a_mebibyte_is_named_in_bytes() -> None:
    one = ContainerRequest("c", 1, memory=MIB + 1)
    request = Request("", "default/p", "", (one,), vendor="nvidia")

    assert lost("volcano", request) == {"container c: memory": ("1048577 bytes", "2 MiB")}


def test_a_vendor_that_all_cards_have_is_no_loss() -> None:
    one = ContainerRequest("c", 1, memory=MIB)
    request = Request("", "default/p", "", (one,), vendor="nvidia")
    after = again("koordinator", request)

    assert [each.field for each in losses(request, after, CardFacts())] == ["vendor"]
    assert list(losses(request, after, CardFacts(vendor="nvidia"))) == []


def dropped(name: str, annotations: dict[str, str], target: str) -> list[Loss]:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100}
    if name == "koordinator":
        limits = {"koordinator.sh/gpu-memory": GIB}
    source = Pod(
        Metadata("p", annotations=annotations),
        PodSpec((Container("c", Resources(limits=dict(limits))),)),
    )
    before = read(name, source)
    after = again(target, before)
    return list(removed(source, annotations, DIALECTS[name], before, after))


@pytest.mark.parametrize(
    "annotation",
    [
        ("hami.io/node-scheduler-policy", "spread"),
        ("hami.io/node-scheduler-policy", "binpack"),
        ("nvidia.com/numa-bind", "true"),
    ],
)
def test_a_policy_that_the_target_has_no_word_for_is_a_loss(annotation: tuple[str, str]) -> None:
    key, value = annotation

    assert dropped("hami", {key: value}, "volcano") == [Loss(f"annotation {key}", value, "removed")]


@pytest.mark.parametrize(
    ("key", "value"), [("nvidia.com/use-gpuuuid", "GPU-0"), ("nvidia.com/vgpu-mode", "hami-core")]
)
def test_a_constraint_that_the_target_states_itself_is_no_loss(key: str, value: str) -> None:
    assert dropped("hami", {key: value}, "volcano") == []


HINT = "scheduling.koordinator.sh/device-allocate-hint"
EXCLUSIVE = '{"gpu": {"exclusivePolicy": "DeviceLevel"}}'


def test_an_exclusive_hint_is_kept_by_a_policy_of_the_target() -> None:
    assert dropped("koordinator", {HINT: EXCLUSIVE}, "hami") == []


def test_a_hint_without_an_effect_on_the_request_is_a_loss() -> None:
    assert dropped("koordinator", {HINT: "{}"}, "hami") == [
        Loss(f"annotation {HINT}", "{}", "removed")
    ]


def test_a_removed_label_is_a_loss() -> None:
    source = Pod(
        Metadata("p", labels={"a": "b"}),
        PodSpec((Container("c", Resources(limits={"koordinator.sh/gpu-memory": GIB})),)),
    )
    before = read("koordinator", source)

    found = list(removed(source, ["a"], DIALECTS["koordinator"], before, before))

    assert found == [Loss("label a", "b", "removed")]
