import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from adapters.node.adjust import Instance
from adapters.node.counts import Counts
from adapters.node.exposition import Family, Sample, render
from adapters.node.grants import Answer, LedgerGrants
from adapters.node.inventory import Hardware, Load
from adapters.node.monitor import Monitor, region_of
from adapters.node.nri import Container, PodSandbox
from adapters.node.region import VERSION_1
from adapters.node.scrape import Scrape
from adapters.node.session import Creating, Removed, Synchronized
from adapters.node.tenants import GRACE, Tenants
from adapters.node.tests.builders import POD, card, container, limit, limits
from adapters.node.tests.test_region import region
from core.limits import GrantError
from core.mig import Slice

NOW = 1_700_000_060.0
SLICE = Slice("1g.10gb", 3, 1, 10 << 30, 14, "group1", 3)
CARDS = Hardware(
    tuple(card(index) for index in range(2)),
    instances={("GPU-1", "1g.10gb", 3): Instance("MIG-a", (), 9, 0)},
)


def creating(name: str = "main", attempt: str = "c1") -> Creating:
    return Creating(1, POD, Container(attempt, "p1", name))


def removed(name: str = "main", attempt: str = "c1") -> Removed:
    return Removed(POD, Container(attempt, "p1", name))


def folder(tmp_path: Path, name: str = "uid-1_main", data: bytes | None = None) -> Path:
    path = tmp_path / name
    path.mkdir()
    (path / f"{name}.cache").write_bytes(region(VERSION_1) if data is None else data)
    return path


def text(
    tmp_path: Path,
    loads: Mapping[str, Load] | None = None,
    granted: Callable[[str, str], Answer] | None = None,
) -> str:
    tenants = Tenants(tmp_path, now=lambda: NOW)
    tenants.observe(creating())
    monitor = Monitor(
        "gpu-a",
        tenants,
        lambda: CARDS,
        lambda: loads or {},
        Counts(adjusted=3),
        granted or LedgerGrants().of,
        lambda: NOW,
    )
    return render(monitor.families())


def test_the_guides_names_and_labels_are_told(tmp_path: Path) -> None:
    folder(tmp_path)

    told = text(tmp_path, {"GPU-0": Load(5 << 30, 42, 7), "GPU-9": Load(1, 1)}).splitlines()

    host = '{nodeid="gpu-a",deviceidx="0",deviceuuid="GPU-0",devicetype="NVIDIA-A",zone="vGPU"}'
    share = (
        'podnamespace="ai",podname="train",ctrname="main",vdeviceid="1",deviceuuid="GPU-1",'
        'zone="vGPU"'
    )
    assert f"HostGPUMemoryUsage{host} {5 << 30}" in told
    assert f"HostCoreUtilization{host} 42" in told
    device = 'device_index="0",device_uuid="GPU-0",device_type="NVIDIA-A",zone="vGPU"'
    assert f"hami_host_gpu_memory_controller_utilization_ratio{{{device}}} 7" in told
    assert f"vGPU_device_memory_usage_in_bytes{{{share}}} 130" in told
    assert f"vGPU_device_memory_limit_in_bytes{{{share}}} 1001" in told
    assert (
        f'Device_memory_desc_of_container{{{share},context="101",module="21",data="4",offset="4"}}'
        " 130" in told
    )
    assert f"Device_utilization_desc_of_container{{{share}}} 40" in told
    assert f"Device_last_kernel_of_container{{{share}}} 60" in told
    assert not any("GPU-9" in line for line in told)


def test_todays_names_are_told_beside_them(tmp_path: Path) -> None:
    folder(tmp_path)

    told = text(tmp_path, {"GPU-0": Load(1, 2)}).splitlines()

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
        assert f"{name}{share} {value}" in told
    assert any(line.startswith("hami_host_gpu_memory_used_bytes{node=") for line in told)
    assert "dragoman_node_containers_adjusted_total 3" in told


def test_a_card_that_the_node_has_not_is_not_told_whatever_the_container_wrote(
    tmp_path: Path,
) -> None:
    data = region(VERSION_1)
    data[VERSION_1.uuids + 96 : VERSION_1.uuids + 101] = b"GPU-7"
    folder(tmp_path, data=bytes(data))

    assert "GPU-7" not in text(tmp_path)


@pytest.mark.parametrize("data", [b"", b"garbage", bytes(region(VERSION_1)[:5000])])
def test_a_file_that_cannot_be_read_harms_nothing(tmp_path: Path, data: bytes) -> None:
    folder(tmp_path, data=data)

    assert "vGPU_device" not in text(tmp_path)
    assert "dragoman_node_active 0" in text(tmp_path)


def test_of_many_files_a_few_are_looked_at(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.cache").touch()

    assert region_of(tmp_path) is None
    assert region_of(tmp_path / "nowhere") is None
    os.mkfifo(tmp_path / f"{tmp_path.name}.cache")
    assert region_of(tmp_path) is None


def test_a_file_with_another_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "6f9619ff.cache").write_bytes(region(VERSION_1))

    assert region_of(tmp_path) is not None


def test_a_folder_goes_with_the_last_attempt_of_its_container(tmp_path: Path) -> None:
    tenants = Tenants(tmp_path)
    kept = folder(tmp_path)
    tenants.observe(creating(attempt="c1"))
    tenants.observe(creating(attempt="c2"))

    tenants.observe(removed(attempt="c1"))
    assert [tenant.pod for tenant, _ in tenants.folders()] == ["train"]
    tenants.observe(removed(attempt="c2"))

    assert not kept.exists()
    assert list(tenants.folders()) == []
    tenants.observe(removed(attempt="c2"))


def test_folders_that_nobody_has_are_removed_after_a_while(tmp_path: Path) -> None:
    old, fresh, used = (folder(tmp_path, f"uid-{n}_main") for n in (8, 9, 1))
    (tmp_path / "notours").mkdir()
    now = old.stat().st_mtime
    os.utime(old, (now - GRACE - 10, now - GRACE - 10))
    os.utime(used, (now - GRACE - 10, now - GRACE - 10))
    tenants = Tenants(tmp_path, now=lambda: now)

    tenants.observe(Synchronized((POD,), (container(), Container("c2", "gone", "x"))))

    assert [path.exists() for path in (old, fresh, used)] == [False, True, True]


def test_a_container_without_a_usable_name_has_no_folder(tmp_path: Path) -> None:
    tenants = Tenants(tmp_path)
    tenants.observe(Creating(1, PodSandbox(uid="../x"), Container("c1", "p1", "main")))

    assert list(tenants.folders()) == []
    assert list(Tenants(None).folders()) == []


def test_a_label_cannot_end_its_line() -> None:
    told = render([Family("a", "b", (Sample({"x": 'q"\\\n'}, 1),)), Family("none", "c", ())])

    assert told == '# HELP a b\n# TYPE a gauge\na{x="q\\"\\\\\\n"} 1\n'


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"200", b"a 1\n"),
        (b"GET /metrics?x=1 HTTP/1.0\r\nA: b\r\n\r\n", b"200", b"a 1\n"),
        (b"GET /livez HTTP/1.1\r\n\r\n", b"200", b"ok\n"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"503", b"the runtime does not ask\n"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404", b"try /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405", b"only GET\n"),
        (b"\r\n\r\n", b"405", b"only GET\n"),
        (b"x" * 20_000, b"", b""),
    ],
)
def test_the_server_answers_what_it_can_and_survives_the_rest(
    asked: bytes, status: bytes, body: bytes
) -> None:
    async def ask() -> bytes:
        scrape = Scrape(lambda: [Family("a", "b", (Sample({}, 1),))], lambda: False)
        server = await asyncio.start_server(scrape._serve, "127.0.0.1", 0, limit=8192)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            server.close()

    answer = asyncio.run(ask())

    assert answer[9:12] == status
    assert answer.partition(b"\r\n\r\n")[2].endswith(body)


def test_a_slice_is_told_with_the_container_that_has_it(tmp_path: Path) -> None:
    held = limits(limit(0), limit(1, slot=SLICE), limit(2, slot=SLICE))

    told = text(tmp_path, granted=lambda *_: held).splitlines()

    container = 'podnamespace="ai",podname="train",ctrname="main",vdeviceid="1",deviceuuid="GPU-1"'
    modern = (
        'namespace="ai",pod="train",container="main",vdevice_index="1",device_uuid="GPU-1",'
        'mig_uuid="MIG-a",profile="1g.10gb",gpu_instance_id="9",compute_instance_id="0"'
    )
    assert f'MigInfo{{{container},instanceid="9",zone="vGPU"}} 1' in told
    assert f'hami_mig_device_info{{{modern},zone="vGPU"}} 1' in told
    assert sum(line.startswith("MigInfo{") for line in told) == 1


def test_a_container_whose_grant_does_not_hold_has_no_slice(tmp_path: Path) -> None:
    def broken(*_: str) -> Answer:
        raise GrantError("no such card")

    assert "MigInfo{" not in text(tmp_path, granted=broken)
