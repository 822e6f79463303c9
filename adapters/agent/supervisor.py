"""Runs the agent's tasks until a signal, or until one of them ends."""

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any


async def supervise(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all tasks until SIGTERM or SIGINT, then cancel them.

    A task that ends before is a failure of the whole agent: its exception is raised.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    signalled = asyncio.ensure_future(stopped.wait())
    everything: list[asyncio.Future[Any]] = [*tasks, signalled]
    await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done()]
    for each in everything:
        each.cancel()
    await asyncio.gather(*everything, return_exceptions=True)
    for task in failed:
        task.result()
