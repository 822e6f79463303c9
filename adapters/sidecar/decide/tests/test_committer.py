"""Cards are given away once, from when somebody begins to bind."""

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


def asking_for(bench: Bench, name: str, memory: int, count: int = 1) -> PodRequest:
    asking = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory, count=count)))
    assert asking is not None
    return asking


def test_cards_are_kept_from_others_while_they_are_written_and_free_if_that_fails() -> None:
    async def work() -> tuple[list[bool], Bench]:
        bench = await a_service(a_node("n1", cards=1))
        service, writing = bench.service, bench.store.write
        first, second = (asking_for(bench, name, 6000) for name in ("a", "b"))
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
    assert bench.service.ledgers.reserved() == 0


def test_what_is_kept_for_a_pod_does_not_stand_in_its_own_way() -> None:
    async def work() -> Committed | Reason:
        bench = await a_service(a_node("n1", cards=2))
        book = bench.service.ledgers
        ledger = book.inventory.ledger("n1")
        cards = tuple(replace(card, links=(Scope(Level.LINK, "1"),)) for card in ledger.node.cards)
        changed = ledger.describe(replace(ledger.node, cards=cards))
        await bench.store.write(changed, "1")
        await bench.sync()
        plain = asking_for(bench, "p", 8000, count=2)
        linking = TopologyConstraint((Level.LINK,), required=Level.LINK)
        asks = tuple(replace(ask, linked=True) for ask in plain.request.containers)
        asking = replace(plain, request=replace(plain.request, containers=asks, topology=linking))
        decided = bench.service.decide(asking).placement
        assert decided is not None
        book.reserve(Allocation.of(asking.request, decided), expires=1 << 62)
        return await bench.service.committer.commit(asking, "n1")

    assert isinstance(run(work()), Committed)


def test_a_pod_of_which_nobody_could_tell_what_it_holds_is_given_its_own_cards() -> None:
    async def work() -> tuple[Committed | Reason, Bench]:
        bench = await a_service(a_node("n1"))
        asking, ledger = asking_for(bench, "p", 4000), bench.service.ledgers.inventory.ledger("n1")
        blocked = frozenset(card.uuid for card in ledger.node.cards)
        unread = Allocation(
            "uid-p", "default/p", "volcano", "n1", (), unread="no record", blocked=blocked
        )
        await bench.store.write(ledger.adopt(unread), "1")
        await bench.sync()
        return await bench.service.committer.commit(asking, "n1"), bench

    found, bench = run(work())

    assert isinstance(found, Committed)
    assert bench.service.ledgers.inventory.ledger("n1").allocations["uid-p"].unread is None
