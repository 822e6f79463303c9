"""Tasks that run in the background of a process until it stops."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from adapters.service.observe.decision_log import Logger


@dataclass(slots=True)
class Tasks:
    """Tasks that run until they are stopped; the error of one is logged and stops the service.

    Attributes:
        log: of the service.
        stop_service: called when a task ends with an error.
        running: all tasks.
        failed: whether one ended with an error.
    """

    log: Logger
    stop_service: Callable[[], None]
    running: list["asyncio.Task[Any]"] = field(default_factory=list)
    failed: bool = False

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task."""

        def ended(task: "asyncio.Task[Any]") -> None:
            if not task.cancelled() and task.exception() is not None:
                self.log.error("task.failed", exc_info=task.exception())
                self.failed = True
                self.stop_service()

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self.running.append(task)

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
