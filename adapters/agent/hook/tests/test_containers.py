import os
from pathlib import Path

from adapters.agent.hook.containers import ORPHAN_GRACE, ContainerRegistry
from adapters.agent.injection.cache_dirs import ASIDE
from adapters.agent.metrics.hami_region import VERSION_1
from adapters.agent.metrics.tests.test_hami_region import region
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.agent.nri.session import Creating, Removed, Synchronized
from adapters.agent.tests.builders import POD, container


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
    lost, used = (folder(tmp_path, f"uid-{n}_main") for n in (8, 1))
    (tmp_path / "notours").mkdir()
    (tmp_path / "link_main").symlink_to(used)
    os.utime(lost, (4_000_000_000, 4_000_000_000))  # as its container left it
    now = [lost.stat().st_ctime + ORPHAN_GRACE - 1]
    containers = ContainerRegistry(tmp_path, now=lambda: now[0])
    listed = Synchronized((POD,), (container(), NriContainer("c2", "gone", "x")))

    containers.observe(listed)
    early = lost.exists()
    now[0] += 3
    containers.observe(listed)

    assert early
    kept = {path.name for path in tmp_path.iterdir() if not path.name.startswith(ASIDE)}
    assert kept == {"uid-1_main", "notours"}
    assert list(used.iterdir()) != []


def test_a_creation_that_the_runtime_undoes_leaves_no_folder(tmp_path: Path) -> None:
    containers = ContainerRegistry(tmp_path)
    undone = folder(tmp_path)
    containers.observe(creating())

    # It gives only the id.
    containers.observe(Removed(PodSandbox("p1"), NriContainer("c1")))

    assert not undone.exists()
    assert list(containers.present()) == []


def test_a_container_that_was_never_created_is_removed_without_effect(tmp_path: Path) -> None:
    containers = ContainerRegistry(tmp_path)
    (tmp_path / "uid-1_main").touch()
    containers.observe(creating())

    containers.observe(removed())
    containers.observe(removed())

    assert (tmp_path / "uid-1_main").exists()


def test_a_container_without_a_usable_name_has_no_folder(tmp_path: Path) -> None:
    containers = ContainerRegistry(tmp_path)
    containers.observe(Creating(1, PodSandbox(uid="../x"), NriContainer("c1", "p1", "main")))

    assert list(containers.cache_dirs()) == []
    assert list(ContainerRegistry(None).cache_dirs()) == []
