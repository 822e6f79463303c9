"""HAMi-core's record of one container's cards, in a file that all its processes share.

Two layouts are supported: without a version (HAMi pkg/monitor/nvidia/v0/spec.go) and 1.x (HAMi-core
src/multiprocess/multiprocess_memory_limit.h, 64-bit Linux). The container can write to the file, so
its content is not trusted: every size is checked, and the file is read, never mapped.
"""

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from core.hardware.quantity import FULL

MAGIC = 19920718
MAX_CARDS = 16
MAX_PROCESSES = 1024
_MAX_FILES = 16

_UUID = 96
_HEAD = struct.Struct("<iII")


@dataclass(frozen=True, slots=True)
class RegionLayout:
    """Offsets in bytes, from the start of the region or of a process.

    Attributes:
        size: of the region; the file is one byte longer.
        cards: number of cards, 64 bits.
        uuids: 16 strings.
        limits: 16 numbers of 64 bits: bytes.
        compute: 16 numbers of 64 bits: percent.
        processes: 1024 processes.
        memory: size of one card's memory in a process: context, module, data, offset, total.
        util: offset of the cards' utilization in a process.
        util_size: size of one card's: decoder, encoder, compute.
        count: number of processes, 32 bits.
        last_kernel: seconds since 1970, 64 bits; None where the layout has none.
    """

    size: int
    cards: int
    uuids: int
    limits: int
    compute: int
    processes: int
    process: int
    memory: int
    util: int
    util_size: int
    count: int
    last_kernel: int | None


UNVERSIONED = RegionLayout(
    size=1197896,
    cards=48,
    uuids=56,
    limits=1592,
    compute=1720,
    processes=1848,
    process=1168,
    memory=40,
    util=776,
    util_size=24,
    count=1197880,
    last_kernel=None,
)
VERSION_1 = RegionLayout(
    size=2008952,
    cards=56,
    uuids=64,
    limits=1600,
    compute=1728,
    processes=1856,
    process=1960,
    memory=64,
    util=1160,
    util_size=48,
    count=2008896,
    last_kernel=2008912,
)


class RegionError(ValueError):
    """The file is no region, or has an unsupported layout."""


@dataclass(frozen=True, slots=True)
class RegionCard:
    """How one container uses one card.

    Attributes:
        uuid: of the card, as the library saw it.
        limit: bytes; 0 for no limit.
        used: bytes.
        context, module, data: parts of ``used``.
        offset: part of ``used`` that is in none of the others.
        compute: percent, at most 100.
    """

    uuid: str
    limit: int
    used: int
    context: int
    module: int
    data: int
    offset: int
    compute: int


@dataclass(frozen=True, slots=True)
class Region:
    """How one container uses its cards.

    Attributes:
        cards: in the order in which the container numbers them.
        last_kernel: time of its last kernel, seconds since 1970; 0 where it is not known.
    """

    cards: tuple[RegionCard, ...]
    last_kernel: int = 0


def region_of(folder: Path) -> Region | None:
    """Return the region in a container's folder; None where there is no valid one.

    The container can write there, so the number of names is limited, and one region is enough.
    """
    try:
        names = []
        for path in folder.iterdir():
            names.append(path)
            if len(names) == _MAX_FILES:
                break
        own = folder / f"{folder.name}.cache"
        others = sorted(path for path in names if path.suffix == ".cache" and path != own)
        for path in (own, *others):
            try:
                return read(path)
            except (RegionError, OSError):
                continue
    except OSError:
        pass
    return None


def read(path: Path) -> Region:
    """Read the region in a file.

    Raises:
        RegionError: the file is no valid region.
        OSError: the file cannot be read.
    """
    # Neither follow a link, nor wait for the other end of a pipe.
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise RegionError("not a regular file")
        magic, major, _ = _HEAD.unpack(_part(file, 0, _HEAD.size))
        if magic != MAGIC:
            raise RegionError("not an initialized region")
        size = status.st_size
        if size in (UNVERSIONED.size, UNVERSIONED.size + 1):
            layout = UNVERSIONED
        elif major == 1 and size >= VERSION_1.size:
            layout = VERSION_1
        else:
            raise RegionError(f"unsupported layout: version {major}, {size} bytes")
        head = _part(file, 0, layout.processes)
        (count,) = struct.unpack("<i", _part(file, layout.count, 4))
        count = min(max(count, 0), MAX_PROCESSES)
        held = _part(file, layout.processes, count * layout.process)
        cards: list[RegionCard] = []
        for place in range(min(_long(head, layout.cards), MAX_CARDS)):
            start = layout.uuids + place * _UUID
            uuid = head[start : start + _UUID].split(b"\0", 1)[0].decode("ascii", "replace")
            sums, compute = [0, 0, 0, 0, 0], 0
            for process in range(0, len(held), layout.process):
                memory = struct.unpack_from("<5Q", held, process + 8 + place * layout.memory)
                sums = [total + value for total, value in zip(sums, memory, strict=True)]
                compute += _long(held, process + layout.util + place * layout.util_size + 16)
            context, module, data, offset, total = sums
            # HAMi-core 2.5 and 2.6 never reset any card but the first: 1344 % was seen.
            compute = min(compute, FULL)
            limit = _long(head, layout.limits + place * 8)
            cards.append(RegionCard(uuid, limit, total, context, module, data, offset, compute))
        last = 0
        if layout.last_kernel is not None:
            last = _long(_part(file, layout.last_kernel, 8), 0)
        return Region(tuple(cards), last)
    finally:
        os.close(file)


def _long(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _part(file: int, place: int, size: int) -> bytes:
    data = os.pread(file, size, place)
    if len(data) < size:
        raise RegionError(f"truncated at byte {place + len(data)}")
    return data
