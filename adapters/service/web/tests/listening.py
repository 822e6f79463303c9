"""An application on a port of its own, for tests that speak to its sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapters.service.settings.sections import LimitSettings
from adapters.service.web import server
from adapters.service.web.app import App


@asynccontextmanager
async def serving(app: App, limits: LimitSettings | None = None) -> AsyncIterator[int]:
    """The port, while the application answers on it."""
    listener = server.listener("127.0.0.1:0")
    started = asyncio.Event()
    web = server.server(app, None, started.set, limits or LimitSettings())
    task = asyncio.create_task(web.serve([listener]))
    await started.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        web.should_exit = True
        await task
        listener.close()
