"""A card is allocated once, and reserved from the moment at which a bind begins."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from adapters.accounting.pod_requests import PodRequest
from adapters.repairs.repairs import LOST_LEDGER, closing
from adapters.service.decide.commit.attempt import Committed
from adapters.service.tests.builders import Bench, Json, a_node, a_pod, a_service, read_pod, run
from core.hardware.card import Level, Scope
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Cause, Reason
from core.requests.request import TopologyConstraint


def pod_request_for(bench: Bench, name: str, memory: int, count: int = 1) -> PodRequest:
    pod_request = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory, count=count)))
    assert pod_request is not None
    return pod_request


def a_plain_pod(name: str, count: int = 1) -> Json:
    return a_pod(name, limits={"nvidia.com/gpu": count})


def test_cards_are_reserved_while_the_allocation_is_written_and_free_if_that_fails() -> None:
    async def work() -> tuple[list[bool], Bench]:
        bench = await a_service(a_node("n1", cards=1))
        service, writing = bench.service, bench.store.write
        first, second = (pod_request_for(bench, name, 6000) for name in ("a", "b"))
        found: list[bool] = []

        async def looking(*args: Any) -> str:
            found.append(service.feasibility.evaluate(second).fits("n1"))
            return await writing(*args)

        bench.store.write = looking  # type: ignore[method-assign,assignment]
        found.append(service.feasibility.evaluate(second).fits("n1"))
        bench.store.failures = [OSError("no answer")]
        await asyncio.gather(service.committer.commit(first, "n1"), return_exceptions=True)
        found.append(service.feasibility.evaluate(second).fits("n1"))
        assert isinstance(await service.committer.commit(first, "n1"), Committed)
        found.append(service.feasibility.evaluate(second).fits("n1"))
        return found, bench

    found, bench = run(work())

    before, written, failed, written_again, after = found
    assert (before, written, failed, written_again, after) == (True, False, True, False, False)
    assert bench.service.ledgers.reservation_count() == 0


def test_each_attempt_to_bind_has_a_number_of_its_own_also_after_a_release() -> None:
    """A reconciler that found an orphan must not take the next attempt for the same one."""

    async def work() -> list[int]:
        bench = await a_service(a_node("n1", cards=1))
        committer, pod_request = bench.service.committer, pod_request_for(bench, "p", 6000)
        attempts: list[int] = []
        for released in (False, True, True):
            if released:
                assert await committer.release(pod_request.request.uid, "n1")
            committed = await committer.commit(pod_request, "n1")
            assert isinstance(committed, Committed)
            assert committed.new
            attempts.append(committed.attempt)
        return attempts

    attempts = run(work())

    assert 0 not in attempts
    assert len(set(attempts)) == len(attempts)


def test_the_reservation_of_a_pod_does_not_block_the_pod_itself() -> None:
    async def work() -> Committed | Reason:
        bench = await a_service(a_node("n1", cards=2))
        ledgers = bench.service.ledgers
        ledger = ledgers.inventory.ledger("n1")
        cards = tuple(replace(card, links=(Scope(Level.LINK, "1"),)) for card in ledger.node.cards)
        changed = ledger.with_node(replace(ledger.node, cards=cards))
        await bench.store.write(changed, "1")
        await bench.sync()
        plain = pod_request_for(bench, "p", 8000, count=2)
        linking = TopologyConstraint((Level.LINK,), required=Level.LINK)
        asks = tuple(replace(ask, linked=True) for ask in plain.request.containers)
        pod_request = replace(
            plain, request=replace(plain.request, containers=asks, topology=linking)
        )
        decided = bench.service.feasibility.evaluate(pod_request).decide().placement
        assert decided is not None
        ledgers.reserve(Allocation.of(pod_request.request, decided), expires=1 << 62)
        return await bench.service.committer.commit(pod_request, "n1")

    assert isinstance(run(work()), Committed)


def test_a_pod_that_may_have_cards_as_unknown_gets_no_others_in_their_place() -> None:
    async def work() -> tuple[Committed | Reason, Bench]:
        bench = await a_service(a_node("n1"))
        pod_request, ledger = (
            pod_request_for(bench, "p", 4000),
            bench.service.ledgers.inventory.ledger("n1"),
        )
        blocked = frozenset(card.uuid for card in ledger.node.cards)
        unread = Allocation(
            "uid-p", "default/p", "volcano", "n1", (), unread="no record", blocked=blocked
        )
        await bench.store.write(ledger.adopt(unread), "1")
        await bench.sync()
        return await bench.service.committer.commit(pod_request, "n1"), bench

    found, bench = run(work())

    assert isinstance(found, Reason)
    assert found.cause is Cause.BLOCKED
    assert bench.service.ledgers.inventory.ledger("n1").allocations["uid-p"].unread == "no record"


def test_no_pod_takes_the_place_of_the_allocation_that_closes_a_deleted_ledgers_cards() -> None:
    """A client can send a pod of that uid, and a rejected Binding would open the cards."""

    async def work() -> tuple[Committed | Reason, bool, NodeLedger]:
        bench = await a_service(a_node("n1"))
        ledger = bench.service.ledgers.inventory.ledger("n1")
        await bench.store.write(ledger.adopt(closing(ledger.node)), "1")
        await bench.sync()
        pod = a_plain_pod("p")
        pod["metadata"]["uid"] = LOST_LEDGER
        pod_request = bench.service.pod_requests.read(read_pod(pod))
        assert pod_request is not None
        committer = bench.service.committer
        found = await committer.commit(pod_request, "n1")
        released = await committer.release(LOST_LEDGER, "n1", 0)
        return found, released, bench.service.ledgers.inventory.ledger("n1")

    found, released, ledger = run(work())

    assert (isinstance(found, Reason), released) == (True, False)
    assert ledger.allocations == {LOST_LEDGER: closing(ledger.node)}


def test_what_the_kubelet_chooses_for_a_pod_stays_beside_a_second_commit_of_its_uid() -> None:
    """Else a second Binding, which the API server rejects, releases what the pod has."""

    async def work() -> tuple[list[Committed | Reason], list[Allocation]]:
        bench = await a_service(a_node("n1"))
        found: list[Committed | Reason] = []
        held: list[Allocation] = []
        for count in (1, 1, 2):
            pod = a_plain_pod("p", count)
            pod_request = bench.service.pod_requests.read(read_pod(pod))
            assert pod_request is not None
            found.append(await bench.service.committer.commit(pod_request, "n1"))
            held.append(bench.service.ledgers.inventory.ledger("n1").allocations["uid-p"])
        return found, held

    found, held = run(work())

    assert [isinstance(each, Committed) and each.new for each in found] == [True, False, False]
    assert len({each.blocked for each in held}) == 1


@pytest.mark.parametrize(("memory", "cards"), [(6000, 1), (3000, 2)])
def test_an_allocation_of_another_request_under_the_same_uid_is_not_taken_over(
    memory: int, cards: int
) -> None:
    async def work() -> tuple[Committed | Reason, Committed | Reason, NodeLedger, NodeLedger]:
        bench = await a_service(a_node("n1", cards=2))
        first, other = pod_request_for(bench, "p", 3000), pod_request_for(bench, "p", memory, cards)
        assert first.request.uid == other.request.uid
        await bench.service.committer.commit(first, "n1")
        before = bench.service.ledgers.inventory.ledger("n1")
        refused = await bench.service.committer.commit(other, "n1")
        after = bench.service.ledgers.inventory.ledger("n1")
        return refused, await bench.service.committer.commit(first, "n1"), before, after

    refused, again, before, after = run(work())

    assert isinstance(refused, Reason)
    assert refused.cause is Cause.OTHER_REQUEST
    assert after.allocations == before.allocations
    assert isinstance(again, Committed)


def test_an_allocation_that_names_no_container_or_is_larger_is_what_a_pod_has() -> None:
    async def work() -> list[Committed | Reason]:
        bench = await a_service(a_node("n1", cards=1))
        wanted = pod_request_for(bench, "p", 3000)
        placement = bench.service.feasibility.evaluate(wanted).decide().placement
        assert placement is not None
        (grant,) = placement.grants
        found: list[Committed | Reason] = []
        for other in (replace(grant, container=""), replace(grant, memory=2 * grant.memory)):
            stored = await bench.store.read("n1")
            assert stored is not None
            allocation = Allocation.of(wanted.request, replace(placement, grants=(other,)))
            await bench.store.write(stored.ledger.adopt(allocation), stored.version)
            await bench.sync()
            found.append(await bench.service.committer.commit(wanted, "n1"))
        return found

    assert [isinstance(each, Committed) and each.new for each in run(work())] == [False, False]
