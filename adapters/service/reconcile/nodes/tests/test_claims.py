"""Cards that ResourceClaims have are in the ledger as long as the claims have them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import msgspec
import pytest

from adapters.cluster.api.error import ClusterError
from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.holders import holding
from adapters.dialects.dra.tests.builders import (
    NVIDIA,
    a_card_device,
    a_claim,
    a_result,
    a_share,
    a_slice,
    with_status,
)
from adapters.repairs.repairs import RELEASED
from adapters.service.cluster_state.deleted_pods import DEFAULT_GRACE, MARGIN
from adapters.service.reconcile.nodes.controller import (
    CLAIM_GRACE,
    GRACE,
    Reconciler,
    unadopted,
)
from adapters.service.reconcile.nodes.tests.pods import NODE, a_wish, bound, placed
from adapters.service.reconcile.nodes.tests.test_controller import Rig, a_rig
from adapters.service.tests.builders import RecordingDecisionLog
from adapters.stores.store import Change
from adapters.wire.dra import ListedClaim, ResourceClaim
from adapters.wire.kube import Metadata, Pod
from adapters.wire.records.hardware import NodeHardware
from core.durations import SECOND
from core.hardware.quantity import GIB
from core.requests.grant import Allocation
from core.requests.request import PodRef

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
        rig.cache.put_pod(bound(pod_named("p", "u-pod"), "n1", phase="Succeeded"))
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
        assert rig.reconciler._settled_by_watches("n1")

    asyncio.run(tried())


@dataclass
class FakeClaims:
    """An API server's claims.

    Attributes:
        frozen: whether a policy lets no client change them.
        on_its_way: claims that the API server writes at the next change of one.
    """

    there: dict[str, ResourceClaim] = field(default_factory=dict)
    frozen: bool = False
    on_its_way: dict[str, ResourceClaim] = field(default_factory=dict)

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        return self.there.get(claim.name)

    async def annotate(
        self,
        claim: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> ResourceClaim:
        if self.frozen:
            raise ClusterError(HTTPStatus.FORBIDDEN, "Forbidden", "a policy denied the request")
        self.there |= self.on_its_way
        found = self.there[claim.name]
        assert found.metadata.uid == claim.uid
        assert RELEASED in {**annotations, **(labels or {})}
        return found


UNALLOCATED = with_status({})


LISTED = ListedClaim(UNALLOCATED.metadata, UNALLOCATED.status, msgspec.Raw(b"{}"))

EARLIER = msgspec.structs.replace(
    LISTED, metadata=msgspec.structs.replace(LISTED.metadata, resource_version="0")
)


async def an_arbiter(live: FakeClaims, *, is_held: bool = False) -> tuple[Rig, Reconciler]:
    """A reconciler of a ledger in which the webhook has committed the whole first card.

    Or preemption has held it for the claim.
    """
    rig = await a_rig()
    rig.cache.claims.put_slice(slices())  # type: ignore[arg-type]
    stored = await rig.store.read("n1")
    assert stored is not None
    claim = allocated(a_claim(a_result("gpu-0"), node="n1"))
    assert claim is not None
    held = holding(claim, stored.ledger.node, rig.cache.claims.devices)
    assert held is not None
    held = replace(held, devices="") if is_held else held
    ledger = stored.ledger.reserve(held).renew(held.uid)
    await rig.store.write(ledger, stored.version)
    return rig, a_leader(rig, live)


def a_leader(rig: Rig, live: FakeClaims) -> Reconciler:
    return Reconciler(
        rig.reconciler._service,
        rig.cache,
        rig.store,
        rig.pods,
        RecordingDecisionLog(),
        reporter=rig.reporter,
        live_claims=live,
    )


async def in_ledger(rig: Rig, reconciler: Reconciler) -> bool:
    await reconciler.reconcile("n1")
    return "u-claim" in (await rig.ledger()).allocations


async def with_running_pod() -> tuple[FakeClaims, Rig, Reconciler, Pod]:
    """A claim in the ledger, and its pod, which runs by the watch."""
    live = FakeClaims({"c": a_claim(a_result("gpu-0"), node="n1")})
    rig, reconciler = await an_arbiter(live)
    rig.cache.claims.put_claim(live.there["c"])
    running = bound(pod_named("p", "u-pod"), "n1")
    rig.cache.put_pod(running)
    assert await in_ledger(rig, reconciler)
    return live, rig, reconciler, running


async def with_deleted_pod() -> tuple[FakeClaims, Rig, Reconciler]:
    """A claim in the ledger that was deallocated after its pod was deleted by force."""
    live, rig, reconciler, running = await with_running_pod()
    rig.cache.drop_pod(running.metadata)
    live.there["c"] = UNALLOCATED
    rig.cache.claims.put_claim(LISTED)
    return live, rig, reconciler


@pytest.mark.parametrize(
    ("known", "is_held", "frozen", "grace"),
    [
        pytest.param(LISTED, False, False, CLAIM_GRACE, id="never had devices"),
        pytest.param(None, False, False, GRACE, id="may have had devices"),
        pytest.param(EARLIER, False, False, GRACE, id="its watch is late"),
        pytest.param(LISTED, True, False, GRACE, id="held by preemption"),
        pytest.param(LISTED, False, True, GRACE, id="no client may change it"),
    ],
)
def test_a_committed_claim_is_released_if_it_is_not_allocated_within_the_grace(
    known: ListedClaim | None, is_held: bool, frozen: bool, grace: int
) -> None:
    async def tried() -> None:
        live = FakeClaims({"c": UNALLOCATED}, frozen)
        rig, reconciler = await an_arbiter(live, is_held=is_held)
        if known is not None:
            rig.cache.claims.put_claim(known)

        assert await in_ledger(rig, reconciler)
        rig.clock.time += (grace - 1) * SECOND
        assert await in_ledger(rig, reconciler)
        rig.clock.time += SECOND
        assert not await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["never_bound"]
        assert rig.reporter.events == []

    asyncio.run(tried())


def test_a_committed_claim_that_is_allocated_just_before_it_is_changed_keeps_its_card() -> None:
    async def tried() -> None:
        live = FakeClaims({"c": UNALLOCATED})
        rig, reconciler = await an_arbiter(live)
        rig.cache.claims.put_claim(LISTED)
        assert await in_ledger(rig, reconciler)
        live.on_its_way = {"c": a_claim(a_result("gpu-0"), node="n1")}
        rig.clock.time += CLAIM_GRACE * SECOND

        assert not await reconciler.reconcile("n1")

        assert await in_ledger(rig, reconciler)
        assert rig.reporter.counts == []

    asyncio.run(tried())


def test_a_claim_that_was_seen_allocated_is_released_when_it_is_not_any_more() -> None:
    async def tried() -> None:
        live = FakeClaims({"c": a_claim(a_result("gpu-0"), node="n1")})
        rig, reconciler = await an_arbiter(live)
        rig.cache.claims.put_claim(live.there["c"])
        finished = bound(pod_named("p", "u-pod"), "n1", phase="Succeeded")
        rig.cache.put_pod(finished)
        assert await in_ledger(rig, reconciler)

        live.there["c"] = UNALLOCATED
        rig.cache.claims.put_claim(UNALLOCATED)

        assert not await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["deallocated"]

    asyncio.run(tried())


def test_the_card_of_a_pod_that_was_deleted_by_force_stays_in_use_for_its_grace() -> None:
    async def tried() -> None:
        _, rig, reconciler = await with_deleted_pod()

        assert await in_ledger(rig, reconciler)
        rig.clock.time += (DEFAULT_GRACE + MARGIN) * SECOND
        assert not await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["kept", "unconfirmed"]

    asyncio.run(tried())


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_new_leader_keeps_the_card_of_a_pod_that_was_deleted_by_force(is_kept: bool) -> None:
    """Also where the leader before has seen that the claim was deallocated."""

    async def tried() -> None:
        live, rig, reconciler = await with_deleted_pod()
        if is_kept:
            assert await in_ledger(rig, reconciler)

        leader = a_leader(rig, live)

        assert await in_ledger(rig, leader)
        rig.clock.time += (DEFAULT_GRACE + MARGIN - 1) * SECOND
        assert await in_ledger(rig, leader)
        rig.clock.time += GRACE * SECOND
        assert not await in_ledger(rig, leader)

    asyncio.run(tried())


def test_another_attempt_that_fails_frees_no_card_of_a_pod_that_was_deleted_by_force() -> None:
    async def tried() -> None:
        _, rig, reconciler = await with_deleted_pod()
        stored = await rig.store.read("n1")
        assert stored is not None
        await rig.store.write(stored.ledger.renew("u-claim"), stored.version)

        assert await in_ledger(rig, reconciler)
        rig.clock.time += (DEFAULT_GRACE + MARGIN) * SECOND
        assert await in_ledger(rig, reconciler)

    asyncio.run(tried())


def test_a_claim_that_was_deallocated_before_the_service_started_may_still_be_used() -> None:
    async def tried() -> None:
        rig, reconciler = await an_arbiter(FakeClaims({}))
        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))

        assert await in_ledger(rig, reconciler)
        rig.clock.time += (DEFAULT_GRACE + MARGIN) * SECOND
        assert not await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["kept", "unconfirmed"]

    asyncio.run(tried())


def test_the_card_of_a_pod_that_runs_by_the_watch_stays_in_use_until_the_watch_ends_it() -> None:
    """The watch of claims may report a deallocation before that of pods reports the deletion."""

    async def tried() -> None:
        live, rig, reconciler, running = await with_running_pod()

        live.there["c"] = UNALLOCATED
        rig.cache.claims.put_claim(UNALLOCATED)
        assert await in_ledger(rig, reconciler)
        rig.clock.time += 10 * DEFAULT_GRACE * SECOND
        assert await in_ledger(rig, reconciler)
        rig.cache.drop_pod(running.metadata)

        assert await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["kept"]

    asyncio.run(tried())


def test_a_claim_that_was_deleted_or_made_again_is_released() -> None:
    async def tried(*claims: ResourceClaim) -> bool:
        claim = a_claim(a_result("gpu-0"), node="n1")
        live = FakeClaims({"c": claim})
        rig, reconciler = await an_arbiter(live)
        rig.cache.claims.put_claim(claim)
        rig.cache.put_pod(bound(pod_named("p", "u-pod"), "n1", phase="Succeeded"))
        live.there = dict(zip(("c",), claims, strict=False))
        rig.cache.claims.drop_claim("team/c")
        return await in_ledger(rig, reconciler)

    assert not asyncio.run(tried())
    assert not asyncio.run(tried(with_status({}, uid="another")))


def test_a_claim_with_devices_elsewhere_is_released_here() -> None:
    async def tried() -> None:
        live = FakeClaims({"c": a_claim(a_result("elsewhere", "nic.example.com"), node="n2")})
        rig, reconciler = await an_arbiter(live)

        assert not await in_ledger(rig, reconciler)
        assert rig.reporter.counts == ["elsewhere"]

    asyncio.run(tried())


def test_a_commit_that_the_watch_has_not_seen_is_not_replaced_by_an_older_allocation() -> None:
    async def tried() -> None:
        live = FakeClaims({"c": UNALLOCATED})
        rig, reconciler = await an_arbiter(live)
        older = a_claim(a_share("gpu-0", memory="1Gi"), node="n1")
        rig.cache.claims.put_claim(older)

        await reconciler.process("n1")
        (kept,) = (await rig.ledger()).allocations.values()
        assert kept.grants[0].exclusive

        live.there["c"] = older
        await reconciler.process("n1")
        (kept,) = (await rig.ledger()).allocations.values()
        assert kept.grants[0].memory == GIB

    asyncio.run(tried())


def test_a_late_watch_does_not_release_the_next_attempt_with_the_same_devices() -> None:
    async def tried() -> None:
        claim = a_claim(a_result("gpu-0"), node="n1")
        live = FakeClaims({"c": claim})
        rig, reconciler = await an_arbiter(live)
        rig.cache.claims.put_claim(claim)
        assert await in_ledger(rig, reconciler)
        stored = await rig.store.read("n1")
        assert stored is not None
        await rig.store.write(stored.ledger.renew("u-claim"), stored.version)
        assert await in_ledger(rig, reconciler)

        live.there["c"] = UNALLOCATED
        rig.cache.claims.put_claim(UNALLOCATED)

        assert await in_ledger(rig, reconciler)

    asyncio.run(tried())


def pod_named(name: str, uid: str) -> Pod:
    return Pod(Metadata(name=name, namespace="team", uid=uid))
