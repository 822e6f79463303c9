"""Gangs that are bound in part are reported once, and counted while they are."""

import asyncio
from contextlib import suppress

import pytest

from adapters.accounting.gang_cache import GangCache
from adapters.accounting.tests.test_gang_cache import pod
from adapters.service.reconcile import looks
from adapters.service.reconcile.looks import GangWatch
from adapters.service.reconcile.reporter import RepairReporter
from adapters.wire.kube import Pod, full_name


class Reporter(RepairReporter):
    """Keeps what is reported of pods."""

    def __init__(self) -> None:
        self.pods: list[tuple[str, str, str]] = []

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        self.pods.append((full_name(pod), reason, text))


def a_watch(*, ours: bool = True) -> tuple[GangCache, GangWatch, Reporter]:
    cache, reporter = GangCache(), Reporter()
    for each in (pod("a", node="n"), pod("b")):
        cache.put(each)
    return cache, GangWatch(cache, lambda _: ours, reporter), reporter


def test_a_gang_is_reported_at_the_second_look_and_once() -> None:
    cache, watch, reporter = a_watch()
    counts = []
    for _ in range(3):
        watch.look()
        counts.append((watch.count, len(reporter.pods)))
    cache.put(pod("b", node="n"))
    watch.look()

    assert counts == [(0, 0), (1, 1), (1, 1)]
    assert watch.count == 0
    ((name, reason, text),) = reporter.pods
    assert (name, reason) == ("team/b", "GangBoundInPart")
    assert text.startswith("1 of 2 pods of gang team/g are bound")


def test_gangs_without_shares_are_not_ours() -> None:
    _, watch, reporter = a_watch(ours=False)
    watch.look()
    watch.look()

    assert (watch.count, reporter.pods) == (0, [])


def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "GANGS_EVERY", 0)
    _, watch, reporter = a_watch()

    async def main() -> None:
        async with asyncio.timeout(5):
            task = asyncio.create_task(watch.run())
            while not reporter.pods:
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_gangs_that_are_bound_together_are_reported_once() -> None:
    cache, reporter = GangCache(), Reporter()
    groups = '["team/g", "team/h"]'
    cache.put(pod("a", groups=groups, node="n"))
    cache.put(pod("b", gang="h", groups=groups))
    watch = GangWatch(cache, lambda _: True, reporter)

    watch.look()
    watch.look()

    assert watch.count == 1
    ((name, _, text),) = reporter.pods
    assert name == "team/b"
    assert text.startswith("1 of 4 pods of gang team/g are bound")
