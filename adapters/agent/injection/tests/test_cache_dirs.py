import json
import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from adapters.agent.injection.cache_dirs import FLAT, CacheCleaner, create_empty, put_aside
from adapters.agent.injection.plan import AdjustmentPlan, realize


def cleaned(root: Path, steps: int = 1_000_000) -> list[str]:
    """The names in a folder once the cleaner has nothing more to do."""
    cleaner = CacheCleaner(root)
    cleaner.clean(steps)
    while cleaner.clean(steps):
        pass
    return sorted(path.name for path in root.iterdir() if path.name != FLAT)


def full(folder: Path, files: int = 3) -> Path:
    folder.mkdir()
    for number in range(files):
        (folder / f"{number}.cache").touch()
    return folder


def test_a_restarted_container_gets_an_empty_folder_whatever_was_in_it(tmp_path: Path) -> None:
    own = full(tmp_path / "uid-1_main")
    (own / "a.cache").mkdir()
    (own / "below").mkdir()

    realize(AdjustmentPlan(scratch_dir=str(own)))

    assert list(own.iterdir()) == []
    assert stat.S_IMODE(own.stat().st_mode) == 0o777
    assert cleaned(tmp_path) == ["uid-1_main"]


def test_nothing_that_a_container_left_is_touched_before_the_answer(tmp_path: Path) -> None:
    own = full(tmp_path / "uid-1_main", 2_000)

    create_empty(str(own))

    (aside,) = [path for path in tmp_path.iterdir() if path != own]
    assert len(list(aside.iterdir())) == 2_000


def test_a_folder_is_deleted_with_all_that_is_below_and_links_are_not_followed(
    tmp_path: Path,
) -> None:
    elsewhere = full(tmp_path / "elsewhere", 2)
    root = tmp_path / "containers"
    root.mkdir()
    own = full(root / "uid-1_main")
    deep = own / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (deep / "link").symlink_to(elsewhere)
    (own / "link").symlink_to(elsewhere)
    (own / "empty").mkdir()
    os.mkfifo(own / "pipe")
    (root / "uid-2_main").symlink_to(elsewhere)
    full(root / "uid-3_main")

    put_aside(str(own))
    put_aside(str(root / "uid-2_main"))

    assert cleaned(root) == ["uid-3_main"]
    assert len(list(elsewhere.iterdir())) == 2


def test_folders_of_any_depth_are_deleted(tmp_path: Path) -> None:
    own = tmp_path / "uid-1_main"
    own.mkdir()
    here = os.open(own, os.O_RDONLY)
    for _ in range(3_000):  # deeper than a path, or Python's stack
        os.mkdir("d", dir_fd=here)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    put_aside(str(own))

    assert cleaned(tmp_path) == []


def test_a_step_deletes_a_bounded_number_of_entries(tmp_path: Path) -> None:
    put_aside(str(full(tmp_path / "uid-1_main", 50)))
    cleaner = CacheCleaner(tmp_path)
    (aside,) = tmp_path.iterdir()
    cleaner.clean(1)

    left = []
    while cleaner.clean(10):
        left.append(len(list(aside.iterdir())) if aside.exists() else 0)

    assert left[0] >= 40
    assert all(earlier - later <= 10 for earlier, later in pairwise(left))
    assert not aside.exists()


def test_what_a_killed_agent_left_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    own = full(tmp_path / "uid-1_main", 20)
    (own / "below").mkdir()
    (own / "below" / "file").touch()
    put_aside(str(own))
    killed = CacheCleaner(tmp_path)
    killed.clean(1)
    killed.clean(5)

    assert cleaned(tmp_path) == []
    assert list((tmp_path / FLAT).iterdir()) == []


def test_a_folder_that_cannot_be_deleted_is_reported_once_and_delays_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_aside(str(full(tmp_path / "uid-1_main")))
    (kept,) = tmp_path.iterdir()
    put_aside(str(full(tmp_path / "uid-2_main")))
    removed = Path.rmdir

    def rmdir(path: Path) -> None:
        if path == kept:
            raise PermissionError(13, "Permission denied", str(path))
        removed(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    cleaner = CacheCleaner(tmp_path)
    for _ in range(50):
        cleaner.clean(10)

    assert list(tmp_path.iterdir()) == [kept]
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "hami_cache.delete_failed"


def test_without_a_folder_there_is_nothing_to_delete(tmp_path: Path) -> None:
    assert not CacheCleaner(tmp_path / "nowhere").clean(10)


@pytest.mark.parametrize("taken", ["file", "nowhere"])
def test_only_a_folder_or_a_link_is_put_aside(tmp_path: Path, taken: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match=taken):
        put_aside(str(tmp_path / taken))

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
