"""What the quota of a namespace refuses, and what it costs where there is none."""

import asyncio
from dataclasses import replace

import pytest

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.tests.builders import Bench, a_node, a_pod, a_service, read_pod, run
from adapters.stores.memory import MemoryQuotas
from adapters.stores.store import Conflict, StoredQuota, StoreError
from adapters.wire.records.quota import QuotaRecordError
from core.hardware.quantity import GIB
from core.quota.amounts import NOTHING, QuotaLimits
from core.quota.quota import Quota
from core.requests.grant import Allocation, Placement
from core.requests.reason import Cause, Reason


def a_request(bench: Bench, name: str, memory: int = 4096) -> PodRequest:
    found = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory)))
    assert found is not None
    return found


class Recording(MemoryQuotas):
    """Counts calls; ``races`` writes conflict and ``failures`` raise."""

    def __init__(self, *quotas: Quota) -> None:
        super().__init__(quotas)
        self.calls: list[str] = []
        self.races = 0
        self.failures: list[Exception] = []

    async def read(self, namespace: str) -> StoredQuota | None:
        self.calls.append("read")
        if self.failures:
            raise self.failures.pop(0)
        return await super().read(namespace)

    async def write(self, quota: Quota, expected: str) -> str:
        self.calls.append("write")
        if self.races:
            self.races -= 1
            raise Conflict("another writer was first")
        return await super().write(quota, expected)


async def a_bench(limit: int = 6, *, races: int = 0) -> tuple[Bench, Recording]:
    """A service with a recorded quota of some GiB."""
    store = Recording(Quota("default", QuotaLimits(memory=limit * GIB), counted=True))
    bench = await a_service(a_node("n1"), a_node("n2"), quotas=store)
    await bench.see_quota()
    store.calls.clear()
    store.races = races
    return bench, store


def test_a_namespace_without_a_quota_sends_no_request_for_one() -> None:
    async def work() -> list[str]:
        store = Recording()
        bench = await a_service(quotas=store)
        assert isinstance(
            await bench.service.committer.commit(a_request(bench, "a"), "n1"), Committed
        )
        return store.calls

    assert run(work()) == []


def test_a_commit_within_the_quota_writes_one_hold_and_one_ledger() -> None:
    async def work() -> tuple[list[str], int, Quota]:
        bench, store = await a_bench()
        await bench.service.committer.commit(a_request(bench, "a"), "n1")
        return [*store.calls], bench.store.writes, await bench.see_quota()

    calls, ledgers, quota = run(work())

    assert (calls, ledgers) == (["write"], 1)
    assert quota.holds.keys() == {("uid-a", "n1")}
    assert quota.used().memory == 4 * GIB


def test_a_commit_over_the_quota_is_refused_with_the_newest_amounts_and_leaves_nothing() -> None:
    async def work() -> tuple[Committed | Reason, Quota, int]:
        bench, _ = await a_bench()
        await bench.service.committer.commit(a_request(bench, "a"), "n1")
        found = await bench.service.committer.commit(a_request(bench, "b"), "n2")
        return found, await bench.see_quota(), bench.service.ledgers.reservation_count()

    found, quota, reservations = run(work())

    assert isinstance(found, Reason)
    assert (found.cause, found.text()) == (
        Cause.QUOTA,
        "quota of namespace default: memory 2 GiB short (4 GiB of 6 GiB used)",
    )
    assert ({*quota.holds}, reservations) == ({("uid-a", "n1")}, 0)


def test_two_commits_on_two_nodes_at_once_share_what_is_left() -> None:
    async def work() -> list[Committed | Reason]:
        bench, _ = await a_bench()
        commit = bench.service.committer.commit
        first = commit(a_request(bench, "a"), "n1")
        return [*await asyncio.gather(first, commit(a_request(bench, "b"), "n2"))]

    kinds = sorted(type(each).__name__ for each in run(work()))

    assert kinds == ["Committed", "Reason"]


def test_holds_that_are_wanted_at_once_are_one_write_and_one_that_is_refused_harms_no_other() -> (
    None
):
    async def work() -> tuple[list[str], list[str], set[str]]:
        bench, store = await a_bench()
        asked = [a_request(bench, *each) for each in (("a", 4096), ("b", 4096), ("c", 1024))]
        found = await asyncio.gather(*(bench.service.committer.commit(one, "n1") for one in asked))
        held = {uid for uid, _ in (await bench.see_quota()).holds}
        return [type(each).__name__ for each in found], store.calls, held

    found, calls, held = run(work())

    assert found == ["Committed", "Reason", "Committed"]
    assert calls == ["read", "write", "read"]  # what the cache refuses is read; the test reads last
    assert held == {"uid-a", "uid-c"}


def test_an_error_of_the_quota_is_that_of_all_who_wait_and_of_no_later_one() -> None:
    async def work() -> list[object]:
        bench, store = await a_bench(races=1)
        store.failures = [StoreError("no answer")]
        both = [bench.service.committer.commit(a_request(bench, name, 1), "n1") for name in "ab"]
        found = await asyncio.gather(*both, return_exceptions=True)
        return [*found, await bench.service.committer.commit(a_request(bench, "c"), "n1")]

    assert [type(each) for each in run(work())] == [StoreError, StoreError, Committed]


def test_a_commit_that_is_cancelled_while_it_waits_for_a_hold_harms_no_other() -> None:
    async def work() -> Committed | Reason:
        bench, store = await a_bench()
        started, write = asyncio.Event(), store.write

        async def slow(quota: Quota, expected: str) -> str:
            started.set()
            await asyncio.sleep(0.01)
            return await write(quota, expected)

        store.write = slow  # type: ignore[method-assign]
        commit = bench.service.committer.commit
        tasks = [asyncio.create_task(commit(a_request(bench, n, 1), "n1")) for n in "abc"]
        await started.wait()
        tasks[0].cancel()
        late = asyncio.create_task(commit(a_request(bench, "d", 1), "n1"))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.wait([*tasks, late])
        assert tasks[0].cancelled()
        assert late.cancelled()
        assert isinstance(tasks[2].result(), Committed)
        return tasks[1].result()

    assert isinstance(run(work()), Committed)


def test_a_service_that_ends_cancels_those_who_wait_for_a_hold() -> None:
    async def work() -> bool:
        bench, _ = await a_bench()
        task = asyncio.create_task(bench.service.committer.commit(a_request(bench, "a"), "n1"))
        await asyncio.sleep(0)
        bench.service.committer.close()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(work())


def test_a_hold_whose_node_has_no_room_is_dropped() -> None:
    async def work() -> tuple[Committed | Reason, Quota]:
        bench, _ = await a_bench(limit=60)
        commit = bench.service.committer.commit
        for name in ("a", "b"):
            await commit(a_request(bench, name, 8000), "n1")
        bench.service.ledgers.load({})  # the cache is stale: it does not know what is in use
        return await commit(a_request(bench, "c", 8000), "n1"), await bench.see_quota()

    found, quota = run(work())

    assert isinstance(found, Reason)
    assert {uid for uid, _ in quota.holds} == {"uid-a", "uid-b"}


def test_a_commit_behind_a_fence_holds_again() -> None:
    async def work() -> Quota:
        bench, _ = await a_bench()
        await bench.service.committer.fence("n1", "default", 40, {"gone": NOTHING})
        await bench.service.committer.commit(a_request(bench, "a"), "n1")
        return await bench.see_quota()

    assert run(work()).holds["uid-a", "n1"].number == 41


def test_a_hold_that_loses_races_is_made_again_and_given_up_after_some() -> None:
    async def work(races: int) -> Committed | Reason:
        bench, _ = await a_bench(races=races)
        return await bench.service.committer.commit(a_request(bench, "a"), "n1")

    assert isinstance(run(work(5)), Committed)
    with pytest.raises(LedgerContended, match="the quota of default"):
        run(work(50))


def test_nothing_is_held_before_the_leader_has_counted() -> None:
    async def work() -> None:
        store = Recording(Quota("default"))
        bench = await a_service(quotas=store)
        await bench.see_quota()
        await bench.service.committer.commit(a_request(bench, "a"), "n1")

    with pytest.raises(LedgerContended, match="has not counted"):
        run(work())


def test_a_quota_that_was_deleted_meanwhile_limits_nothing() -> None:
    async def work() -> tuple[Committed | Reason, bool]:
        bench, store = await a_bench(limit=1)
        store.delete("default")
        found = await bench.service.committer.commit(a_request(bench, "a"), "n1")
        return found, bench.service.quotas.limits("default")

    found, limits = run(work())

    assert isinstance(found, Committed)
    assert not limits


def test_a_quota_that_cannot_be_used_refuses_and_says_why() -> None:
    async def work() -> tuple[str, str]:
        bench, store = await a_bench(limit=1)
        store.failures = [QuotaRecordError("spec.limits.memory: 'x': must be a quantity")]
        with pytest.raises(LedgerContended) as caught:
            await bench.service.committer.commit(a_request(bench, "a"), "n1")
        evaluation = bench.service.feasibility.evaluate(a_request(bench, "a"))
        return str(caught.value), evaluation.reasons(["n1"])["n1"].text()

    said, reason = run(work())

    assert said == "spec.limits.memory: 'x': must be a quantity"
    assert reason == said


def test_a_store_that_does_not_answer_is_no_yes() -> None:
    async def work() -> None:
        bench, store = await a_bench(limit=1)
        store.failures = [StoreError("no answer")]
        await bench.service.committer.commit(a_request(bench, "a"), "n1")

    with pytest.raises(StoreError):
        run(work())


def test_what_the_quota_refuses_fits_no_node_until_room_is_left() -> None:
    async def work() -> tuple[bool, str, bool]:
        bench, store = await a_bench()
        service = bench.service
        await service.committer.commit(a_request(bench, "a"), "n1")
        second = a_request(bench, "b")
        before, text = (
            service.feasibility.fits_any(second),
            service.feasibility.evaluate(second).reasons(["n1"])["n1"].text(),
        )
        (stored,) = store.all()
        (hold,) = stored.quota.holds.values()
        await store.write(stored.quota.settle(hold, NOTHING), stored.version)
        await bench.see_quota()
        return before, text, service.feasibility.fits_any(second)

    before, text, after = run(work())

    assert (before, after) == (False, True)
    assert text.endswith("quota of namespace default: memory 2 GiB short (4 GiB of 6 GiB used)")


def test_a_pod_that_has_its_cards_fits_where_it_is() -> None:
    async def work() -> bool:
        bench, _ = await a_bench()
        first = a_request(bench, "a")
        await bench.service.committer.commit(first, "n1")
        return bench.service.feasibility.evaluate(first).fits("n1")

    assert run(work())


def test_reservations_of_a_gang_count() -> None:
    async def work() -> str | None:
        bench, _ = await a_bench()
        first = a_request(bench, "a")
        decided = bench.service.feasibility.evaluate(first).decide().placement
        assert isinstance(decided, Placement)
        allocation = Allocation.of(first.request, decided)
        bench.service.ledgers.reserve(allocation, expires=1 << 62)
        return bench.service.quotas.refusal(a_request(bench, "b").request)

    assert run(work()) == "quota of namespace default: memory 2 GiB short (4 GiB of 6 GiB used)"


def test_an_older_state_from_the_watch_does_not_replace_a_newer_one() -> None:
    async def work() -> tuple[int, int]:
        bench, store = await a_bench()
        (old,) = store.all()
        await bench.service.committer.commit(a_request(bench, "a"), "n1")
        bench.service.quotas.apply(old)
        kept = bench.service.quotas.all()["default"].quota.sequence
        recreated = replace(old, uid="another")
        bench.service.quotas.apply(recreated)
        return kept, bench.service.quotas.all()["default"].quota.sequence

    assert run(work()) == (1, 0)
