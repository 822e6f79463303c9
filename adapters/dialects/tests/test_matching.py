import msgspec
import pytest

from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.matching import (
    LONGEST_ANNOTATIONS,
    LONGEST_NAME,
    MOST_CONTAINERS,
    dialect_of,
)
from adapters.dialects.registry import dialects
from adapters.dialects.tests.pods import a_pod
from adapters.wire.kube import Amount, Container, KubeNode, Metadata, Pod, PodSpec, Resources

ALL = dialects({}, Defaults())


def requesting(*containers: dict[str, Amount], init: dict[str, Amount] | None = None) -> Pod:
    main = [
        Container(f"c{place}", Resources(limits=limits)) for place, limits in enumerate(containers)
    ]
    return a_pod(main, init=() if init is None else [Container("i", Resources(limits=init))])


def dialect_name(
    *containers: dict[str, Amount], init: dict[str, Amount] | None = None
) -> str | None:
    dialect = dialect_of(requesting(*containers, init=init), ALL)
    return None if dialect is None else dialect.name


def test_each_dialect_is_recognised_by_its_resources() -> None:
    assert dialect_name({"volcano.sh/vgpu-number": 1}) == "volcano"
    assert dialect_name({"koordinator.sh/gpu": 50}) == "koordinator"
    assert dialect_name({"nvidia.com/gpu": 1}) == "nvidia"
    assert dialect_name({"nvidia.com/gpu.shared": 1}) == "nvidia"
    assert dialect_name({"nvidia.com/mig-1g.5gb": 1}) == "nvidia"
    assert dialect_name({"amd.com/gpu": 1}) == "koordinator"
    assert dialect_name({"metax-tech.com/sgpu": 1}) == "metax"
    assert dialect_name({"metax-tech.com/gpu": 1}) == "metax"


def test_a_pod_that_requests_no_share_uses_no_dialect() -> None:
    assert dialect_name({"cpu": 4, "memory": "2Gi"}) is None


def test_an_init_container_decides_the_dialect_too() -> None:
    assert dialect_name({"cpu": 1}, init={"volcano.sh/vgpu-number": 1}) == "volcano"


@pytest.mark.parametrize(
    ("cards", "dialect"),
    [
        ({"nvidia.com/gpumem": 1000}, "hami"),
        ({"volcano.sh/vgpu-number": 1}, "volcano"),
        ({"nvidia.com/gpu": 1}, "nvidia"),
        ({"koordinator.sh/gpu-core": 50}, "koordinator"),
    ],
)
def test_rdma_beside_the_cards_of_any_dialect_is_no_second_dialect(
    cards: dict[str, Amount], dialect: str
) -> None:
    assert dialect_name({**cards, "koordinator.sh/rdma": 100}) == dialect


@pytest.mark.parametrize(
    "mixed",
    [
        [{"volcano.sh/vgpu-number": 1, "koordinator.sh/gpu-core": 50}],
        [{"volcano.sh/vgpu-number": 1}, {"metax-tech.com/sgpu": 1}],
        [{"koordinator.sh/gpu": 50}, {"metax-tech.com/sgpu": 1}],
        [{"volcano.sh/vgpu-number": 1}, {"nvidia.com/gpu": 1}],
        [{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}, {"nvidia.com/mig-1g.5gb": 1}],
        [{"koordinator.sh/gpu": 50}, {"nvidia.com/gpu.shared": 1}],
        [{"koordinator.sh/gpu": 50, "metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 5}],
    ],
)
def test_a_pod_that_mixes_dialects_is_rejected(mixed: list[dict[str, Amount]]) -> None:
    with pytest.raises(DialectError, match="mixes the dialects"):
        dialect_of(requesting(*mixed), ALL)


def test_the_trigger_of_the_metax_plugin_beside_koordinator_is_one_request() -> None:
    both: dict[str, Amount] = {
        "koordinator.sh/gpu-core": 50,
        "koordinator.sh/gpu-memory-ratio": 50,
        "metax-tech.com/sgpu": 1,
    }

    assert dialect_name(both) == "koordinator"
    assert dialect_name({"cpu": 1}, both) == "koordinator"


HINT = {"scheduling.koordinator.sh/device-allocate-hint": "{}"}
RESERVATION = {"scheduling.koordinator.sh/pre-allocation-required": "true"}
CHOICE = {"nvidia.com/use-gpuuuid": "GPU-0"}


@pytest.mark.parametrize(
    ("limits", "metadata", "name"),
    [
        ({"nvidia.com/gpu": 1}, Metadata(annotations=HINT), "koordinator"),
        ({"nvidia.com/gpu": 1}, Metadata(labels=RESERVATION), "koordinator"),
        ({"nvidia.com/gpu": 1}, Metadata(annotations=CHOICE), "hami"),
        ({"nvidia.com/gpu": 1}, Metadata(annotations={**HINT, **CHOICE}), "hami"),
        ({"nvidia.com/gpu": 1}, Metadata(annotations={"example.com/a": "b"}), "nvidia"),
        ({"nvidia.com/mig-1g.5gb": 1}, Metadata(annotations=HINT), "nvidia"),
        ({"nvidia.com/gpu": 0}, Metadata(annotations=HINT), None),
    ],
)
def test_nvidia_cards_are_of_the_dialect_whose_annotations_the_pod_has(
    limits: dict[str, Amount], metadata: Metadata, name: str | None
) -> None:
    dialect = dialect_of(Pod(metadata, requesting(limits).spec), ALL)

    assert (dialect and dialect.name) == name


def test_nvidia_cards_beside_koordinators_words_in_another_container_are_koordinators() -> None:
    assert dialect_name({"koordinator.sh/gpu": 50}, {"nvidia.com/gpu": 1}) == "koordinator"
    assert dialect_name({"koordinator.sh/gpu": 50}, init={"nvidia.com/gpu": 1}) == "koordinator"


@pytest.mark.parametrize("resource", ["volcano.sh/vgpu-number", "nvidia.com/gpu"])
def test_only_metaxs_plugin_uses_the_lock_of_a_node(resource: str) -> None:
    pod = requesting({resource: 1})
    dialect = dialect_of(pod, ALL)

    assert dialect is not None
    assert not dialect.needs_node_lock(dialect.read_request(pod), KubeNode())


def a_hostile_pod(what: str) -> Pod:
    limits: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1000}
    container = Container(name="c", resources=Resources(limits=limits))
    plain = Pod(Metadata(name="p", namespace="n", uid="u"), PodSpec(containers=(container,)))
    match what:
        case "containers":
            spec = PodSpec(containers=(container,), init_containers=(container,) * MOST_CONTAINERS)
            return msgspec.structs.replace(plain, spec=spec)
        case "container":
            long = msgspec.structs.replace(container, name="x" * (LONGEST_NAME + 1))
            return msgspec.structs.replace(plain, spec=PodSpec(containers=(container, long)))
        case "annotations":
            long_text = {"a": "x" * LONGEST_ANNOTATIONS}
            return msgspec.structs.replace(
                plain, metadata=msgspec.structs.replace(plain.metadata, annotations=long_text)
            )
        case _:
            changed = {what: "x" * (LONGEST_NAME + 1)}
            metadata: Metadata = msgspec.structs.replace(plain.metadata, **changed)
            return msgspec.structs.replace(plain, metadata=metadata)


@pytest.mark.parametrize(
    "what", ["containers", "container", "annotations", "name", "namespace", "uid"]
)
def test_a_pod_larger_than_any_is_invalid_if_it_requests_a_share(what: str) -> None:
    hostile = a_hostile_pod(what)
    plain = msgspec.structs.replace(hostile, spec=PodSpec(containers=(Container(),) * 300))

    with pytest.raises(DialectError, match="at most"):
        dialect_of(hostile, ALL)

    assert dialect_of(plain, ALL) is None
