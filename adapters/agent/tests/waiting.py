"""Waiting for what another thread or task does; the limit is there for a test that hangs."""

import asyncio
import time
from collections.abc import Callable

LIMIT = 30.0
_STEP = 0.005


def wait_until(holds: Callable[[], object], state: Callable[[], object] = str) -> None:
    """Wait for another thread or process.

    Args:
        holds: true in the end.
        state: for the failure's message.
    """
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, state()
        time.sleep(_STEP)


async def until(holds: Callable[[], object], state: Callable[[], object] = str) -> None:
    """Wait for another task; the arguments are those of ``wait_until``."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, state()
        await asyncio.sleep(_STEP)
