"""An event loop that knows when no task on it can continue without an external event."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class SettlingLoop(asyncio.SelectorEventLoop):
    """A task on it can wait until all other tasks are blocked."""

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
        """Yield until only the caller scheduled a callback in a whole round of the loop."""
        called = -1
        while self._called != called + 1:
            called = self._called
            await asyncio.sleep(0)


def run_settling(main: Coroutine[object, object, T]) -> T:
    """``asyncio.run`` on such a loop."""
    with asyncio.Runner(loop_factory=SettlingLoop) as runner:
        return runner.run(main)


async def settled() -> None:
    """Wait until no other task of the running loop can continue without an external event."""
    await settling_loop().settled()


def settling_loop() -> SettlingLoop:
    """The running loop.

    Raises:
        TypeError: it is of another kind.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SettlingLoop):
        raise TypeError(f"runs on a {type(loop).__name__}")
    return loop
