"""Waiting for another task of the loop.

For a thread or another process there is e2e/harness/processes/waiting.py.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], object | Awaitable[object]], seconds: float = 30) -> None:
    """Wait until it holds, while the other tasks of the loop go on.

    Args:
        holds: asked again and again; its answer is awaited where it is a coroutine.
        seconds: the longest wait.

    Raises:
        TimeoutError: it does not hold after that time.
    """
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.005)
