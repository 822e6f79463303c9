"""A claim holds its cards until its own life ends, whatever is written about it meanwhile.

docs/concepts/security.md states what they show.
"""

import asyncio

import msgspec
import pytest

from adapters.dialects.dra.claims import SHADOW
from adapters.dialects.dra.tests.builders import a_card_device, a_result, with_status
from adapters.service.cluster_state.deleted_pods import DEFAULT_GRACE, MARGIN
from adapters.service.reconcile.nodes.node_reader import ClusterEndedPods
from adapters.service.reconcile.nodes.tests.pods import bound
from adapters.service.reconcile.nodes.tests.test_claims import pod_named
from adapters.service.reconcile.nodes.tests.test_other_nodes import (
    FIRST,
    OWN,
    SECOND_CARD,
    WHOLE,
    a_rig,
    a_slice,
)
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Metadata, Pod
from core.durations import SECOND

RESERVED = [{"resource": "pods", "name": "p", "uid": "u-pod"}]


def a_placed_claim(
    term: dict[str, object], *devices: str, uid: str = "u-claim", **status: object
) -> ResourceClaim:
    """With these whole devices, on the nodes of one term."""
    allocation = {
        "devices": {"results": [a_result(each, pool="n1") for each in devices]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    return with_status({"allocation": allocation, "reservedFor": RESERVED, **status}, uid=uid)


def requirement(key: str, *values: str, operator: str = "In") -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


NAMED: dict[str, object] = {"matchFields": [requirement("metadata.name", "n1")]}


def test_a_device_that_a_label_places_is_held_on_the_node_of_its_card() -> None:
    """The label of a node need not be its name."""

    async def tried() -> None:
        rig = await a_rig()
        device = a_card_device("gpu-0", FIRST, "8Gi")
        made = a_slice("n1", device)
        rig.cache.claims.drop_slice(OWN.metadata.name)
        rig.cache.claims.put_slice(made.__replace__(spec=made.spec.__replace__(node_name=None)))
        label = requirement("kubernetes.io/hostname", "ip-10-0-0-1")

        rig.allocate(a_placed_claim({"matchExpressions": [label]}, "gpu-0"))

        assert await rig.free() == {SECOND_CARD}

    asyncio.run(tried())


def test_a_claim_in_use_is_no_shadow() -> None:
    """A driver may publish devices for nodes with the label of shadow claims."""

    async def tried() -> None:
        rig = await a_rig()
        label = requirement(SHADOW, operator="Exists")

        rig.allocate(a_placed_claim({**NAMED, "matchExpressions": [label]}, "gpu-0"))

        assert await rig.free() == {SECOND_CARD}

    asyncio.run(tried())


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}, {}),
        ({}, {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}),
        ({}, {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}),
    ],
)
@pytest.mark.parametrize("again", [None, with_status({}, uid="u-again")])
def test_a_claim_that_is_deleted_under_its_pod_keeps_its_card_after_a_restart(
    spec: dict[str, object], status: dict[str, object], again: ResourceClaim | None
) -> None:
    """The claim's author removes the finalizer, deletes it, and may create it again."""

    async def tried() -> None:
        before = await a_rig()
        before.allocate(WHOLE)
        ledger = await before.ledger()

        rig = await a_rig()
        first = await rig.store.read("n1")
        assert first is not None
        await rig.store.write(ledger, first.version)
        rig.live.there = {} if again is None else {"c": again}
        metadata = {"name": "p", "namespace": "team", "uid": "u-pod"}
        pod = {"metadata": metadata, "spec": {"nodeName": "n1", **spec}, "status": status}
        rig.cache.put_pod(msgspec.convert(pod, Pod))

        assert await rig.held() == ledger.allocations["u-claim"]
        rig.cache.drop_pod(Metadata("p", "team", "u-pod"))
        kept = await rig.held()
        assert kept is not None
        assert kept.release_by is not None

    asyncio.run(tried())


def test_a_claim_that_moves_keeps_what_containers_of_its_last_pod_may_use() -> None:
    """The pod was deleted by force, and no ledger was written between the two allocations."""

    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(WHOLE)
        assert await rig.free() == {SECOND_CARD}
        rig.cache.drop_pod(bound(pod_named("p", "u-pod"), "n1").metadata)

        moved = a_placed_claim(NAMED, "gpu-1")
        rig.live.there["c"] = moved
        rig.cache.claims.put_claim(moved)

        assert await rig.free() == set()
        kept = await rig.held()
        assert kept is not None
        assert kept.release_by is not None
        assert await rig.free() == set()
        rig.clock.time += (DEFAULT_GRACE + MARGIN) * SECOND
        assert await rig.free() == {FIRST}
        found = await rig.held()
        assert found is not None
        assert found.release_by is None

    asyncio.run(tried())


def test_a_claim_that_is_created_again_under_its_name_is_another_one() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(WHOLE)
        assert await rig.free() == {SECOND_CARD}

        again = a_placed_claim(NAMED, "gpu-1", uid="u-again")
        rig.live.there["c"] = again
        rig.cache.claims.put_claim(again)

        assert await rig.free() == set()
        assert (await rig.ledger()).allocations.keys() == {"u-claim", "u-again"}

    asyncio.run(tried())


def a_plain_pod(*, claimed: bool) -> Pod:
    """A pod of a whole card on n1, before and after kube-scheduler wrote the name of its claim."""
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}
    made = {"resourceClaimName": "c", "requestMappings": [mapping]}
    limits = {"limits": {"nvidia.com/gpu": 1}}
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "default", "uid": "u-pod"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": limits}]},
            "status": {"extendedResourceClaimStatus": made} if claimed else {},
        },
        Pod,
    )


@pytest.mark.parametrize("counted_before", [False, True])
def test_a_plain_pod_whose_request_became_a_claim_holds_what_the_claim_has(
    *, counted_before: bool
) -> None:
    """Also where an earlier program counted it: its entry of the ledger goes."""

    async def tried() -> None:
        rig = await a_rig()
        if counted_before:
            rig.cache.put_pod(a_plain_pod(claimed=False))
            assert await rig.free() == set()
            assert (await rig.ledger()).allocations.keys() == {"u-pod"}
        rig.live.there["c"] = claim = a_placed_claim(NAMED, "gpu-0")
        rig.cache.claims.put_claim(claim)
        rig.pods.there["p"] = pod = a_plain_pod(claimed=True)
        rig.cache.put_pod(pod)

        assert (await rig.ledger()).allocations.keys() == {"u-claim"}
        assert await rig.free() == {SECOND_CARD}

    asyncio.run(tried())


@pytest.mark.parametrize(
    ("phase", "is_free"),
    [
        pytest.param("Succeeded", True, id="ended"),
        pytest.param("Running", False, id="runs"),
        pytest.param("", False, id="deleted by force"),
    ],
)
def test_a_deleted_claim_whose_pod_has_ended_is_free_before_the_leader_writes_the_ledger(
    phase: str, is_free: bool
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.allocate(WHOLE)
        ledger = await rig.ledger()
        ended = ClusterEndedPods(rig.cache, rig.pods, rig.live, confirm_always=True)
        pod = bound(pod_named("p", "u-pod"), "n1", phase=phase or "Running")
        rig.cache.put_pod(pod)
        if not phase:
            rig.cache.drop_pod(pod.metadata)

        assert not await ended.among(ledger), "the claim is there"
        rig.cache.claims.drop_claim("team/c")
        assert not await ended.among(ledger), "the API server has the claim"
        rig.live.there = {}

        free = [each.uid for each in await ended.among(ledger)]
        assert free == (["u-claim"] if is_free else [])

    asyncio.run(tried())


def test_of_a_claim_that_no_watch_reported_nothing_is_known_to_have_ended() -> None:
    async def tried() -> None:
        before = await a_rig()
        before.allocate(WHOLE)

        rig = await a_rig()
        ended = ClusterEndedPods(rig.cache, rig.pods, rig.live, confirm_always=False)

        assert not await ended.among(await before.ledger())

    asyncio.run(tried())
