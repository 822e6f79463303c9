import os
from pathlib import Path

from adapters.node.hook.containers import ORPHAN_GRACE, ContainerRegistry
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


def test_a_folder_is_deleted_with_the_last_attempt_of_its_container(tmp_path: Path) -> None:
    containers = ContainerRegistry(tmp_path)
    kept = folder(tmp_path)
    containers.observe(creating(attempt="c1"))
    containers.observe(creating(attempt="c2"))

    containers.observe(removed(attempt="c1"))
    assert [info.pod for info, _ in containers.cache_dirs()] == ["train"]
    containers.observe(removed(attempt="c2"))

    assert not kept.exists()
    assert list(containers.cache_dirs()) == []
    containers.observe(removed(attempt="c2"))


def test_folders_without_a_container_are_deleted_after_the_grace_period(tmp_path: Path) -> None:
    old, fresh, used = (folder(tmp_path, f"uid-{n}_main") for n in (8, 9, 1))
    (tmp_path / "notours").mkdir()
    now = old.stat().st_mtime
    os.utime(old, (now - ORPHAN_GRACE - 10, now - ORPHAN_GRACE - 10))
    os.utime(used, (now - ORPHAN_GRACE - 10, now - ORPHAN_GRACE - 10))
    containers = ContainerRegistry(tmp_path, now=lambda: now)

    containers.observe(Synchronized((POD,), (container(), NriContainer("c2", "gone", "x"))))

    assert [path.exists() for path in (old, fresh, used)] == [False, True, True]


def test_a_container_without_a_usable_name_has_no_folder(tmp_path: Path) -> None:
    containers = ContainerRegistry(tmp_path)
    containers.observe(Creating(1, PodSandbox(uid="../x"), NriContainer("c1", "p1", "main")))

    assert list(containers.cache_dirs()) == []
    assert list(ContainerRegistry(None).cache_dirs()) == []
