import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects import registry
from adapters.dialects.dialect import Defaults
from adapters.dialects.koordinator.keys import ISOLATION
from adapters.dialects.registry import dialects
from adapters.dialects.tests.builders import ALL, bound
from adapters.dialects.unread_keys import MOST, advice, uncounted
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, Resources


def annotated(*keys: str) -> Pod:
    return bound({}, dict.fromkeys(keys, "x"))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("nvidia.com/use-gputyp", "nvidia.com/use-gputype"),
        ("nvidia.com/no-use-gputype", "nvidia.com/nouse-gputype"),
        ("volcano.sh/vgpu-mod", "volcano.sh/vgpu-mode"),
        ("metax-tech.com/sgpu-qos", "metax-tech.com/sgpu-qos-policy"),
        ("hami.io/gpu-schedule-policy", "hami.io/gpu-scheduler-policy"),
        (
            "scheduling.koordinator.sh/device-allocate-hints",
            "scheduling.koordinator.sh/device-allocate-hint",
        ),
    ],
)
def test_an_annotation_that_is_close_to_a_known_one_is_probably_misspelled(
    key: str, meant: str
) -> None:
    assert advice(annotated(key), ALL) == (
        f"metadata.annotations[{key}]: no dialect reads it; did you mean {meant}?",
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nvidia.com/gpumen", "nvidia.com/gpumem"),
        ("nvidia.com/gpu-memory-percentage", "nvidia.com/gpumem-percentage"),
        ("metax-tech.com/vmemroy", "metax-tech.com/vmemory"),
        ("koordinator.sh/gpu-cores", "koordinator.sh/gpu-core"),
    ],
)
def test_a_resource_that_is_close_to_a_known_one_is_probably_misspelled(
    name: str, meant: str
) -> None:
    assert advice(bound({name: 1}), ALL) == (
        f"spec.containers[c].resources[{name}]: no dialect has it; did you mean {meant}?",
    )


WRONG_PLACES = [
    ("annotations", "nvidia.com/gpumem", "not read there; it is a resource of a container"),
    ("annotations", "volcano.sh/vgpu-memory", "not read there; it is a resource of a container"),
    ("annotations", "nvidia.com/mig-1g.5gb", "not read there; it is a resource of a container"),
    ("annotations", ISOLATION, "not read there; it is a label"),
    ("labels", "koordinator.sh/gpu-core", "not read there; it is a resource of a container"),
    ("labels", "nvidia.com/use-gputype", "not read there; it is an annotation"),
    ("labels", "volcano.sh/vgpu-mode", "not read there; it is an annotation"),
    (
        "labels",
        "nvidia.com/use-gputyp",
        "no dialect reads it; did you mean nvidia.com/use-gputype?",
    ),
    (
        "annotations",
        "nvidia.com/gpu.memory",
        "no dialect reads it; did you mean nvidia.com/gpumem?",
    ),
    (
        "annotations",
        "metax-tech.com/vmemroy",
        "no dialect reads it; did you mean metax-tech.com/vmemory?",
    ),
    ("annotations", "nvidia.com/card-size", "no dialect reads it"),
    ("annotations", "hami.io/quota", "no dialect reads it"),
    ("annotations", "volcano.sh/vgpu-what-i-want", "no dialect reads it"),
]


@pytest.mark.parametrize(("place", "key", "text"), WRONG_PLACES)
def test_a_key_in_a_wrong_place_is_named_with_its_own(place: str, key: str, text: str) -> None:
    texts = {key: "3000"}
    metadata = Metadata("p", labels=texts) if place == "labels" else Metadata(annotations=texts)
    container = Container("c", Resources(limits={"nvidia.com/gpu": "1"}))
    pod = Pod(metadata, PodSpec(containers=(container,)))

    assert advice(pod, ALL) == (f"metadata.{place}[{key}]: {text}",)


@pytest.mark.parametrize(
    "key", ["nvidia.com/use-gputype", "scheduling.koordinator.sh/gpu-partition-spec"]
)
def test_an_annotation_among_the_resources_is_named(key: str) -> None:
    assert advice(bound({key: 1}), ALL) == (
        f"spec.containers[c].resources[{key}]: not read there; it is an annotation",
    )


def test_what_stands_in_its_place_too_or_is_of_no_card_gets_no_advice() -> None:
    shared = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}

    assert advice(bound(shared, {"nvidia.com/gpumem": "3000"}), ALL) == ()
    assert advice(bound({"cpu": 1}, {"nvidia.com/card-size": "8"}), ALL) == ()
    assert (
        advice(bound(shared, {"volcano.sh/job-name": "j", "koordinator.sh/priority": "1"}), ALL)
        == ()
    )


@pytest.mark.parametrize("key", sorted({*registry.labels(), *registry.service_keys()}))
def test_a_label_that_a_dialect_reads_or_writes_gets_no_advice(key: str) -> None:
    assert advice(Pod(Metadata("p", labels={key: "x"})), ALL) == ()


@pytest.mark.parametrize(
    "name",
    ["huawei.com/Ascend910B", "cambricon.com/vmlu", "nvidia.com/GA102GL_A10", "google.com/tpu"],
)
def test_a_resource_of_an_accelerator_that_no_dialect_counts_is_named(name: str) -> None:
    assert advice(bound({name: 1, "cpu": 1}), ALL) == (
        f"spec.containers[c].resources[{name}]: Dragoman does not count this resource",
    )


def test_what_a_dialect_or_a_plugin_counts_is_not_uncounted() -> None:
    names = ("cpu", "huawei.com/Ascend910B", "nvidia.com/gpu", "volcano.sh/vgpu-number")

    assert uncounted(names, ALL) == ("huawei.com/Ascend910B",)


@pytest.mark.parametrize("name", ["koordinator.sh/rdma", "kubernetes.io/rdma"])
def test_a_resource_that_a_scheduler_allocates_beside_cards_needs_no_advice(name: str) -> None:
    assert advice(bound({name: 100}, {}), ALL) == ()


def test_what_a_dialect_reads_or_another_project_has_gets_no_advice() -> None:
    known = {*registry.annotations(), "volcano.sh/job-name", "example.com/use-gputyp", "plain"}
    amounts = dict.fromkeys(
        (*registry.resources(), "nvidia.com/mig-3g.20gb", "cpu", "example.com/fpga"), 1
    )

    assert advice(bound(amounts, dict.fromkeys(known, "x")), ALL) == ()


def test_a_resource_that_a_setting_renames_is_counted() -> None:
    settings = {
        ("hami-scheduler-device", "device-config.yaml"): {
            "nvidia": {"resourceMemoryName": "nvidia.com/gpumemory"}
        }
    }

    assert advice(bound({"nvidia.com/gpumemory": 1}), dialects(settings, Defaults())) == ()
    assert len(advice(bound({"nvidia.com/gpumemory": 1}), ALL)) == 1


def test_a_pod_with_many_misspelled_names_gets_some_advice() -> None:
    keys = [f"nvidia.com/use-gputype{number}" for number in range(1000)]

    assert len(advice(annotated(*keys), ALL)) == MOST


@given(st.dictionaries(st.text(max_size=30), st.just(1)), st.lists(st.text(max_size=30)))
def test_any_names_get_advice_and_nothing_is_raised(
    limits: dict[str, int], keys: list[str]
) -> None:
    found = advice(bound(dict(limits), dict.fromkeys(keys, "x")), ALL)

    assert len(found) <= MOST
