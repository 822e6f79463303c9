"""Random histories: movers that are killed, requests that fail, and a service that goes on.

Whatever happens, each pod is evicted once, in order, only when it is ordered, and counted once.
"""

import asyncio
import random
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.transport import Timeouts
from adapters.cluster.tests.server import Reply, Request
from adapters.mover.main import run
from adapters.mover.plans import MoverBounds, MoverSettings
from adapters.mover.tests.builders import Cluster, a_plan, api
from adapters.tests.waiting import until

MOVES = 6
MOST = 4
"""Evictions in one hour."""

PATIENCE = Timeouts(connect=0.5, read=0.2, total=0.4, attempts=2, idle=2.0)


class Faults(Cluster):
    """A cluster in which requests fail before or after they were carried out."""

    def begin(self, dice: random.Random) -> None:
        self.dice = dice
        self.ordered: list[tuple[str, str]] = []

    async def answer(self, request: Request, reply: Reply) -> None:
        if "watch" in request.query or self.dice.random() > 0.4:
            await super().answer(request, reply)
            return
        match self.dice.randrange(4):
            case 0:
                reply.cut()
            case 1:
                await super().answer(request, Reply(_Nowhere()))  # type: ignore[arg-type]
                reply.cut()
            case 2:
                await reply.answer(503, {"code": 503, "message": "etcd is away"})
            case _:
                await asyncio.sleep(0.25)
                await super().answer(request, reply)

    async def _evict(self, request: Request, reply: Reply, pod: str) -> None:
        before = len(self.evicted)
        await super()._evict(request, reply, pod)
        for uid in self.evicted[before:]:
            self.ordered.append((uid, f"uid-{self.status()['step']}"))
            assert self.phase() == "Evict"


class _Nowhere:
    """Discards what is written."""

    def write(self, _: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


async def movers(server: str, dice: random.Random) -> None:
    """Two places for a mover; in each, one after the other runs and is killed."""

    async def place(number: int) -> None:
        for life in range(1000):
            log = structlog.wrap_logger(structlog.PrintLogger(), processors=[LogCapture()])
            name = f"mover-{number}-{life}"
            settings = MoverSettings(name, MoverBounds(MOST, MOVES), every=0.05, takeover=0.2)
            work = run(KubeCredentials(server), settings, log, asyncio.Event(), PATIENCE)
            task = asyncio.create_task(work)
            try:
                await asyncio.wait([task], timeout=dice.uniform(0.02, 0.6))
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    await asyncio.gather(place(1), place(2))


async def service(cluster: Cluster) -> None:
    for step in range(1, MOST + 2):
        begun = [*_steps(cluster), {"step": step}]
        cluster.write(phase="Evict", step=step, steps=begun, reason="")
        await until(lambda: cluster.phase() == "Evicted" or cluster.status()["reason"], 60)
    await asyncio.sleep(0.5)


def _steps(cluster: Cluster) -> list[Any]:
    return list(cluster.status().get("steps", ()))


@pytest.mark.parametrize("seed", range(3))
def test_each_pod_is_evicted_once_and_in_order_whatever_fails(seed: int) -> None:
    cluster = Faults()
    cluster.begin(random.Random(seed))  # noqa: S311
    cluster.add(a_plan(MOVES, phase="Ready"))

    async def main() -> None:
        async with api(cluster) as server:
            task = asyncio.create_task(movers(server.server, cluster.dice))
            await service(cluster)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    steps = _steps(cluster)
    assert cluster.evicted == [f"uid-{number}" for number in range(1, MOST + 1)]
    assert all(uid == ordered for uid, ordered in cluster.ordered)
    assert [each["step"] for each in steps] == [*range(1, MOST + 2)]
    assert all(each["evictedAt"] for each in steps[:-1])
    assert steps[-1].keys() == {"step"}
    assert f"at most {MOST} may be (perHour)" in cluster.status()["reason"]
