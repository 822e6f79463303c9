import os
from pathlib import Path

from adapters.node.hook.containers import GRACE, ContainerRegistry
from adapters.node.metrics.hami_region import VERSION_1
from adapters.node.metrics.tests.test_hami_region import region
from adapters.node.nri.model import NriContainer, PodSandbox
from adapters.node.nri.session import Creating, Removed, Synchronized
from adapters.node.tests.builders import POD, container


def creating(name: str = "main", attempt: str = "c1") -> Creating:
    return Creating(1, POD, NriContainer(attempt, "p1", name))


def removed(name: str = "main", attempt: str = "c1") -> Removed:
    return Removed(POD, NriContainer(attempt, "p1", name))


def folder(tmp_path: Path, name: str = "uid-1_main", data: bytes | None = None) -> Path:
    path = tmp_path / name
    path.mkdir()
    (path / f"{name}.cache").write_bytes(region(VERSION_1) if data is None else data)
    return path


def test_a_folder_goes_with_the_last_attempt_of_its_container(tmp_path: Path) -> None:
    tenants = ContainerRegistry(tmp_path)
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
    tenants = ContainerRegistry(tmp_path, now=lambda: now)

    tenants.observe(Synchronized((POD,), (container(), NriContainer("c2", "gone", "x"))))

    assert [path.exists() for path in (old, fresh, used)] == [False, True, True]


def test_a_container_without_a_usable_name_has_no_folder(tmp_path: Path) -> None:
    tenants = ContainerRegistry(tmp_path)
    tenants.observe(Creating(1, PodSandbox(uid="../x"), NriContainer("c1", "p1", "main")))

    assert list(tenants.folders()) == []
    assert list(ContainerRegistry(None).folders()) == []
