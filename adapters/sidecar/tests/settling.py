"""An event loop that can tell when nobody on it can go on by itself."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

Arguments = TypeVarTuple("Arguments")


class SettlingLoop(asyncio.SelectorEventLoop):
    """One on which a task can wait until all others wait for something that is not there yet."""

    def __init__(self) -> None:
        super().__init__()
        self._called = 0

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self._called += 1
        return super().call_soon(callback, *args, context=context)

    async def settled(self) -> None:
        """Give way until, in one whole round, nobody but the caller asked for another."""
        called = -1
        while self._called != called + 1:
            called = self._called
            await asyncio.sleep(0)


def settling_loop() -> SettlingLoop:
    """The loop that runs.

    Raises:
        TypeError: it is of another kind.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SettlingLoop):
        raise TypeError(f"runs on a {type(loop).__name__}")
    return loop
