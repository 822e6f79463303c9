"""Builds the mover, and runs it until a signal."""

import asyncio
import signal
import socket
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import msgspec
import structlog

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials, own_credentials
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import MOVE_PLANS, Selection
from adapters.cluster.api.transport import Timeouts
from adapters.cluster.objects.events import EventRecorder
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.watch.reflector import Reflector
from adapters.mover.mover import CONTROLLER, Logger, Mover
from adapters.mover.plans import MoverSettings, PlanCache
from adapters.wire.records.move_plan import MovePlanObject
from adapters.wire.visible import escaped

PATIENCE = Timeouts(read=8.0, total=12.0)
"""Three requests, of which one is asked twice, stay below the time of a takeover."""

_LAST_EVENTS = 0.5
"""Seconds in which Events that are queued when the mover stops are still written."""


class MoverStartError(RuntimeError):
    """The mover cannot start; the text says why."""


class MoverFailedError(RuntimeError):
    """A task of the mover failed, so that it stopped."""

    def __init__(self) -> None:
        """Say where the task's own error is."""
        super().__init__("a task failed, and the mover stopped: see task.failed in its log")


def process_name() -> str:
    """Make a name that no other process has or had: that of the host or pod, and more."""
    return f"{socket.gethostname()}_{uuid4().hex[:12]}"


def serve(settings: MoverSettings, kubeconfig: Path | None = None) -> None:
    """Move pods until SIGTERM or SIGINT; a step that was begun is ended.

    Args:
        settings: of the mover.
        kubeconfig: with the credentials; None for those of our pod, else those of kubectl.

    Raises:
        MoverStartError: there are no credentials.
        MoverFailedError: a task failed.
    """
    try:
        credentials = own_credentials(kubeconfig)
    except ClusterError as error:
        raise MoverStartError(error.message) from error

    async def until_signal() -> None:
        signalled = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, signalled.set)
        await run(credentials, settings, logger(), signalled)

    asyncio.run(until_signal())


def logger() -> Logger:
    """Make a logger: one JSON object a line on standard error, with an event's name and keys."""

    def in_ascii(value: object, **_: object) -> bytes:
        """Write so that what the API server sent ends no line, and does nothing on a terminal."""
        return escaped(msgspec.json.encode(value, enc_hook=str).decode()).encode()

    made: Logger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=in_ascii),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return made


async def run(
    credentials: KubeCredentials,
    settings: MoverSettings,
    log: Logger,
    stop: asyncio.Event,
    patience: Timeouts = PATIENCE,
) -> None:
    """Move pods until ``stop`` is set; a step that was begun is ended.

    Raises:
        MoverFailedError: a task failed.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(credentials, patience))
        plans = PlanCache(lambda name, text: log.warning("plan.unreadable", plan=name, reason=text))
        events = EventRecorder(client, settings.name, controller=CONTROLLER)
        mover = Mover(plans, MovePlanClient(client), PodClient(client), events, log, settings)
        watch = Reflector(
            client,
            Selection(MOVE_PLANS, optional=True),
            MovePlanObject,
            plans,
            report=lambda error: log.warning("watch.failed", reason=str(error)),
        )

        async def stop_when_set() -> None:
            await stop.wait()
            mover.stop()

        work = (watch.run(), events.run(), stop_when_set())
        tasks = [asyncio.create_task(each) for each in work]
        failed: list[BaseException] = []

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("task.failed", exc_info=error)
                failed.append(error)
                mover.stop()

        for task in tasks:
            task.add_done_callback(ended)

        async def cancel() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        stack.push_async_callback(cancel)
        log.info("mover.started", mover=settings.name, **asdict(settings.bounds))
        try:
            if await client.find(MOVE_PLANS.collection(), {"limit": "1"}) is None:
                text = "the cluster does not know MovePlans: install configs/crd/moveplans.yaml"
                log.warning("moveplans.unknown", reason=text)
        except ClusterError as error:
            log.warning("cluster.unreachable", reason=str(error))
        await mover.run()
        await asyncio.sleep(_LAST_EVENTS)
        log.info("mover.stopped", mover=settings.name)
    if failed:
        raise MoverFailedError
