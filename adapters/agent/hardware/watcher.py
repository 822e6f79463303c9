"""Reads the node's hardware periodically, and keeps what was found."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from adapters.agent.hardware.model import Hardware, HardwareSource, InventoryError
from adapters.agent.log import log_event

INTERVAL = 10.0
"""Seconds between two readings."""


@dataclass(slots=True)
class HardwareWatcher:
    """The node's hardware as it was last read.

    Attributes:
        source: of the hardware; None where the configuration has none.
        hardware: as last read; replaced, never changed, because other threads read it. Empty as
            long as no reading has succeeded: then the ledger's cards count.
        known: whether a reading has succeeded.
        subscribers: called, on the event loop, after ``hardware`` has changed.
    """

    source: HardwareSource | None
    hardware: Hardware = field(default_factory=Hardware)
    known: bool = False
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _nudged: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def read_first(self) -> None:
        """Read in this thread, before the event loop has other work."""
        self._store(self._read())

    async def read(self) -> None:
        """Read on another thread. Readings do not overlap, so that an older one never wins."""
        async with self._reading:
            self._store(await asyncio.to_thread(self._read))

    async def run(self) -> None:
        """Read every ``INTERVAL``, and after each ``nudge``, until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudged.wait(), INTERVAL)
            self._nudged.clear()
            await self.read()

    def nudge(self) -> None:
        """Read now."""
        self._nudged.set()

    def _read(self) -> Hardware | None:
        if self.source is None:
            return None
        try:
            return self.source.read()
        except InventoryError as error:
            log_event("hardware.read_failed", reason=str(error))
            return None

    def _store(self, found: Hardware | None) -> None:
        if found is None or (self.known and found == self.hardware):
            return
        if self.known:
            log_event("hardware.changed", cards=len(found.cards))
        self.hardware, self.known = found, True
        for notify in self.subscribers:
            notify()
