"""A card is allocated once, and reserved from the moment at which a bind begins."""

import asyncio
from dataclasses import replace
from typing import Any

from adapters.sidecar.decide.committer import Committed
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.tests.builders import Bench, a_node, a_pod, a_service, read_pod, run
from core.hardware.card import Level, Scope
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import TopologyConstraint


def pod_request_for(bench: Bench, name: str, memory: int, count: int = 1) -> PodRequest:
    pod_request = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory, count=count)))
    assert pod_request is not None
    return pod_request


def test_cards_are_reserved_while_the_allocation_is_written_and_free_if_that_fails() -> None:
    async def work() -> tuple[list[bool], Bench]:
        bench = await a_service(a_node("n1", cards=1))
        service, writing = bench.service, bench.store.write
        first, second = (pod_request_for(bench, name, 6000) for name in ("a", "b"))
        found: list[bool] = []

        async def looking(*args: Any) -> str:
            found.append(service.evaluate(second).fits("n1"))
            return await writing(*args)

        bench.store.write = looking  # type: ignore[method-assign,assignment]
        found.append(service.evaluate(second).fits("n1"))
        bench.store.failures = [OSError("no answer")]
        await asyncio.gather(service.committer.commit(first, "n1"), return_exceptions=True)
        found.append(service.evaluate(second).fits("n1"))
        assert isinstance(await service.committer.commit(first, "n1"), Committed)
        found.append(service.evaluate(second).fits("n1"))
        return found, bench

    found, bench = run(work())

    before, written, failed, written_again, after = found
    assert (before, written, failed, written_again, after) == (True, False, True, False, False)
    assert bench.service.ledgers.reservation_count() == 0


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
        decided = bench.service.decide(pod_request).placement
        assert decided is not None
        ledgers.reserve(Allocation.of(pod_request.request, decided), expires=1 << 62)
        return await bench.service.committer.commit(pod_request, "n1")

    assert isinstance(run(work()), Committed)


def test_a_pod_whose_earlier_allocation_is_unreadable_gets_cards_of_its_own() -> None:
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

    assert isinstance(found, Committed)
    assert bench.service.ledgers.inventory.ledger("n1").allocations["uid-p"].unread is None
