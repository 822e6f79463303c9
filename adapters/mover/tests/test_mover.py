"""The mover against an API server: what it evicts, what it writes, and what it does not do."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import structlog
from structlog.testing import LogCapture

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.transport import Timeouts
from adapters.cluster.objects.events import EventRecorder
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import Request
from adapters.mover.main import PATIENCE, run
from adapters.mover.mover import Mover, refuses
from adapters.mover.plans import MoverBounds, MoverSettings, PlanCache
from adapters.mover.tests.builders import Cluster, a_move, a_plan, ago, api, budget_refusal, names
from adapters.tests.waiting import until
from adapters.wire.records.move_plan import MovePlanObject

PODS = [f"web/pod-{number}" for number in range(1, 5)]


@dataclass
class Running:
    """A mover that runs.

    Attributes:
        task: ends when it has stopped.
        log: what it logged.
        stop: set to stop it.
    """

    task: asyncio.Task[None]
    log: LogCapture
    stop: asyncio.Event

    async def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def begin(
    server: str, bounds: MoverBounds, name: str, takeover: float, patience: Timeouts = PATIENCE
) -> Running:
    log, stop = LogCapture(), asyncio.Event()
    settings = MoverSettings(name, bounds, every=0.05, takeover=takeover)
    made = structlog.wrap_logger(structlog.PrintLogger(), processors=[log])
    task = asyncio.create_task(run(KubeCredentials(server), settings, made, stop, patience))
    return Running(task, log, stop)


@contextlib.asynccontextmanager
async def moving(
    cluster: Cluster,
    bounds: MoverBounds | None = None,
    *,
    takeover: float = 0.2,
    patience: Timeouts = PATIENCE,
) -> AsyncIterator[Running]:
    async with api(cluster) as server:
        mover = begin(server.server, bounds or MoverBounds(), "me", takeover, patience)
        try:
            yield mover
        finally:
            mover.stop.set()
            await mover.task


def ran(
    cluster: Cluster,
    end: Callable[[], object | Awaitable[object]],
    bounds: MoverBounds | None = None,
    *,
    takeover: float = 0.2,
) -> LogCapture:
    """Let a mover run until something holds, and stop it."""

    async def main() -> LogCapture:
        async with moving(cluster, bounds, takeover=takeover) as mover:
            await until(end, 10)
        return mover.log

    return asyncio.run(main())


def a_cluster(plan: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    cluster.add(plan)
    return cluster


def test_every_pod_of_a_held_plan_is_asked_about_and_none_is_evicted() -> None:
    cluster = a_cluster(a_plan(3, phase="Held", reason="old"))

    log = ran(cluster, lambda: cluster.phase() == "Ready")

    assert cluster.asked == PODS[:3]
    assert cluster.evicted == []
    assert cluster.status()["reason"] == ""
    assert cluster.status()["updatedAt"] >= ago(seconds=60)
    assert "plan.asked" in names(log)


def test_a_held_plan_whose_pod_is_gone_or_another_goes_on() -> None:
    cluster = a_cluster(a_plan(3, phase="Held"))
    del cluster.pods["web/pod-1"]
    cluster.pods["web/pod-2"] = "another"

    ran(cluster, lambda: cluster.phase() == "Ready")

    assert cluster.asked == PODS[:3]


def test_a_held_plan_is_stopped_by_a_budget() -> None:
    cluster = a_cluster(a_plan(3, phase="Held"))
    cluster.refusals["web/pod-2"] = (429, budget_refusal())

    log = ran(cluster, lambda: cluster.events)

    assert cluster.phase() == "Stopped"
    assert cluster.status()["reason"] == (
        "step 2: pod web/pod-2 cannot be evicted: it would violate the pod's disruption budget"
    )
    assert cluster.events == ["NotMoved"]
    assert {"pod.refused", "plan.stopped"} <= {*names(log)}


def test_the_pod_of_the_ordered_step_is_evicted_and_the_status_says_so() -> None:
    first = {"step": 1, "evictedAt": ago(minutes=9), "replacement": "a", "readyAt": ago(minutes=8)}
    cluster = a_cluster(a_plan(3, phase="Evict", step=2, steps=[first]))
    orders: list[dict[str, Any]] = []

    def before(request: Request) -> None:
        if request.path.endswith("/eviction"):
            orders.append(cluster.status())

    cluster.before = before
    log = ran(cluster, lambda: cluster.events)

    assert cluster.evicted == ["uid-2"]
    (taken,) = orders
    assert taken["phase"] == "Evict"
    assert taken["steps"][0] == first
    assert taken["steps"][1].keys() == {"step", "begunAt", "mover"}
    assert taken["steps"][1]["mover"] == "me"
    status = cluster.status()
    assert (status["phase"], status["step"]) == ("Evicted", 2)
    assert status["steps"][0] == first
    assert status["steps"][1]["evictedAt"] >= ago(seconds=60)
    assert cluster.events == ["Moved"]
    assert "pod.evicted" in names(log)


@pytest.mark.parametrize("other", [None, "another"])
def test_a_pod_that_is_gone_counts_as_evicted(other: str | None) -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    cluster.pods = {} if other is None else {"web/pod-1": other}

    log = ran(cluster, lambda: cluster.phase() == "Evicted")

    assert cluster.evicted == []
    assert cluster.status()["steps"][0]["evictedAt"]
    assert "pod.gone" in names(log)


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (429, budget_refusal(), "it would violate the pod's disruption budget"),
        (403, {"code": 403, "reason": "Forbidden", "message": "no right"}, "no right"),
        (422, {"code": 422, "reason": "Invalid", "message": "not so"}, "not so"),
        (
            500,
            {"code": 500, "message": "This pod has more than one PodDisruptionBudget, which"},
            "more than one PodDisruptionBudget",
        ),
    ],
)
def test_a_refusal_stops_the_plan_and_counts_as_no_eviction(
    status: int, body: object, text: str
) -> None:
    cluster = a_cluster(a_plan(2, phase="Evict", step=1))
    cluster.refusals["web/pod-1"] = (status, body)

    ran(cluster, lambda: cluster.events)

    assert cluster.phase() == "Stopped"
    assert text in cluster.status()["reason"]
    assert cluster.status()["steps"] == [{"step": 1}]
    assert cluster.events == ["NotMoved"]
    assert cluster.evicted == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"code": 429, "message": "too many requests"}),
        (429, {**budget_refusal(), "details": {"retryAfterSeconds": 10}}),  # type: ignore[dict-item]
        (503, {"code": 503, "message": "etcd is away"}),
        (409, {"code": 409, "reason": "Conflict", "message": "the object has been modified"}),
    ],
)
def test_an_eviction_that_the_server_cannot_do_now_is_tried_again(
    status: int, body: object
) -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    cluster.refusals["web/pod-1"] = (status, body)
    tries = 0

    def before(request: Request) -> None:
        nonlocal tries
        tries += request.path.endswith("/eviction")
        if tries == 3:
            cluster.refusals.clear()

    cluster.before = before
    ran(cluster, lambda: cluster.phase() == "Evicted")

    assert cluster.evicted == ["uid-1"]


def test_an_eviction_that_fails_for_long_is_no_sign_of_life() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    cluster.refusals["web/pod-1"] = (503, {"code": 503, "message": "etcd is away"})
    written: list[str] = []

    def before(request: Request) -> None:
        if request.path.endswith("/eviction"):
            written.append(cluster.status()["updatedAt"])

    cluster.before = before
    log = ran(cluster, lambda: len(written) == 5)

    assert len({*written}) == 1
    assert names(log).count("plan.failed") >= 4


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Evict", "step": 0},
        {"phase": "Evict", "step": 3},
        {"phase": "Evict", "step": 512},
    ],
)
def test_a_forged_step_evicts_nothing_and_stops_the_plan(status: dict[str, Any]) -> None:
    cluster = a_cluster(a_plan(2, **status))

    ran(cluster, lambda: cluster.phase() == "Stopped")

    assert cluster.evicted == []
    assert "must be 1 to 2" in cluster.status()["reason"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"phase": "Evicting", "step": 1}},
        {"status": {"phase": "Evict", "step": -1}},
        {"status": {"phase": "Evict", "step": 1 << 70}},
        {"status": []},
        {"spec": {"moves": "all"}},
        {"spec": {"moves": [{**a_move(1), "pod": "../../nodes/n1"}]}},
        {"spec": {"moves": [{**a_move(1), "namespace": ".."}]}},
        {"spec": {"moves": [a_move(1), a_move(1)]}},
        {"metadata": {"name": "defrag-1", "uid": "u", "resourceVersion": "1", "labels": 7}},
    ],
)
def test_a_malformed_plan_evicts_nothing_and_keeps_no_other_waiting(change: dict[str, Any]) -> None:
    cluster = a_cluster(a_plan(name="zz", phase="Held"))
    cluster.add({**a_plan(2, phase="Evict", step=1), **change}, pods=False)

    log = ran(cluster, lambda: cluster.phase("zz") == "Ready")

    assert cluster.evicted == []
    assert cluster.asked == ["web/pod-1"]
    assert "plan.unreadable" in names(log)


def test_a_step_that_was_evicted_before_is_handed_over_without_an_eviction() -> None:
    at = ago(hours=2)
    cluster = a_cluster(a_plan(phase="Evict", step=1, steps=[{"step": 1, "evictedAt": at}]))

    ran(cluster, lambda: cluster.phase() == "Evicted")

    assert cluster.evicted == []
    assert cluster.status()["steps"] == [{"step": 1, "evictedAt": at}]


def test_a_full_hour_delays_the_next_eviction_and_the_status_says_why() -> None:
    done = a_plan(2, "done", phase="Finished")
    done["status"]["steps"] = [{"step": number, "evictedAt": ago(minutes=1)} for number in (1, 2)]
    cluster = a_cluster(done)
    cluster.add(a_plan(phase="Evict", step=1))

    async def main() -> LogCapture:
        async with moving(cluster, MoverBounds(2, 5)) as mover:
            await until(lambda: cluster.status().get("reason"), 10)
            await asyncio.sleep(0.3)
        return mover.log

    log = asyncio.run(main())

    assert cluster.evicted == []
    assert cluster.phase() == "Evict"
    assert "at most 2 may be (perHour)" in cluster.status()["reason"]
    assert names(log).count("plan.waits") == 1


def test_a_plan_that_waits_goes_on_once_the_hour_is_over() -> None:
    done = a_plan(1, "done", phase="Finished")
    done["status"]["steps"] = [{"step": 1, "evictedAt": ago(minutes=59, seconds=58)}]
    cluster = a_cluster(done)
    cluster.add(a_plan(phase="Evict", step=1))

    ran(cluster, lambda: cluster.phase() == "Evicted", MoverBounds(1, 1))

    assert cluster.evicted == ["uid-1"]
    assert cluster.status()["reason"] == ""


def test_one_eviction_at_a_time_over_all_plans() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        plan = a_plan(name=name, phase="Evict", step=1)
        plan["spec"]["moves"] = [{**a_move(1), "namespace": name}]
        cluster.add(plan)
    at_once, most = 0, 0

    async def before(request: Request) -> None:
        nonlocal at_once, most
        if request.path.endswith("/eviction"):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.05)
            at_once -= 1

    cluster.before = before
    ran(cluster, lambda: all(cluster.phase(name) == "Evicted" for name in "abc"))

    assert len(cluster.evicted) == 3
    assert most == 1


def test_of_two_movers_one_evicts() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    requests: list[Request] = []

    async def before(request: Request) -> None:
        if request.path.endswith("/eviction"):
            requests.append(request)
            await asyncio.sleep(0.5)

    cluster.before = before

    async def main() -> None:
        async with api(cluster) as server:
            both = [begin(server.server, MoverBounds(), name, 5.0) for name in ("a", "b")]
            await until(lambda: cluster.phase() == "Evicted", 10)
            for mover in both:
                mover.stop.set()
            await asyncio.gather(*(mover.task for mover in both))

    asyncio.run(main())

    assert cluster.evicted == ["uid-1"]
    assert len(requests) == 1


WRITES = ("taken", "evicted", "reported")


@pytest.mark.parametrize("point", WRITES)
@pytest.mark.parametrize("answered", [False, True])
def test_a_mover_that_is_killed_leaves_a_step_that_another_ends(point: str, answered: bool) -> None:
    """Killed before or after the server has carried out each request of a step."""
    cluster = a_cluster(a_plan(2, phase="Evict", step=1))
    reached = asyncio.Event()
    blocked = asyncio.Event()
    seen: list[str] = []

    def kind(request: Request) -> str:
        if request.path.endswith("/eviction"):
            return "evicted"
        if request.path.endswith("/status"):
            body: Any = request.json()
            return "reported" if body["status"]["phase"] == "Evicted" else "taken"
        return ""

    async def before(request: Request) -> None:
        if kind(request) == point and not reached.is_set():
            if answered:
                asyncio.get_running_loop().call_later(0.1, reached.set)
            else:
                reached.set()
                await blocked.wait()
                raise ConnectionError("the process that sent it is gone")
        if kind(request):
            seen.append(kind(request))

    cluster.before = before

    async def main() -> None:
        async with api(cluster) as server:
            first = begin(server.server, MoverBounds(1, 1), "first", 0.3)
            await until(reached.is_set, 10)
            await first.kill()
            blocked.set()
            second = begin(server.server, MoverBounds(1, 1), "second", 0.3)
            await until(lambda: cluster.phase() == "Evicted", 10)
            cluster.write(phase="Evict", step=2)
            await until(lambda: cluster.status()["reason"], 10)
            second.stop.set()
            await second.task

    asyncio.run(main())

    assert cluster.evicted == ["uid-1"]
    assert "at most 1 may be (perHour)" in cluster.status()["reason"]


def test_a_status_that_the_service_wrote_meanwhile_is_not_overwritten() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))

    def before(request: Request) -> None:
        if request.path.endswith("/eviction"):
            cluster.write(phase="Stopped", reason="by the service")

    cluster.before = before
    log = ran(cluster, lambda: cluster.phase() == "Stopped" and cluster.evicted)

    assert cluster.status()["reason"] == "by the service"
    assert "plan.changed" in names(log)


def test_an_order_that_was_withdrawn_before_it_is_taken_evicts_nothing() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))

    def before(request: Request) -> None:
        if request.path.endswith("/status") and cluster.phase() == "Evict":
            cluster.write(phase="Stopped", reason="by the service")

    cluster.before = before
    ran(cluster, lambda: cluster.phase() == "Stopped")

    assert cluster.evicted == []
    assert cluster.status()["reason"] == "by the service"


def test_a_plan_that_is_deleted_meanwhile_evicts_nothing() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))

    def before(request: Request) -> None:
        if request.path.endswith("/status"):
            cluster.plans.clear()

    cluster.before = before
    log = ran(cluster, lambda: not cluster.plans)

    assert cluster.evicted == []
    assert "plan.failed" not in names(log)


@pytest.mark.parametrize("status", [403, 500])
def test_a_server_that_takes_no_order_keeps_the_pod_and_ends_no_mover(status: int) -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    cluster.refuse_status = status

    async def main() -> None:
        async with moving(cluster, patience=Timeouts(attempts=2)) as mover:
            await until(lambda: names(mover.log).count("plan.failed") == 2, 30)
            assert cluster.evicted == []
            cluster.refuse_status = None
            await until(lambda: cluster.phase() == "Evicted", 10)

    asyncio.run(main())

    assert cluster.evicted == ["uid-1"]


@pytest.mark.parametrize("part", ["/status", "/eviction"])
def test_a_server_that_stalls_ends_no_mover_and_evicts_once(part: str) -> None:
    """What it was asked while it stalled, it does afterwards."""
    cluster = a_cluster(a_plan(phase="Evict", step=1))
    stalled = True

    async def before(request: Request) -> None:
        while stalled and request.path.endswith(part):
            await asyncio.sleep(0.01)

    async def main() -> None:
        nonlocal stalled
        async with moving(cluster, patience=Timeouts(read=0.2, total=0.5)) as mover:
            await until(lambda: names(mover.log).count("plan.failed") == 2, 30)
            assert cluster.evicted == []
            stalled = False
            await until(lambda: cluster.phase() == "Evicted", 10)

    cluster.before = before
    asyncio.run(main())

    assert cluster.evicted == ["uid-1"]


def test_a_mover_that_is_stopped_ends_its_step() -> None:
    cluster = a_cluster(a_plan(phase="Evict", step=1))

    async def main() -> None:
        async with moving(cluster) as mover:

            async def before(request: Request) -> None:
                if request.path.endswith("/eviction"):
                    mover.stop.set()
                    await asyncio.sleep(0.3)

            cluster.before = before
            await mover.task

    asyncio.run(main())

    assert cluster.phase() == "Evicted"
    assert cluster.events == ["Moved"]


def test_a_mover_waits_for_a_kind_that_is_not_installed_and_says_so() -> None:
    cluster = Cluster(installed=False)

    async def main() -> LogCapture:
        async with moving(cluster) as mover:
            await until(lambda: "moveplans.unknown" in names(mover.log), 10)
        return mover.log

    log = asyncio.run(main())

    assert "watch.failed" not in names(log)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ClusterError(0, "Silent", ""), False),
        (ClusterError(401, "Unauthorized", ""), False),
        (ClusterError(400, "BadRequest", ""), True),
        (ClusterError(429, "TooManyRequests", "", causes=("DisruptionBudget",)), True),
        (
            ClusterError(429, "TooManyRequests", "", causes=("DisruptionBudget",), retry_after=10),
            False,
        ),
        (ClusterError(429, "TooManyRequests", ""), False),
        (ClusterError(500, "InternalError", "boom"), False),
    ],
)
def test_only_a_lasting_no_is_a_refusal(error: ClusterError, refused: bool) -> None:
    assert refuses(error) is refused


@dataclass
class Clock:
    """Monotonic seconds that a test can move on."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@contextlib.asynccontextmanager
async def by_clock(
    cluster: Cluster, clock: Clock, bounds: MoverBounds | None = None
) -> AsyncIterator[LogCapture]:
    """A mover whose plans a test hands over, and whose clock it moves on."""
    log = LogCapture()
    made = structlog.wrap_logger(structlog.PrintLogger(), processors=[log])
    async with api(cluster) as server, KubeClient(KubeCredentials(server.server)) as client:
        plans = PlanCache(lambda _, problem: pytest.fail(problem), clock)
        events = EventRecorder(client, "me")
        settings = MoverSettings("me", bounds or MoverBounds(), every=0.05)
        mover = Mover(
            plans, MovePlanClient(client), PodClient(client), events, made, settings, clock
        )
        for plan in cluster.plans.values():
            plans.on_update(msgspec.json.decode(msgspec.json.encode(plan), type=MovePlanObject))
        task = asyncio.create_task(mover.run())
        try:
            yield log
        finally:
            mover.stop()
            await task


def test_a_process_that_was_paused_after_it_took_an_order_looks_again() -> None:
    cluster, clock = a_cluster(a_plan(phase="Evict", step=1)), Clock()
    seen: list[str] = []

    def before(request: Request) -> None:
        if not seen:
            clock.ahead = 11
        seen.append(request.path.rpartition("/")[2])

    cluster.before = before

    async def main() -> None:
        async with by_clock(cluster, clock):
            await until(lambda: cluster.phase() == "Evicted", 10)

    asyncio.run(main())

    assert seen == ["status", "status", "eviction", "status"]


def test_a_plan_that_waits_is_written_every_minute() -> None:
    done = a_plan(1, "done", phase="Finished")
    done["status"]["steps"] = [{"step": 1, "evictedAt": ago(minutes=1)}]
    cluster, clock = a_cluster(done), Clock()
    cluster.add(a_plan(phase="Evict", step=1))
    writes: list[str] = []
    cluster.before = lambda request: writes.append(request.path)

    async def main() -> None:
        async with by_clock(cluster, clock, MoverBounds(1, 1)):
            for count in (1, 2, 3):
                await until(lambda count=count: len(writes) == count, 10)  # type: ignore[misc]
                await asyncio.sleep(0.2)
                assert len(writes) == count
                clock.ahead += 60

    asyncio.run(main())

    assert cluster.evicted == []
