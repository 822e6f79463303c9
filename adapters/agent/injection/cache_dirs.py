"""The folders that containers write to: new for each, put aside at once, deleted afterwards.

A container may leave any number of files there, folders of any depth, and folders with any name. So
nothing that an answer waits for looks inside: a rename in the same folder puts a container's folder
aside, whatever it contains, and ``CacheCleaner`` deletes it afterwards, also after a restart.
"""

import asyncio
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from uuid import uuid4

from adapters.agent.log import log_event

ASIDE = ".removed-"
"""How the name of a folder begins that was put aside; a container's begins with a pod's uid."""

FLAT = ".removed"
"""A folder beside them, for the folders that were inside."""

STEPS, PAUSE = 256, 0.02
"""Entries deleted in one go, and the seconds until the next ones: at most 12,800 a second."""

INTERVAL = 5.0
"""Seconds between two looks while there is nothing to delete."""

_FOR_ALL, _SHARED = 0o777, 0o1777


def create_empty(folder: str) -> None:
    """Create a folder that every user may write to; put aside the one that is there.

    An earlier container's limits in it would count.

    Raises:
        OSError: it cannot be created.
    """
    try:
        os.mkdir(folder)  # noqa: PTH102  # half of pathlib's time, and a container waits
    except FileExistsError:
        put_aside(folder)
        os.mkdir(folder)  # noqa: PTH102
    except FileNotFoundError:
        os.makedirs(folder)  # noqa: PTH103
    os.chmod(folder, _FOR_ALL)  # noqa: PTH101  # containers run as any user


def share(folder: str) -> None:
    """Let every user create files in a folder, and delete only their own; create it if necessary.

    The kubelet creates the folder of a volume for root alone, and HAMi-core in a container of
    another user then sleeps for 100 s at each start, or hangs (src/utils.c, try_lock_unified_lock).

    Raises:
        OSError: it is a link or no folder, cannot be created, or is not for all and not ours.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        opened = os.open(folder, flags)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        opened = os.open(folder, flags)
    try:
        mode = stat.S_IMODE(os.fstat(opened).st_mode)
        if mode != _SHARED:
            os.fchmod(opened, _SHARED)
    except PermissionError:
        if mode & _FOR_ALL != _FOR_ALL:
            raise
    finally:
        os.close(opened)


def put_aside(folder: str) -> None:
    """Rename a folder, or a link in its place, so that ``CacheCleaner`` deletes it.

    Within its parent: to move a folder elsewhere, one needs permission to write to it.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: it is neither, or cannot be renamed.
    """
    if stat.S_IFMT(os.lstat(folder).st_mode) not in (stat.S_IFDIR, stat.S_IFLNK):
        raise NotADirectoryError(f"{folder} is not a folder")
    parent = os.path.dirname(folder)  # noqa: PTH120
    os.rename(folder, f"{parent}/{ASIDE}{uuid4().hex}")  # noqa: PTH104


@dataclass(slots=True)
class CacheCleaner:
    """Deletes the folders that were put aside, never following a link."""

    root: Path
    _work: Iterator[None] = field(default_factory=lambda: iter(()))
    _failed: dict[str, None] = field(default_factory=dict[str, None])

    async def run(self) -> None:
        """Delete until cancelled."""
        while True:
            await asyncio.sleep(PAUSE if await asyncio.to_thread(self.clean, STEPS) else INTERVAL)

    def clean(self, steps: int) -> bool:
        """Delete at most ``steps`` entries; returns whether there may be more."""
        done = sum(1 for _ in islice(self._work, steps))
        if done == steps:
            return True
        self._work = self._deletions()
        return done > 0

    def _deletions(self) -> Iterator[None]:
        """Delete everything that is there, one entry a step; skip what cannot be deleted."""
        skipped: set[Path] = set()
        while True:
            aside = [path for path in _inside(self.root) if path.name.startswith(ASIDE)]
            found = [path for path in (*_inside(self.root / FLAT), *aside) if path not in skipped]
            if not found:
                return
            for path in found:
                try:
                    yield from self._delete(path)
                except OSError as error:
                    skipped.add(path)
                    if path.name not in self._failed:  # once for each folder
                        self._failed[path.name] = None
                        log_event("hami_cache.delete_failed", folder=path, reason=str(error))

    def _delete(self, path: Path) -> Iterator[None]:
        """Delete a folder; folders inside move up, so that no depth needs more memory."""
        yield
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            folder = os.open(path, flags)
        except NotADirectoryError:  # a link
            path.unlink()
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=folder)
                    else:
                        try:
                            os.rmdir(entry.name, dir_fd=folder)
                        except OSError:
                            flat = self.root / FLAT
                            flat.mkdir(mode=0o700, exist_ok=True)
                            os.rename(entry.name, flat / uuid4().hex, src_dir_fd=folder)
                    yield
        finally:
            os.close(folder)
        path.rmdir()


def _inside(folder: Path) -> list[Path]:
    """Return what a folder contains; nothing where it does not exist."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
