"""Ports on loopback that are free, and that no other process of the tests is given.

They are below those that the kernel gives to connections. Each process takes one block of them
and keeps it until it ends.
"""

import fcntl
import os
import socket
import tempfile
from functools import cache
from itertools import cycle, islice
from pathlib import Path

FIRST, BLOCK, BLOCKS = 20_000, 200, 60
"""The lowest port, how many a process takes, and how many processes can. Up to port 32,000: Linux
gives connections those from 32,768 on."""


class PortsTakenError(RuntimeError):
    """Every block of ports has its test process, or every port of ours is taken."""


def free_ports(count: int) -> tuple[int, ...]:
    """That many different ports that are free; the ones that were given longest ago come first.

    Raises:
        PortsTakenError: fewer are free.
    """
    found = tuple(islice(filter(_is_free, islice(_block(), BLOCK)), count))
    if len(found) < count:
        raise PortsTakenError(f"{len(found)} of {BLOCK} ports are free, {count} are needed")
    return found


@cache
def _block() -> "cycle[int]":
    """The ports of this process in turn. The lock on the block's file ends with the process."""
    folder = Path(tempfile.gettempdir()) / f"dragoman-e2e-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(BLOCKS):
        held = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            continue
        first = FIRST + number * BLOCK
        return cycle(range(first, first + BLOCK))
    raise PortsTakenError(f"{BLOCKS} test processes run; please end some")


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
