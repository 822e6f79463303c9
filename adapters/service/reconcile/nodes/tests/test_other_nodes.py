"""What one node writes changes nothing that is known of another, and frees nothing that runs.

docs/concepts/security.md states what they show.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec
import pytest

from adapters.dialects.dra.tests.builders import (
    NVIDIA,
    a_card_device,
    a_claim,
    a_result,
    a_share,
    with_status,
)
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.reconcile.nodes.controller import Reconciler
from adapters.service.reconcile.nodes.tests.pods import NODE, a_wish, bound, placed, written
from adapters.service.reconcile.nodes.tests.test_claims import FakeClaims, pod_named
from adapters.service.reconcile.nodes.tests.test_controller import FakePods, RecordingReporter
from adapters.service.tests.builders import (
    FakeClock,
    RecordingDecisionLog,
    a_node,
    a_service,
)
from adapters.stores.memory import MemoryStore
from adapters.wire.dra import ResourceClaim, ResourceSlice
from adapters.wire.kube import Metadata
from adapters.wire.records.hardware import DeviceHolding, NodeHardware
from core.hardware.card import Card
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

FIRST, SECOND_CARD = (card.uuid for card in NODE.cards)
THEIRS = ("GPU-n2-0", "GPU-n2-1")
OTHER_DRIVER = "devices.example.com"


def a_slice(
    node: str,
    *devices: dict[str, object],
    pool: str = "n1",
    generation: int = 1,
    driver: str = NVIDIA,
) -> ResourceSlice:
    """A slice that a driver on a node publishes."""
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    name = f"{node}-{pool}-{driver}"
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


OWN = a_slice(
    "n1", a_card_device("gpu-0", FIRST, "8Gi"), a_card_device("gpu-1", SECOND_CARD, "8Gi")
)
FORGED = a_slice("n2", a_card_device("gpu-0", THEIRS[0], "8Gi"), generation=9)
"""A slice of node n2, in the pool of n1, and newer."""


def of_pool(claim: ResourceClaim, pool: str = "n1") -> ResourceClaim:
    """The claim with devices of a pool, which the builders call ``n``."""
    return claim.__replace__(
        status=msgspec.Raw(
            bytes(claim.status).replace(b'"pool":"n"', b'"pool":"%s"' % pool.encode())
        )
    )


WHOLE = of_pool(a_claim(a_result("gpu-0"), node="n1"))
SHARE = of_pool(a_claim(a_share("gpu-0", memory="6Gi", cores="50"), node="n1"))


@dataclass
class Rig:
    """A leader, and two nodes."""

    reconciler: Reconciler
    cache: ClusterCache
    store: MemoryStore
    live: FakeClaims
    pods: FakePods
    clock: FakeClock

    def allocate(self, claim: ResourceClaim) -> None:
        """A scheduler allocates the devices of the claim, whose pod runs."""
        self.live.there["c"] = claim
        self.cache.claims.put_claim(claim)
        self.cache.put_pod(bound(pod_named("p", "u-pod"), "n1"))

    async def ledger(self, node: str = "n1") -> NodeLedger:
        await self.reconciler.reconcile(node)
        stored = await self.store.read(node)
        assert stored is not None
        return stored.ledger

    async def held(self, node: str = "n1") -> Allocation | None:
        return (await self.ledger(node)).allocations.get("u-claim")

    async def free(self) -> set[str]:
        """The cards of n1 that a pod of a whole card could get."""
        ledger, found = await self.ledger(), set[str]()
        for _ in NODE.cards:
            placement = placed(a_wish(3), ledger)
            if placement is None:
                break
            (grant,) = placement.grants
            found.add(grant.card)
            ledger = ledger.adopt(Allocation(grant.card, "d/p", "volcano", "n1", (grant,)))
        return found


async def a_rig() -> Rig:
    bench = await a_service(a_node("n1"), a_node("n2"))
    cache, live, pods = ClusterCache(claims_count=True), FakeClaims(), FakePods()
    for name in ("n1", "n2"):
        cache.put_node(a_node(name))
    made = Reconciler(
        bench.service,
        cache,
        bench.store,
        pods,
        RecordingDecisionLog(),
        reporter=RecordingReporter(),
        live_claims=live,
    )
    cache.claims.put_slice(OWN)
    return Rig(made, cache, bench.store, live, pods, bench.clock)


@pytest.mark.parametrize("claim", [WHOLE, SHARE])
def test_a_newer_generation_of_a_pool_on_another_node_frees_no_running_claim(
    claim: ResourceClaim,
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(claim)
        before = await rig.held()
        assert before is not None
        assert [grant.card for grant in before.grants] == [FIRST]

        rig.cache.claims.put_slice(FORGED)

        assert await rig.held() == before
        assert await rig.held("n2") is None
        assert await rig.free() == {SECOND_CARD}

    asyncio.run(tried())


@pytest.mark.parametrize("node", ["n1", None])
def test_a_new_claim_is_counted_on_its_node_although_another_publishes_its_pool(
    node: str | None,
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.claims.put_slice(FORGED)

        rig.allocate(of_pool(a_claim(a_result("gpu-0"), node=node)))

        found = await rig.held()
        assert found is not None
        assert [grant.card for grant in found.grants] == [FIRST]
        assert await rig.free() == {SECOND_CARD}

    asyncio.run(tried())


def test_a_pool_whose_own_slices_are_away_is_not_that_of_another_node() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.claims.drop_slice(OWN.metadata.name)
        rig.cache.claims.put_slice(FORGED)

        rig.allocate(WHOLE)

        assert await rig.free() == set()

    asyncio.run(tried())


def test_a_driver_of_another_node_does_not_say_that_devices_here_are_cards() -> None:
    async def tried() -> None:
        rig = await a_rig()
        device = a_card_device("x", FIRST, "8Gi")
        rig.cache.claims.put_slice(a_slice("n2", device, pool="n2", driver=OTHER_DRIVER))

        rig.allocate(of_pool(a_claim(a_result("y", OTHER_DRIVER), node="n1")))

        assert await rig.held() is None

    asyncio.run(tried())


def test_shadow_claims_of_a_node_name_no_device_of_another() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.claims.put_slice(FORGED)
        pod = a_wish(1)
        ledger = NodeLedger.of(replace(NODE, name="n2", cards=tuple(theirs())))
        placement = placed(pod, ledger)
        assert placement is not None
        held = Allocation("u", "d/p", "volcano", "n2", placement.grants)

        assert rig.cache.claims.shadowed(ledger.adopt(held)) == ()
        own = NodeLedger.of(NODE).adopt(
            replace(held, node="n1", grants=tuple(replace(g, card=FIRST) for g in held.grants))
        )
        assert [each.key for each in rig.cache.claims.shadowed(own)] == [(NVIDIA, "n1", "gpu-0")]

    asyncio.run(tried())


def theirs() -> list[Card]:
    return [
        replace(card, uuid=uuid, node="n2") for card, uuid in zip(NODE.cards, THEIRS, strict=True)
    ]


# --- slices of the claim's own node ---------------------------------------------------------------


@pytest.mark.parametrize("claim", [WHOLE, SHARE])
def test_a_device_that_becomes_another_card_keeps_the_earlier_one(claim: ResourceClaim) -> None:
    """Both are in use: a container that starts now gets the new one."""

    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(claim)
        before = await rig.held()
        assert before is not None

        rig.cache.claims.put_slice(a_slice("n1", a_card_device("gpu-0", SECOND_CARD, "8Gi")))

        found = await rig.held()
        assert found is not None
        assert found.grants[0] == before.grants[0]
        assert [grant.card for grant in found.grants] == [FIRST, SECOND_CARD]
        assert await rig.held() == found

    asyncio.run(tried())


def test_a_share_does_not_shrink_with_the_capacity_of_its_device() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(SHARE)
        before = await rig.held()
        device = a_card_device("gpu-0", FIRST, "800Gi")
        device["capacity"] = {"memory": {"value": "800Gi"}, "cores": {"value": "10000"}}

        rig.cache.claims.put_slice(a_slice("n1", device))

        assert await rig.held() == before

    asyncio.run(tried())


@pytest.mark.parametrize("driver", [NVIDIA, OTHER_DRIVER])
def test_a_running_claim_keeps_its_card_when_its_slices_vanish_and_the_service_restarts(
    driver: str,
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        device = a_card_device("gpu-0", FIRST, "8Gi")
        rig.cache.claims.put_slice(a_slice("n1", device, driver=driver))
        rig.allocate(of_pool(a_claim(a_result("gpu-0", driver), node="n1")))
        before = await rig.held()
        assert before is not None

        rig.cache.claims.drop_slice(f"n1-n1-{driver}")
        rig.reconciler._reader._claims._seen.clear()

        assert await rig.held() == before
        ((uid, _),) = (await rig.ledger()).allocations.items()
        assert uid == "u-claim"

    asyncio.run(tried())


def test_an_unknown_device_is_in_use_until_the_claim_ends_or_a_slice_describes_it() -> None:
    async def tried() -> None:
        rig = await a_rig()
        device = a_card_device("gpu-0", FIRST, "8Gi") | {"attributes": {}}
        rig.cache.claims.put_slice(a_slice("n1", device))
        rig.allocate(WHOLE)
        assert await rig.free() == set()

        unparsed = of_pool(a_claim(a_share("gpu-0", memory="many"), node="n1"))
        rig.cache.claims.put_slice(OWN)
        assert await rig.free() == {SECOND_CARD}
        rig.allocate(unparsed)
        assert await rig.free() == {SECOND_CARD}
        rig.cache.claims.put_slice(a_slice("n1", a_card_device("gpu-0", SECOND_CARD, "8Gi")))

        assert await rig.free() == set()

    asyncio.run(tried())


def test_a_claim_that_is_allocated_again_gets_what_slices_say_now() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(WHOLE)
        assert await rig.held()
        rig.cache.claims.put_slice(a_slice("n1", a_card_device("gpu-0", SECOND_CARD, "8Gi")))

        rig.allocate(of_pool(a_claim(a_share("gpu-0", memory="1Gi"), node="n1")))

        found = await rig.held()
        assert found is not None
        assert [(grant.card, grant.memory) for grant in found.grants] == [(SECOND_CARD, GIB)]

    asyncio.run(tried())


def test_a_claim_that_ends_frees_its_cards_whatever_its_slices_say() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(WHOLE)
        assert await rig.held()
        rig.cache.claims.drop_slice(OWN.metadata.name)
        rig.cache.put_pod(bound(pod_named("p", "u-pod"), "n1", phase="Succeeded"))
        rig.live.there["c"] = with_status({})

        rig.cache.claims.put_claim(with_status({}))

        assert await rig.held() is None
        assert await rig.free() == {FIRST, SECOND_CARD}

    asyncio.run(tried())


# --- what else a node writes ----------------------------------------------------------------------


def test_a_node_that_claims_the_card_of_another_changes_only_its_own_ledger() -> None:
    """By its annotations, its agent's report, and its slices."""

    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(SHARE)
        before = await rig.ledger()

        rig.cache.put_hardware("n2", NodeHardware(NODE.cards))
        forged = a_node("n1")
        rig.cache.put_node(
            forged.__replace__(metadata=Metadata("n2", annotations=forged.metadata.annotations))
        )
        rig.cache.claims.put_slice(a_slice("n2", a_card_device("gpu-0", FIRST, "1Gi")))

        assert {card.uuid for card in (await rig.ledger("n2")).node.cards} >= {FIRST, SECOND_CARD}
        assert (await rig.ledger("n2")).allocations == {}
        after = await rig.ledger()
        assert (after.node, after.allocations) == (before.node, before.allocations)

    asyncio.run(tried())


def test_an_agent_ends_no_pod_and_no_claim_of_another_node() -> None:
    """It reports pods as stopped, and devices that the kubelet assigned."""

    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        placement = placed(pod, await rig.ledger())
        assert placement is not None
        running = bound(pod, "n1", written(pod, placement, NODE).annotations)
        rig.pods.there[pod.metadata.name] = running
        rig.cache.put_pod(running)
        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
        assert set((await rig.ledger()).allocations) == {pod.metadata.uid}
        del rig.pods.there[pod.metadata.name]
        rig.cache.drop_pod(running.metadata)
        (kept,) = (await rig.ledger()).allocations.values()
        assert kept.release_by is not None

        holding = DeviceHolding(kept.uid, "main", "nvidia.com/gpu", 1, (THEIRS[0],))
        stopped = NodeHardware((), holdings=(holding,), stopped=(kept.uid,))
        rig.cache.put_hardware("n2", stopped)

        await rig.ledger("n2")
        assert (await rig.ledger()).allocations == {kept.uid: kept}

    asyncio.run(tried())
