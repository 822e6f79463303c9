"""Cards that ResourceClaims have are in the ledger as long as the claims have them."""

import asyncio

from adapters.dialects.dra.tests.builders import (
    NVIDIA,
    a_card_device,
    a_claim,
    a_result,
    a_share,
    a_slice,
    with_status,
)
from adapters.sidecar.reconcile.controller import unadopted
from adapters.sidecar.reconcile.tests.pods import NODE, a_wish, placed
from adapters.sidecar.reconcile.tests.test_controller import Rig, a_rig
from adapters.stores.store import Change
from core.hardware.quantity import GIB
from core.requests.grant import Allocation

FIRST = NODE.cards[0].uuid


def slices() -> object:
    item = a_slice(a_card_device("gpu-0", FIRST))
    return item.__replace__(spec=item.spec.__replace__(node_name="n1"))


async def with_claim(*, share: bool = False) -> Rig:
    rig = await a_rig()
    rig.cache.claims.put_slice(slices())  # type: ignore[arg-type]
    result = a_share("gpu-0", memory="2Gi", cores="0") if share else a_result("gpu-0")
    rig.cache.claims.put_claim(a_claim(result, node="n1"))
    return rig


async def held(rig: Rig) -> Allocation | None:
    await rig.reconciler.reconcile("n1")
    return (await rig.ledger()).allocations.get("u-claim")


def test_a_claim_is_adopted_and_no_pod_gets_its_card() -> None:
    async def tried() -> None:
        rig = await with_claim()

        found = await held(rig)

        assert found is not None
        assert (found.pod, found.dialect) == ("team/c", "dra")
        placement = placed(a_wish(0), await rig.ledger())
        assert placement is not None
        assert FIRST not in {grant.card for grant in placement.grants}
        assert rig.reporter.counts == ["described", "adopted"][-len(rig.reporter.counts) :]

    asyncio.run(tried())


def test_a_share_of_a_claim_leaves_the_rest_of_the_card() -> None:
    async def tried() -> None:
        found = await held(await with_claim(share=True))

        assert found is not None
        assert [(grant.card, grant.memory) for grant in found.grants] == [(FIRST, 2 * GIB)]

    asyncio.run(tried())


def test_a_deallocated_claim_frees_its_card() -> None:
    async def tried() -> None:
        rig = await with_claim()
        assert await held(rig)

        rig.cache.claims.put_claim(with_status({}))

        assert await held(rig) is None
        assert rig.reporter.counts[-1] == "deallocated"
        assert rig.reporter.events == []

    asyncio.run(tried())


def test_a_claim_that_gets_another_card_holds_that_one() -> None:
    async def tried() -> None:
        rig = await with_claim()
        assert await held(rig)

        rig.cache.claims.put_claim(a_claim(a_share("gpu-0", memory="1Gi"), node="n1"))

        found = await held(rig)
        assert found is not None
        assert [grant.memory for grant in found.grants] == [GIB]

    asyncio.run(tried())


def test_a_claim_keeps_its_card_while_the_slices_of_its_node_are_away() -> None:
    async def tried() -> None:
        rig = await with_claim()
        before = await held(rig)

        rig.cache.claims.drop_slice(f"n-{NVIDIA}-1")

        assert await held(rig) == before

    asyncio.run(tried())


def test_a_claim_of_unknown_devices_blocks_the_node_until_a_slice_describes_them() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.claims.put_claim(a_claim(a_result("gpu-0"), node="n1"))

        found = await held(rig)
        assert found is not None
        assert found.blocked == {card.uuid for card in NODE.cards}
        assert rig.reporter.events == [("n1", "CardsUnknown"), ("n1", "LedgerDrift")]

        rig.cache.claims.put_slice(slices())  # type: ignore[arg-type]
        found = await held(rig)
        assert found is not None
        assert [grant.card for grant in found.grants] == [FIRST]

    asyncio.run(tried())


def test_the_service_is_not_ready_before_claims_are_in_the_ledger() -> None:
    async def tried() -> None:
        rig = await with_claim()
        service = rig.reconciler._service
        assert unadopted(service, rig.cache) == ["n1"]

        await rig.reconciler.reconcile("n1")
        stored = await rig.store.read("n1")
        service.ledgers.apply(Change("n1", stored))

        assert unadopted(service, rig.cache) == []
        assert rig.reconciler._agrees_by_watches("n1")

    asyncio.run(tried())
