"""The shipped command, which counts its tasks and, where a test asks for it, leaks."""

import asyncio
import os
import socket
import sys
from typing import Any

from adapters.cli.main import main
from adapters.service.observe.metrics import Metrics
from adapters.service.web.app import App

ENOUGH = 30
"""Requests after which a service ends, or answers no more."""

_kept: list[object] = []


def _count_tasks() -> None:
    begin = Metrics.__init__

    def begun(self: Metrics) -> None:
        begin(self)
        self.gauge("hostile_tasks", "Tasks.", lambda: len(asyncio.all_tasks()))

    Metrics.__init__ = begun  # type: ignore[method-assign]


def _leak(what: str) -> None:
    call = App.__call__

    async def leaking(self: App, scope: Any, receive: Any, send: Any) -> None:
        _kept.append(b"\1" * (1 << 20) if what == "memory" else None)
        if what == "tasks":
            _kept.append(asyncio.create_task(asyncio.sleep(3600)))
        if what == "files":
            _kept.append(socket.socket())
        if what == "end" and len(_kept) > ENOUGH:
            os._exit(0)
        if what == "silence" and len(_kept) > ENOUGH and scope["path"] == "/extender/prioritize":
            await asyncio.sleep(3600)
        await call(self, scope, receive, send)

    App.__call__ = leaking  # type: ignore[method-assign]


if __name__ == "__main__":
    _count_tasks()
    if leak := sys.argv.pop(1):
        _leak(leak)
    main()
