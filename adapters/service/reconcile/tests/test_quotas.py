"""The leader makes the holds of a quota agree with the ledgers."""

from adapters.service.reconcile.quotas import GRACE, QuotaReconciler
from adapters.service.tests.builders import Bench, a_node, a_service, run
from adapters.stores.memory import MemoryQuotas
from core.durations import SECOND
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaHold
from core.requests.grant import Allocation, Grant

LIMITS = QuotaLimits(memory=6 * GIB)


async def a_leader(*holds: QuotaHold, counted: bool = True) -> tuple[Bench, QuotaReconciler]:
    quota = Quota("default", LIMITS, counted=counted)
    for hold in holds:
        quota = quota.adopt(hold)
    bench = await a_service(a_node("n1"), a_node("n2"), quotas=MemoryQuotas((quota,)))
    await bench.see_quota()
    return bench, QuotaReconciler(bench.service, bench.service.ports.quotas)


async def allocated(bench: Bench, uid: str, memory: int, node: str = "n1") -> NodeLedger:
    """The pod has cards by the ledger, without a hold: another scheduler bound it."""
    found = await bench.store.read(node)
    assert found is not None
    card = found.ledger.node.cards[0].uuid
    grant = Grant("main", card, memory * GIB, 0)
    ledger = found.ledger.adopt(Allocation(uid, f"default/{uid}", "volcano", node, (grant,)))
    await bench.store.write(ledger, found.version)
    await bench.sync()
    return ledger


async def gone(bench: Bench, uid: str, node: str = "n1") -> None:
    await bench.service.committer.release(uid, node)


def a_hold(uid: str = "a", memory: int = 4, node: str = "n1") -> QuotaHold:
    return QuotaHold(uid, f"default/{uid}", node, QuotaAmounts(500, memory * GIB, 0))


def test_a_new_quota_counts_what_its_pods_have_and_reports_that_it_is_exceeded() -> None:
    async def work() -> Quota:
        bench, leader = await a_leader(counted=False)
        await allocated(bench, "a", 5)
        await allocated(bench, "b", 3, "n2")
        await leader.round()
        return await bench.see_quota()

    quota = run(work())

    assert (quota.counted, quota.used().memory) == (True, 8 * GIB)
    assert quota.limits.exceeded(quota.used()) == ("memory",)


def test_the_hold_of_a_pod_that_left_is_dropped_behind_a_fence() -> None:
    async def work() -> tuple[Quota, int, int]:
        bench, leader = await a_leader()
        await allocated(bench, "a", 4)
        await leader.round()
        before = await bench.see_quota()
        await gone(bench, "a")
        await leader.round()
        fence = bench.service.ledgers.inventory.ledger("n1").fence("default")
        return await bench.see_quota(), fence, before.holds["a", "n1"].number

    quota, fence, number = run(work())

    assert quota.holds == {}
    assert fence == number


def test_a_hold_without_an_allocation_is_kept_while_its_commit_may_be_on_the_way() -> None:
    async def work() -> list[int]:
        bench, leader = await a_leader(a_hold())
        counts = []
        for seconds in (0, GRACE - 1, 1):
            bench.clock.time += seconds * SECOND
            await leader.round()
            counts.append(len((await bench.see_quota()).holds))
        return counts

    assert run(work()) == [1, 1, 0]


def test_a_hold_on_a_node_that_is_gone_is_dropped() -> None:
    async def work() -> Quota:
        bench, leader = await a_leader(a_hold(node="gone"))
        await leader.round()
        bench.clock.time += GRACE * SECOND
        await leader.round()
        return await bench.see_quota()

    assert run(work()).holds == {}


def test_a_hold_that_the_ledger_confirms_meanwhile_is_kept() -> None:
    async def work() -> Quota:
        bench, leader = await a_leader(a_hold())
        await leader.round()
        bench.clock.time += GRACE * SECOND
        stale = dict(bench.service.ledgers.inventory.ledger("n1").allocations)
        await allocated(bench, "a", 4)
        assert not stale
        await leader.round()
        return await bench.see_quota()

    assert run(work()).holds.keys() == {("a", "n1")}


def test_a_hold_is_raised_and_lowered_to_what_the_pod_has() -> None:
    async def work() -> list[int]:
        bench, leader = await a_leader(a_hold(memory=1))
        found = []
        for memory in (5, 2):
            await allocated(bench, "a", memory)
            await leader.round()
            found.append((await bench.see_quota()).used().memory // GIB)
        return found

    assert run(work()) == [5, 2]


def test_a_round_without_a_quota_or_with_nothing_to_do_writes_nothing() -> None:
    async def work() -> tuple[int, int]:
        plain = await a_service()
        await QuotaReconciler(plain.service, plain.service.ports.quotas).round()
        bench, leader = await a_leader()
        writes = bench.store.writes
        await leader.round()
        return plain.store.writes, bench.store.writes - writes

    assert run(work()) == (0, 0)


def test_a_quota_that_was_deleted_is_forgotten() -> None:
    async def work() -> bool:
        bench, leader = await a_leader(counted=False)
        store = bench.service.ports.quotas
        assert isinstance(store, MemoryQuotas)
        store.delete("default")
        await leader.round()
        return bench.service.quotas.limits("default")

    assert not run(work())
