"""Returns freed memory to the system, where the process has grown."""

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

EVERY = 10.0
"""Seconds between two looks at the size of the process."""

GROWTH = 64 << 20
"""Bytes by which it must have grown."""

_STATM = Path("/proc/self/statm")
"""Source: proc_pid_statm(5); its second number is the resident pages."""


def resident() -> int:
    """Bytes that this process occupies; 0 where the system does not say."""
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
        self, size: Callable[[], int] = resident, clock: Callable[[], float] = monotonic
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
