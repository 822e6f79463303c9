import subprocess
import sys

import pytest

from adapters.dialects import record, registry
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.registry import dialect_of, dialects, documents
from adapters.wire.kube import Amount, Container, KubeNode, Pod, PodSpec, Resources

ALL = dialects({}, Defaults())


def pod(*containers: dict[str, Amount], init: dict[str, Amount] | None = None) -> Pod:
    return Pod(
        spec=PodSpec(
            containers=tuple(
                Container(f"c{place}", Resources(limits=limits))
                for place, limits in enumerate(containers)
            ),
            init_containers=None if init is None else (Container("i", Resources(limits=init)),),
        )
    )


def dialect_name(
    *containers: dict[str, Amount], init: dict[str, Amount] | None = None
) -> str | None:
    dialect = dialect_of(pod(*containers, init=init), ALL)
    return None if dialect is None else dialect.name


def test_each_dialect_is_recognised_by_its_resources() -> None:
    assert dialect_name({"volcano.sh/vgpu-number": 1}) == "volcano"
    assert dialect_name({"koordinator.sh/gpu": 50}) == "koordinator"
    assert dialect_name({"nvidia.com/gpu": 1}) == "koordinator"
    assert dialect_name({"metax-tech.com/sgpu": 1}) == "metax"
    assert dialect_name({"metax-tech.com/gpu": 1}) == "metax"


def test_a_pod_that_requests_no_share_uses_no_dialect() -> None:
    assert dialect_name({"cpu": 4, "memory": "2Gi"}) is None


def test_an_init_container_decides_the_dialect_too() -> None:
    assert dialect_name({"cpu": 1}, init={"volcano.sh/vgpu-number": 1}) == "volcano"


@pytest.mark.parametrize(
    "mixed",
    [
        [{"volcano.sh/vgpu-number": 1, "koordinator.sh/gpu-core": 50}],
        [{"volcano.sh/vgpu-number": 1}, {"metax-tech.com/sgpu": 1}],
        [{"koordinator.sh/gpu": 50}, {"metax-tech.com/sgpu": 1}],
        [{"koordinator.sh/gpu": 50, "metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 5}],
    ],
)
def test_a_pod_that_mixes_dialects_is_rejected(mixed: list[dict[str, Amount]]) -> None:
    with pytest.raises(DialectError, match="mixes the dialects"):
        dialect_of(pod(*mixed), ALL)


def test_the_trigger_of_the_metax_plugin_beside_koordinator_is_one_request() -> None:
    both: dict[str, Amount] = {
        "koordinator.sh/gpu-core": 50,
        "koordinator.sh/gpu-memory-ratio": 50,
        "metax-tech.com/sgpu": 1,
    }

    assert dialect_name(both) == "koordinator"
    assert dialect_name({"cpu": 1}, both) == "koordinator"


def test_every_dialect_names_the_settings_that_it_reads() -> None:
    assert {name for name, _ in documents()} == {
        "volcano-vgpu-device-config",
        "volcano-scheduler-configmap",
        "koord-scheduler-config",
        "hami-scheduler-device",
    }


@pytest.mark.parametrize("resource", ["volcano.sh/vgpu-number", "nvidia.com/gpu"])
def test_no_plugin_but_metaxs_goes_by_the_lock_of_a_node(resource: str) -> None:
    requesting = pod({resource: 1})
    dialect = dialect_of(requesting, ALL)

    assert dialect is not None
    assert not dialect.needs_node_lock(dialect.read_request(requesting), KubeNode())


def test_every_entry_describes_its_configured_dialect() -> None:
    assert registry.names() == ("volcano", "koordinator", "metax")
    assert [(each.name, each.result_keys) for each in ALL] == [
        (info.name, info.result_keys) for info in registry.DIALECTS
    ]


def test_an_entry_is_found_by_its_name() -> None:
    assert [registry.named(info.name) for info in registry.DIALECTS] == [*registry.DIALECTS]
    assert registry.named("other") is None


def test_only_a_scheduler_may_write_an_annotation_that_marks_an_allocation() -> None:
    protected = frozenset((record.KEY,)).union(*(info.result_keys for info in registry.DIALECTS))

    assert registry.allocation_annotations() == {
        "dragoman.dev/allocation",
        "volcano.sh/vgpu-ids-new",
        "scheduling.koordinator.sh/device-allocated",
        "hami.io/metax-sgpu-devices-allocated",
        "hami.io/metax-gpu-devices-allocated",
    }
    assert registry.allocation_annotations() <= protected


def test_each_dialect_is_drawn_in_its_own_style() -> None:
    for field in ("web_color", "terminal_color", "fill", "letter"):
        drawn = {getattr(info.style, field) for info in registry.DIALECTS}
        assert len(drawn) == len(registry.DIALECTS)


def test_the_registry_imports_no_implementation() -> None:
    program = "import sys, adapters.dialects.registry; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    packages = [f"adapters.dialects.{name}" for name in registry.names()]
    assert {f"{package}.info" for package in packages} <= {*loaded}
    assert not {f"{package}.dialect" for package in packages} & {*loaded}
    assert not {"numpy", "pydantic", "kubernetes"} & {*loaded}
