"""Limits of ResourceQuotas: the same claims and refusals as of a ShareQuota."""

import pytest

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.reconcile.quotas import QuotaReconciler
from adapters.service.tests.builders import Bench, a_node, a_pod, a_service, read_pod, run
from adapters.stores.memory import MemoryQuotas
from core.hardware.quantity import GIB
from core.quota.amounts import NO_LIMITS, QuotaLimits
from core.quota.quota import Quota
from core.requests.reason import Reason

SIX = QuotaLimits(memory=6 * GIB)


def a_request(bench: Bench, name: str, memory: int = 4096) -> PodRequest:
    found = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory)))
    assert found is not None
    return found


async def a_bench(host: QuotaLimits = SIX, own: QuotaLimits | None = None) -> Bench:
    """A service in whose namespace a ResourceQuota limits, and maybe a ShareQuota."""
    own_quota = () if own is None else (Quota("default", own, counted=True),)
    quotas = MemoryQuotas(own_quota)
    bench = await a_service(a_node("n1"), a_node("n2"), quotas=quotas)
    for stored in quotas.all():
        bench.service.quotas.apply(stored)
    bench.service.quotas.restrict("default", host)
    return bench


async def lead(bench: Bench) -> None:
    await QuotaReconciler(bench.service, bench.service.ports.quotas).round()


def test_pods_claim_in_an_object_that_the_leader_creates() -> None:
    async def work() -> tuple[Committed | Reason, Committed | Reason, Quota]:
        bench = await a_bench()
        await lead(bench)
        first, _ = await bench.service.commit(a_request(bench, "a"), "n1")
        second, _ = await bench.service.commit(a_request(bench, "b"), "n2")
        return first, second, await bench.see_quota()

    first, second, quota = run(work())

    assert isinstance(first, Committed)
    assert isinstance(second, Reason)
    assert second.text() == "quota of namespace default: memory 2 GiB short (4 GiB of 6 GiB used)"
    assert (quota.limits, quota.used().memory) == (NO_LIMITS, 4 * GIB)


def test_two_replicas_that_share_the_claims_do_not_exceed_the_limit() -> None:
    async def work() -> list[bool]:
        bench = await a_bench()
        await lead(bench)
        quotas = bench.service.ports.quotas
        assert isinstance(quotas, MemoryQuotas)
        replica = await a_service(a_node("n1"), a_node("n2"), quotas=quotas)
        replica.service.quotas.restrict("default", SIX)
        first, _ = await bench.service.commit(a_request(bench, "a"), "n1")
        second, _ = await replica.service.commit(a_request(replica, "b"), "n2")
        return [isinstance(each, Committed) for each in (first, second)]

    assert run(work()) == [True, False]


def test_before_the_leader_has_counted_pods_wait_in_filter_and_bind() -> None:
    async def work() -> tuple[str | None, str | None]:
        bench = await a_bench()
        pod = a_request(bench, "a")
        with pytest.raises(LedgerContended, match="the leader has not counted"):
            await bench.service.commit(pod, "n1")
        waits = bench.service.quotas.refusal(pod.request)
        await lead(bench)
        return waits, bench.service.quotas.refusal(pod.request)

    waits, later = run(work())

    assert "the leader has not counted what its pods have" in (waits or "")
    assert later is None


def test_a_pod_that_has_its_cards_is_not_refused_while_the_leader_counts() -> None:
    async def work() -> str | None:
        bench = await a_bench(NO_LIMITS)
        pod = a_request(bench, "a")
        await bench.service.commit(pod, "n1")
        bench.service.quotas.restrict("default", SIX)
        return bench.service.quotas.refusal(pod.request)

    assert run(work()) is None


def test_a_pod_that_alone_exceeds_the_limit_is_too_large_before_and_after() -> None:
    async def work() -> list[str | None]:
        bench = await a_bench()
        large, small = a_request(bench, "a", memory=8000), a_request(bench, "b")
        before = [bench.service.quotas.too_large(each.request) for each in (large, small)]
        await lead(bench)
        return [*before, bench.service.quotas.too_large(large.request)]

    before, small, after = run(work())

    text = "the pod counts 8000 MiB of memory, and the limit is 6 GiB"
    assert (small, text in (before or ""), text in (after or "")) == (None, True, True)


@pytest.mark.parametrize(
    ("host", "own"), [(SIX, QuotaLimits(memory=9 * GIB)), (QuotaLimits(memory=9 * GIB), SIX)]
)
def test_beside_a_share_quota_both_bind(host: QuotaLimits, own: QuotaLimits) -> None:
    async def work() -> tuple[Committed | Reason, QuotaLimits]:
        bench = await a_bench(host, own)
        await bench.service.commit(a_request(bench, "a"), "n1")
        found, _ = await bench.service.commit(a_request(bench, "b"), "n2")
        return found, (await bench.see_quota()).limits

    found, stored = run(work())

    assert isinstance(found, Reason)
    assert "4 GiB of 6 GiB used" in found.text()
    assert stored == own


def test_a_limit_that_is_raised_or_removed_lets_pods_in_at_once() -> None:
    async def work() -> tuple[str | None, str | None, int, int]:
        bench = await a_bench()
        await lead(bench)
        await bench.service.commit(a_request(bench, "a"), "n1")
        quotas, pod = bench.service.quotas, a_request(bench, "b").request
        before = quotas.refusal(pod)
        revision = quotas.revision
        quotas.restrict("default", SIX)
        unchanged = quotas.revision - revision
        quotas.restrict("default", NO_LIMITS)
        return before, quotas.refusal(pod), unchanged, quotas.revision - revision

    before, after, unchanged, changes = run(work())

    assert "short" in (before or "")
    assert (after, unchanged, changes) == (None, 0, 1)


def test_an_object_that_exists_or_cannot_be_created_is_left_to_the_next_round() -> None:
    async def work() -> list[str]:
        bench = await a_bench()
        await bench.service.ports.quotas.create("default")
        await lead(bench)
        return bench.service.quotas.without_holds()

    assert run(work()) == ["default"]
