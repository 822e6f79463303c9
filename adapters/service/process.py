"""What the service has of its process: the clock, and memory that it returns when it is free."""

import asyncio
import ctypes
import gc
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

EVERY = 10.0
"""Seconds between two looks at the size of the process."""

GROWTH = 64 << 20
"""Bytes by which it must have grown."""

FIRST = 0.002
"""Seconds: upper bound of the first pause."""

LONGEST = 0.25
"""Seconds: upper bound of every pause."""

_STATM = Path("/proc/self/statm")
"""Source: proc_pid_statm(5); its second number is the resident pages."""


def resident() -> int:
    """Return bytes that this process occupies; 0 where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class FreedMemory:
    """Memory that nothing uses any more, and that the process still has.

    * Objects that refer to each other in a circle, such as errors with the frames in which they
      were raised, stay until a garbage collection. Python collects by the number of objects and
      not by their bytes, and rarely here (``runtime.settle``): gRPC calls that failed kept 500 MiB
      of messages.
    * glibc takes longer and longer buffers from the heap, between small ones that stay. After
      1,600 requests, some of 60 MB, it kept 205 MiB that were free.
      Source: glibc malloc/malloc.c, "Update in 2006", and malloc_trim(3).
    """

    def __init__(
        self, size: Callable[[], int] = resident, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin now.

        Args:
            size: bytes that the process occupies.
            clock: seconds that never go back.
        """
        self._size = size
        self._clock = clock
        self._next = clock() + EVERY
        self._least = size()
        self._trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)

    async def give_back(self) -> None:
        """Return it, if the process has grown since the last time.

        The collection stops the event loop for as long as it takes: 20 ms for 80,000 objects.
        """
        if self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        size = self._size()
        if size - self._least < GROWTH:
            self._least = min(self._least, size)
            return
        gc.collect()
        if self._trim is not None:
            await asyncio.to_thread(self._trim, 0)
        self._least = self._size()


class SystemClock:
    """The clock of the system; implements ``ports.Clock``."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def wall(self) -> int:
        """Return nanoseconds since 1970."""
        return time.time_ns()

    async def pause(self, attempt: int) -> None:
        """Wait a random time, up to a bound that doubles with each attempt."""
        longest = min(FIRST * 2**attempt, LONGEST)
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads the writers

    async def sleep(self, nanoseconds: int) -> None:
        """Wait for some nanoseconds."""
        await asyncio.sleep(nanoseconds / 1e9)
