"""Why pods wait, evaluated in the background: whose answer, when again, and at what cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from adapters.answer.judge import CLASSES, Judge
from adapters.service.decide.advice import explain as module
from adapters.service.decide.advice.explain import (
    AT_ONCE,
    EVERY,
    PATIENCE,
    SHARE,
    WaitingAnswer,
)
from adapters.service.tests.builders import (
    Bench,
    FakeClock,
    a_node,
    a_pod,
    a_service,
    read_pod,
    run,
)
from adapters.wire.kube import Pod, PodCondition
from core.durations import MILLISECOND, SECOND
from core.feasibility import evaluation as engine
from core.feasibility.fit import fit
from core.hardware.quantity import GIB, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Placement
from core.requests.reason import Reason
from core.requests.request import Request


@dataclass
class WorkingClock(FakeClock):
    """Each look at the clock takes a millisecond; sleeps are counted."""

    time: int = 0
    ahead: int = 0
    slept: list[int] = field(default_factory=list)
    looks: int = 0

    def now(self) -> int:
        self.looks += 1
        self.time += MILLISECOND
        return self.time

    async def sleep(self, nanoseconds: int) -> None:
        self.slept.append(nanoseconds)
        await super().sleep(nanoseconds)


def pods(*names: str, memory: int = 4000, **status: Any) -> list[Pod]:
    read = [read_pod(a_pod(name, memory=memory)) for name in names]
    return [
        msgspec.structs.replace(each, status=msgspec.structs.replace(each.status, **status))
        for each in read
    ]


def answer(bench: Bench, name: str) -> WaitingAnswer:
    found = bench.service.waiting_answers.get(f"uid-{name}")
    assert found is not None
    return found


def test_each_waiting_pod_has_its_answer_with_the_time_at_which_it_held() -> None:
    async def work() -> None:
        bench = await a_service(a_node("n1"))
        waiting = [*pods("a"), *pods("large", memory=90_000), read_pod(a_pod("bad", cores=150))]

        await bench.service.waiting_answers.round(waiting)

        assert answer(bench, "a").summary == "cards fit on n1"
        assert (answer(bench, "a").best, answer(bench, "a").fitting) == ("n1", 1)
        large = answer(bench, "large")
        assert large.summary == "0 of 1 nodes fit: 1 node: 2 of 2 cards: memory 81808 MiB short"
        assert [(each.nodes, each.examples) for each in large.groups] == [(1, ("n1",))]
        assert "must be" in answer(bench, "bad").summary
        assert large.at == bench.service.ports.clock.wall()

    run(work())


def test_the_message_of_its_scheduler_is_that_of_the_pod_and_not_of_pods_alike() -> None:
    async def work() -> None:
        bench = await a_service(a_node("n1"))
        message = "0/1 nodes are available: 1 Insufficient cpu."
        said = PodCondition("PodScheduled", "False", "Unschedulable", message)
        waiting = [*pods("a", conditions=(said,)), *pods("b")]

        await bench.service.waiting_answers.round(waiting)

        assert answer(bench, "a").summary == (
            "cards fit on n1; kube-scheduler said: Insufficient cpu"
        )
        assert answer(bench, "b").summary == "cards fit on n1"

    run(work())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    evaluated: list[str] = []

    class Counting(Judge):
        def steps(self, pod: Pod) -> Any:
            evaluated.append(pod.metadata.name)
            return super().steps(pod)

    monkeypatch.setattr(module, "Judge", Counting)
    return evaluated


def test_pods_alike_are_evaluated_once_and_again_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluated = counted(monkeypatch)

    async def work() -> None:
        bench = await a_service(a_node("n1"))
        answers, clock = bench.service.waiting_answers, bench.service.ports.clock
        waiting = [*pods("a", "b", "c"), *pods("other", memory=90_000)]
        await answers.round(waiting)
        assert evaluated == ["a", "other"]
        await clock.sleep(5 * SECOND)

        await answers.round(waiting)
        assert evaluated == ["a", "other"]
        assert answer(bench, "c").at == clock.wall()

        first = bench.service.pod_requests.read(pods("holder", memory=8000)[0])
        assert first is not None
        await bench.service.committer.commit(first, "n1")
        await answers.round(waiting)
        assert evaluated == ["a", "other", "a", "other"]

    run(work())


def test_a_pod_with_cards_is_like_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = counted(monkeypatch)

    async def work() -> None:
        bench = await a_service(a_node("n1"))
        held, alike = pods("a", "b")
        request = bench.service.pod_requests.read(held)
        assert request is not None
        await bench.service.committer.commit(request, "n1")

        await bench.service.waiting_answers.round([held, alike])

        assert evaluated == ["a", "b"]
        assert answer(bench, "a").summary == "has cards of n1, and its Binding is not written yet"
        assert answer(bench, "b").summary == "cards fit on n1"

    run(work())


def test_a_pod_that_waits_no_longer_has_no_answer() -> None:
    async def work() -> None:
        bench = await a_service(a_node("n1"))
        await bench.service.waiting_answers.round(pods("a", "b"))

        await bench.service.waiting_answers.round(pods("b"))

        assert bench.service.waiting_answers.get("uid-a") is None
        assert answer(bench, "b").fitting == 1

    run(work())


def test_the_work_has_its_share_of_the_time_and_no_more() -> None:
    async def work() -> WorkingClock:
        sizes = range(4 * CLASSES)
        bench = await a_service(*(a_node(f"n{n}", 1, 2 * GIB + n * MIB) for n in sizes))
        clock = WorkingClock()
        answers = bench.service.waiting_answers
        answers._clock = clock
        await answers.round(pods(*map(str, range(20)), memory=90_000))
        return clock

    clock = run(work())

    busy = clock.time - sum(clock.slept)
    assert len(clock.slept) > 4
    assert min(clock.slept) >= AT_ONCE * (SHARE - 1)
    assert busy <= clock.time / SHARE * 2.2  # half of the looks of this clock are between works


def test_it_leaves_the_results_of_filters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[str] = []

    def counting(request: Request, ledger: NodeLedger) -> Placement | Reason:
        fits.append(request.uid)
        return fit(request, ledger)

    monkeypatch.setattr(engine, "fit", counting)

    async def work() -> None:
        bench = await a_service(a_node("n1"))
        await bench.service.waiting_answers.round(pods("a", memory=90_000))
        assert fits == ["uid-a"]
        request = bench.service.pod_requests.read(pods("a", memory=90_000)[0])
        assert request is not None
        assert not bench.service.feasibility._cache._tables

    run(work())


class Stopped(Exception):  # noqa: N818
    """A test has seen enough."""


def test_a_pod_is_evaluated_once_it_has_waited_for_a_while() -> None:
    async def work() -> list[tuple[str, int]]:
        bench = await a_service(a_node("n1"))
        answers = bench.service.waiting_answers
        waiting, seen = pods("first"), dict[str, int]()

        class Clock(FakeClock):
            async def sleep(self, nanoseconds: int) -> None:
                await super().sleep(nanoseconds)
                for name in ("first", "second"):
                    if answers.get(f"uid-{name}") is not None:
                        seen.setdefault(name, self.time)
                if self.time == 5 * SECOND:
                    waiting.extend(pods("second", "bound-soon"))
                elif self.time == 9 * SECOND:
                    del waiting[-1]
                elif self.time > 20 * SECOND:
                    raise Stopped

        answers._clock = Clock()
        with pytest.raises(Stopped):
            await answers.run(lambda: waiting)
        assert answers.get("uid-bound-soon") is None
        return [*seen.items()]

    first, second = EVERY, 5 * SECOND
    assert run(work()) == [
        ("first", first + PATIENCE + EVERY),
        ("second", second + PATIENCE + EVERY),
    ]


def test_nothing_is_evaluated_before_the_service_is_ready() -> None:
    async def work() -> int:
        bench = await a_service(a_node("n1"))
        bench.service.readiness.mark_unsynced("x")
        asked = 0
        rounds = 0

        class Clock(FakeClock):
            async def sleep(self, nanoseconds: int) -> None:  # noqa: ARG002
                nonlocal rounds
                rounds += 1
                if rounds == 2:
                    bench.service.readiness.mark_synced("x")
                if rounds == 4:
                    raise Stopped

        def unbound() -> Sequence[Pod]:
            nonlocal asked
            asked += 1
            return pods("a")

        bench.service.waiting_answers._clock = Clock()
        with pytest.raises(Stopped):
            await bench.service.waiting_answers.run(unbound)
        return asked

    assert run(work()) == 2
