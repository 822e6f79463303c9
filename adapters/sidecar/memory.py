"""Returns the memory of long requests to the system."""

import asyncio
import ctypes
from collections.abc import Callable
from time import monotonic

EVERY = 10.0
"""Seconds between two times at which memory is returned."""


class FreedMemory:
    """Memory that was freed, and that the allocator still keeps.

    glibc takes longer and longer buffers from the heap, between small ones that stay. A service
    that had read 1,600 requests, some of 60 MB, kept 342 MiB, of which 137 were in use.
    Source: glibc malloc/malloc.c, "Update in 2006", and malloc_trim(3).
    """

    def __init__(self, read: Callable[[], int], clock: Callable[[], float] = monotonic) -> None:
        """Begin now.

        Args:
            read: bytes of all long request bodies since the process began.
            clock: seconds that never go back.
        """
        self._read = read
        self._clock = clock
        self._returned = 0
        self._next = clock()
        self._trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)

    async def give_back(self) -> None:
        """Return it, if a long body was read since the last time; 20 ms on another thread."""
        read, now = self._read(), self._clock()
        if self._trim is not None and read != self._returned and now >= self._next:
            self._returned, self._next = read, now + EVERY
            await asyncio.to_thread(self._trim, 0)
