import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.agent.grants import GrantAnswer, LedgerGrants
from adapters.agent.hardware.model import CardLoad, Hardware, Instance
from adapters.agent.hook.containers import ContainerRegistry
from adapters.agent.hook.reporter import HookCounters
from adapters.agent.hook.tests.test_containers import creating, folder
from adapters.agent.metrics.collect import MetricsCollector
from adapters.agent.metrics.hami_region import VERSION_1
from adapters.agent.metrics.server import render
from adapters.agent.metrics.tests.test_hami_region import REGIONS, real, region
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.agent.nri.session import Creating
from adapters.agent.tests.builders import card, limit, limits
from core.hardware.mig import MigKey, Slice
from core.requests.limits import GrantError

NOW = 1_700_000_060.0
SLICE = Slice("1g.10gb", 3, 1, 10 << 30, 14, "group1", 3)
CARDS = Hardware(
    tuple(card(index) for index in range(2)),
    instances={MigKey("GPU-1", "1g.10gb", 3): Instance("MIG-a", (), 9, 0)},
)


def text(
    tmp_path: Path,
    loads: Mapping[str, CardLoad] | None = None,
    granted: Callable[[str, str], GrantAnswer] | None = None,
) -> str:
    containers = ContainerRegistry(tmp_path, now=lambda: NOW)
    containers.observe(creating())
    collector = MetricsCollector(
        "gpu-a",
        containers,
        lambda: CARDS,
        lambda: loads or {},
        HookCounters(adjusted=3),
        granted or LedgerGrants().lookup,
        lambda: NOW,
    )
    return render(collector.families())


def test_the_metrics_have_the_guides_names_and_labels(tmp_path: Path) -> None:
    folder(tmp_path)

    lines = text(
        tmp_path, {"GPU-0": CardLoad(5 << 30, 42, 7), "GPU-9": CardLoad(1, 1)}
    ).splitlines()

    host = '{nodeid="gpu-a",deviceidx="0",deviceuuid="GPU-0",devicetype="NVIDIA-A",zone="vGPU"}'
    share = (
        'podnamespace="ai",podname="train",ctrname="main",vdeviceid="1",deviceuuid="GPU-1",'
        'zone="vGPU"'
    )
    assert f"HostGPUMemoryUsage{host} {5 << 30}" in lines
    assert f"HostCoreUtilization{host} 42" in lines
    device = 'device_index="0",device_uuid="GPU-0",device_type="NVIDIA-A",zone="vGPU"'
    assert f"hami_host_gpu_memory_controller_utilization_ratio{{{device}}} 7" in lines
    assert f"vGPU_device_memory_usage_in_bytes{{{share}}} 130" in lines
    assert f"vGPU_device_memory_limit_in_bytes{{{share}}} 1001" in lines
    assert (
        f'Device_memory_desc_of_container{{{share},context="101",module="21",data="4",offset="4"}}'
        " 130" in lines
    )
    assert f"Device_utilization_desc_of_container{{{share}}} 40" in lines
    assert f"Device_last_kernel_of_container{{{share}}} 60" in lines
    assert not any("GPU-9" in line for line in lines)


def test_the_metrics_have_the_present_names_too(tmp_path: Path) -> None:
    folder(tmp_path)

    lines = text(tmp_path, {"GPU-0": CardLoad(1, 2)}).splitlines()

    share = (
        '{namespace="ai",pod="train",container="main",vdevice_index="1",device_uuid="GPU-1",'
        'zone="vGPU"}'
    )
    for name, value in (
        ("hami_vgpu_memory_used_bytes", 130),
        ("hami_vgpu_memory_limit_bytes", 1001),
        ("hami_container_device_memory_bytes", 130),
        ("hami_container_device_utilization_ratio", 40),
        ("hami_container_last_kernel_elapsed_seconds", 60),
        ("hami_vgpu_memory_context_bytes", 101),
        ("hami_vgpu_memory_module_bytes", 21),
        ("hami_vgpu_memory_buffer_bytes", 4),
    ):
        assert f"{name}{share} {value}" in lines
    assert any(line.startswith("hami_host_gpu_memory_used_bytes{node=") for line in lines)
    assert "dragoman_node_containers_adjusted_total 3" in lines


def test_a_card_of_another_node_has_no_metrics_whatever_the_container_wrote(
    tmp_path: Path,
) -> None:
    data = region(VERSION_1)
    data[VERSION_1.uuids + 96 : VERSION_1.uuids + 101] = b"GPU-7"
    folder(tmp_path, data=bytes(data))

    assert "GPU-7" not in text(tmp_path)


@pytest.mark.parametrize("data", [b"", b"garbage", bytes(region(VERSION_1)[:5000])])
def test_an_invalid_file_leaves_the_other_metrics(tmp_path: Path, data: bytes) -> None:
    folder(tmp_path, data=data)

    assert "vGPU_device" not in text(tmp_path)
    assert "dragoman_node_active 0" in text(tmp_path)


def test_an_instance_has_the_labels_of_its_container(tmp_path: Path) -> None:
    held = limits(limit(0), limit(1, slot=SLICE), limit(2, slot=SLICE))

    lines = text(tmp_path, granted=lambda *_: held).splitlines()

    container = 'podnamespace="ai",podname="train",ctrname="main",vdeviceid="1",deviceuuid="GPU-1"'
    present = (
        'namespace="ai",pod="train",container="main",vdevice_index="1",device_uuid="GPU-1",'
        'mig_uuid="MIG-a",profile="1g.10gb",gpu_instance_id="9",compute_instance_id="0"'
    )
    assert f'MigInfo{{{container},instanceid="9",zone="vGPU"}} 1' in lines
    assert f'hami_mig_device_info{{{present},zone="vGPU"}} 1' in lines
    assert sum(line.startswith("MigInfo{") for line in lines) == 1


def test_a_container_with_an_invalid_grant_has_no_instance(tmp_path: Path) -> None:
    def broken(*_: str) -> GrantAnswer:
        raise GrantError("no such card")

    assert "MigInfo{" not in text(tmp_path, granted=broken)


def test_what_a_container_was_granted_stands_beside_what_it_uses(tmp_path: Path) -> None:
    folder(tmp_path)
    held = limits(limit(1, memory=1001, compute=25))

    lines = text(tmp_path, granted=lambda *_: held).splitlines()

    labels = '{node="gpu-a",namespace="ai",pod="train",container="main",uuid="GPU-1"}'
    for name, value in (
        ("memory_granted_bytes", 1001),
        ("memory_limit_bytes", 1001),
        ("memory_used_bytes", 130),
        ("compute_granted_ratio", 0.25),
        ("compute_used_ratio", 0.4),
    ):
        assert f"dragoman_container_{name}{labels} {value}" in lines


def test_a_container_without_a_record_has_what_it_was_granted(tmp_path: Path) -> None:
    held = limits(limit(0, memory=5), limit(1, memory=7, slot=SLICE))

    lines = text(tmp_path, granted=lambda *_: held).splitlines()

    granted = [each for each in lines if each.startswith("dragoman_container_memory_granted_bytes")]
    assert [each.rpartition(" ")[2] for each in granted] == ["5", "7"]
    assert not any("dragoman_container_memory_used" in line for line in lines)


def test_slices_of_one_card_are_one_line(tmp_path: Path) -> None:
    held = limits(limit(1, memory=7, slot=SLICE), limit(1, memory=8, slot=replace(SLICE, start=1)))

    lines = text(tmp_path, granted=lambda *_: held).splitlines()

    granted = [each for each in lines if each.startswith("dragoman_container_memory_granted_bytes")]
    assert [each.rpartition(" ")[2] for each in granted] == ["15"]


@pytest.mark.parametrize("since", [0, -5])
def test_a_busy_container_has_the_time_of_its_last_kernel(tmp_path: Path, since: int) -> None:
    """0 is a time, and so is a moment that a clock set back has not reached yet."""
    data = region(VERSION_1)
    assert VERSION_1.last_kernel is not None
    struct.pack_into("<Q", data, VERSION_1.last_kernel, int(NOW) - since)
    folder(tmp_path, data=bytes(data))

    lines = text(tmp_path).splitlines()

    times = [line for line in lines if line.startswith("Device_last_kernel_of_container{")]
    assert [line.rpartition(" ")[2] for line in times] == ["0", "0"]


def test_a_container_that_started_no_kernel_has_no_time(tmp_path: Path) -> None:
    data = region(VERSION_1)
    assert VERSION_1.last_kernel is not None
    struct.pack_into("<Q", data, VERSION_1.last_kernel, 0)
    folder(tmp_path, data=bytes(data))

    assert "Device_last_kernel_of_container" not in text(tmp_path)


def values(lines: Iterable[str]) -> dict[tuple[str, frozenset[str]], float]:
    """The samples by name and labels."""
    found: dict[tuple[str, frozenset[str]], float] = {}
    for line in lines:
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        found[name, frozenset(labels.removesuffix('"').split('",'))] = float(value)
    return found


def test_the_metrics_equal_those_of_hamis_own_monitor(tmp_path: Path) -> None:
    """Each family of vGPUmonitor 2.10.0, with its labels and values, of the same region."""
    letters = [("a", "0", "H100 80GB HBM3"), ("b", "1", "A100-SXM4-40GB")]
    letters += [("c", "2", "H100 80GB HBM3"), ("d", "3", "L40S")]
    cards = tuple(
        replace(
            card(index),
            uuid=f"GPU-{a * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}",
            model=f"NVIDIA {model}",
        )
        for index, (a, n, model) in enumerate(letters)
    )
    folder(tmp_path, data=bytes(real("vgpumonitor-region")))
    containers = ContainerRegistry(tmp_path)
    pod = PodSandbox("p1", "mpod", "uid-1", "default")
    containers.observe(Creating(1, pod, NriContainer("c1", "p1", "main")))
    loads = (CardLoad(0, 0), CardLoad(1256 << 20, 37), CardLoad(3256 << 20, 37), CardLoad(0, 0))
    collector = MetricsCollector(
        "mnode",
        containers,
        lambda: Hardware(cards),
        lambda: {each.uuid: load for each, load in zip(cards, loads, strict=True)},
        HookCounters(),
        LedgerGrants().lookup,
        lambda: 1795867977.0,
    )

    ours = values(x for x in render(collector.families()).splitlines() if "{" in x)

    theirs = values((REGIONS / "vgpumonitor.prom").read_text().splitlines())
    names = {name for name, _ in theirs}
    assert len(names) == 18
    assert {key: value for key, value in ours.items() if key[0] in names} == theirs
