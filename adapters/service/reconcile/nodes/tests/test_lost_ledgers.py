"""Which ledgers are made with their cards closed: those that were deleted, and no others."""

import asyncio

import pytest

from adapters.repairs.repairs import LOST_LEDGER, closing
from adapters.service.decide.state.ledger_cache import REMEMBERED, LedgerCache
from adapters.service.reconcile.nodes.controller import GRACE
from adapters.service.reconcile.nodes.tests.pods import NODE, a_wish, bound, placed, written
from adapters.service.reconcile.nodes.tests.test_controller import Rig, a_rig, committed
from adapters.service.tests.builders import a_node
from adapters.stores.store import Change
from core.durations import SECOND
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger


async def deleted(rig: Rig) -> None:
    """Delete the ledger past the service, whose watch reports it."""
    stored = await rig.store.read("n1")
    assert stored is not None
    await rig.store.delete("n1", stored.version)
    for change in (Change("n1", stored), Change("n1", None)):
        rig.reconciler._service.ledgers.apply(change)


async def is_closed(rig: Rig) -> bool:
    return LOST_LEDGER in (await rig.ledger()).allocations


def test_a_ledger_that_was_deleted_is_closed_for_the_grace_and_pods_are_changed() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(a_wish(0), a_wish(1))
        await deleted(rig)

        await rig.reconciler.reconcile("n1")
        assert not await rig.reconciler.reconcile("n1")
        rig.clock.time += GRACE * SECOND - 1
        assert not await rig.reconciler.reconcile("n1")
        assert (await is_closed(rig), rig.pods.writes) == (True, 0)
        rig.clock.time += 1
        assert await rig.reconciler.reconcile("n1")

        assert (await is_closed(rig), rig.pods.writes) == (False, 2)
        assert rig.reporter.counts == ["closed", "opened"]
        assert ("n1", "LedgerDeleted") in rig.reporter.events

    asyncio.run(tried())


def test_one_change_of_a_pod_serves_all_ledgers_that_were_deleted_before() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(a_wish(0))
        for seconds in (0, 1):
            await deleted(rig)
            for _ in range(2):
                await rig.reconciler.reconcile("n1")
            rig.clock.time += (GRACE + seconds) * SECOND
            await rig.reconciler.reconcile("n1")
            assert not await is_closed(rig)
            assert rig.pods.writes == 1 + seconds

        rig.see(a_wish(1))
        view = await rig.reconciler._reader.live_view(await rig.ledger(), None)
        assert await rig.reconciler._writer.invalidate(closing(view.ledger.node), view)
        assert rig.pods.writes == 3

    asyncio.run(tried())


def test_a_pod_that_has_no_room_for_an_annotation_is_changed_by_a_label() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(a_wish(0))
        rig.pods.full.add("p0")
        await deleted(rig)
        for _ in range(2):
            await rig.reconciler.reconcile("n1")
        rig.clock.time += GRACE * SECOND

        assert await rig.reconciler.reconcile("n1")

        assert (await is_closed(rig), rig.pods.writes) == (False, 1)
        assert rig.pods.there["p0"].metadata.labels

    asyncio.run(tried())


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_pod_that_cannot_be_changed_holds_up_no_other_repair_of_its_node(
    *, is_lost: bool
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(a_wish(0))
        if is_lost:
            await deleted(rig)
        else:
            await committed(rig, a_wish(0))
        for _ in range(2):
            await rig.reconciler.reconcile("n1")
        rig.clock.time += GRACE * SECOND
        held = (await rig.ledger()).allocations.keys()
        rig.pods.frozen.add("p0")
        other = a_wish(1)
        placement = placed(other, NodeLedger.of(NODE))
        assert placement is not None
        said = written(other, placement, NODE)
        rig.see(bound(other, "n1", said.annotations))

        assert not await rig.reconciler.reconcile("n1")

        assert (await rig.ledger()).allocations.keys() == {*held, other.metadata.uid}

    asyncio.run(tried())


def test_a_record_that_an_agent_made_after_the_deletion_is_closed_with_its_first_cards() -> None:
    async def tried() -> None:
        rig = await a_rig()
        await deleted(rig)
        await rig.store.write(NodeLedger.of(Node("n1")), None)

        await rig.reconciler.reconcile("n1")

        assert await is_closed(rig)
        assert (await rig.ledger()).node.cards

    asyncio.run(tried())


def test_a_deletion_that_the_watch_has_not_reported_closes_the_ledger_too() -> None:
    async def tried() -> None:
        rig = await a_rig()
        stored = await rig.store.read("n1")
        assert stored is not None
        await rig.store.delete("n1", stored.version)

        await rig.reconciler.reconcile("n1")

        assert await is_closed(rig)

    asyncio.run(tried())


def test_a_node_that_comes_back_after_its_ledger_was_removed_has_an_open_one() -> None:
    async def tried() -> None:
        rig = await a_rig()
        node = a_node("n1")
        rig.cache.drop_node(node.metadata)
        assert await rig.reconciler.reconcile("n1")
        assert await rig.store.read("n1") is None

        rig.cache.put_node(node)
        assert await rig.reconciler.reconcile("n1")

        assert not await is_closed(rig)

    asyncio.run(tried())


def test_a_leader_after_a_killed_one_closes_the_nodes_that_have_no_ledger() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.put_node(a_node("n2"))
        rig.reconciler.take_over()

        for name in ("n1", "n2"):
            await rig.reconciler.reconcile(name)

        assert not await is_closed(rig)
        second = await rig.store.read("n2")
        assert second is not None
        assert LOST_LEDGER in second.ledger.allocations

    asyncio.run(tried())


def test_so_many_deleted_ledgers_are_remembered() -> None:
    ledgers = LedgerCache()
    for number in range(REMEMBERED + 1):
        ledgers.lose(f"n{number}")

    assert len(ledgers.lost) == REMEMBERED
    assert "n0" not in ledgers.lost
