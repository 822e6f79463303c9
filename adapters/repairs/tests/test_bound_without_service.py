"""Pods that were bound while no replica answered."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.allocation_record import MARK
from adapters.dialects.registry import mirror_mark
from adapters.repairs.bound_without_service import late_pods
from adapters.service.reconcile.nodes.controller import unadopted
from adapters.service.reconcile.nodes.tests.pods import GARBLED, NODE, a_wish, bound
from adapters.service.reconcile.nodes.tests.test_controller import Rig, a_rig
from adapters.service.tests.builders import DIALECTS, a_pod, read_pod
from adapters.stores.memory import MemoryQuotas
from adapters.stores.store import Change
from adapters.wire.body import PodDecoder
from adapters.wire.kube import ContainerStatus, KubeNode, Metadata, Pod
from adapters.wire.records.hardware import NodeHardware
from core.ledger.node_ledger import Hold, NodeLedger
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota
from core.requests.grant import Allocation, Grant

FORGED_MARK = {**GARBLED, mirror_mark("volcano"): "true"}


def marked(pod: Pod) -> Pod:
    """The pod as the watch decodes it after admission."""
    written = msgspec.json.decode(msgspec.json.encode(pod))
    for container in written["spec"]["containers"]:
        container["env"] = [{"name": MARK, "value": "1"}]
    return PodDecoder(MARK).decode(msgspec.Raw(msgspec.json.encode(written)))


def late(number: int = 0) -> Pod:
    return bound(marked(a_wish(number)), "n1", phase="Pending")


def with_status(pod: Pod, container_id: str) -> Pod:
    name = pod.spec.containers[0].name
    statuses = (ContainerStatus(name, container_id),)
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, container_statuses=statuses)
    )


def is_late(pod: Pod) -> bool:
    return bool(late_pods((pod,), NodeLedger.of(NODE), DIALECTS))


@pytest.mark.parametrize(
    "pod",
    [
        bound(a_wish(0), "n1", phase="Pending"),
        bound(marked(a_wish(0)), "n1", phase="Running"),
        bound(marked(a_wish(0)), "n1", GARBLED, phase="Pending"),
        bound(marked(a_wish(0)), "n1", FORGED_MARK, phase="Pending"),
        with_status(late(), "containerd://1"),
        bound(marked(read_pod(a_pod("p", limits={"nvidia.com/gpu": 1}))), "n1", phase="Pending"),
        bound(marked(read_pod(a_pod("p", limits={"cpu": 1}))), "n1", phase="Pending"),
        bound(
            marked(read_pod(a_pod("p", limits={"volcano.sh/vgpu-number": 0}))),
            "n1",
            phase="Pending",
        ),
    ],
    ids=["unmarked", "running", "recorded", "forged", "created", "plugin", "plain", "invalid"],
)
def test_a_pod_that_may_have_cards_is_not_late(pod: Pod) -> None:
    assert not is_late(pod)


def test_a_marked_pod_without_a_record_whose_containers_were_not_created_is_late() -> None:
    assert is_late(late())
    assert is_late(with_status(late(), ""))


async def a_rig_with_an_agent(quotas: MemoryQuotas | None = None) -> Rig:
    rig = await a_rig(quotas=quotas)
    rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
    return rig


def test_it_gets_cards_and_their_annotations_and_an_event() -> None:
    async def tried() -> None:
        rig = await a_rig_with_an_agent()
        rig.see(late())

        assert await rig.reconciler.reconcile("n1")
        (allocation,) = (await rig.ledger()).allocations.values()
        assert allocation.unread is None
        assert allocation.grants[0].memory == 2000 << 20
        assert rig.reporter.events == [("p0", "CardsAllocatedLate")]
        assert rig.reporter.counts == ["allocated_late"]

        assert await rig.reconciler.reconcile("n1")
        assert "volcano.sh/vgpu-ids-new" in (rig.pods.there["p0"].metadata.annotations or {})
        assert rig.reporter.counts == ["allocated_late", "annotated"]

    asyncio.run(tried())


def test_without_room_it_holds_nothing_and_is_reported_and_gets_the_cards_that_become_free() -> (
    None
):
    async def tried() -> None:
        rig = await a_rig_with_an_agent()
        rig.see(late(3), late(7), late(11))

        await rig.reconciler.process("n1")

        ledger = await rig.ledger()
        assert sorted(ledger.allocations) == ["uid-p11", "uid-p3"]
        assert ledger.problems() == ()
        assert rig.reconciler.drifting == 1
        assert ("n1", "LedgerDrift") in rig.reporter.events
        await rig.reconciler.process("n1")
        assert rig.reporter.events.count(("n1", "LedgerDrift")) == 1

        rig.see(bound(rig.pods.there["p3"], "n1", phase="Failed"))
        await rig.reconciler.process("n1")
        assert sorted((await rig.ledger()).allocations) == ["uid-p11", "uid-p7"]
        assert rig.reconciler.drifting == 0

    asyncio.run(tried())


def test_it_gets_nothing_of_a_place_that_is_kept() -> None:
    async def tried() -> None:
        rig = await a_rig_with_an_agent()
        card = NODE.cards[0]
        grants = (Grant("main", card.uuid, card.memory, 100, exclusive=True),)
        place = Allocation("hold", "default/moved", "volcano", "n1", grants)
        stored = await rig.store.read("n1")
        assert stored is not None
        hold = Hold("plan", "owner", by_name=False, allocation=place)
        await rig.store.write(stored.ledger.hold(hold), stored.version)
        rig.see(late(3), late(7))

        await rig.reconciler.process("n1")

        ledger = await rig.ledger()
        (allocation,) = ledger.allocations.values()
        assert allocation.cards == {NODE.cards[1].uuid}
        assert ledger.holds == (hold,)
        assert rig.reconciler.drifting == 1

    asyncio.run(tried())


def test_a_pod_that_blocked_all_cards_blocks_none_when_it_is_known_to_have_none() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(late(3), late(7), late(11))
        await rig.reconciler.reconcile("n1")
        blocked = [each.blocked for each in (await rig.ledger()).allocations.values()]
        assert all(blocked)
        assert len(blocked) == 3

        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
        await rig.reconciler.reconcile("n1")

        assert len((await rig.ledger()).allocations) == 2
        assert not any(each.blocked for each in (await rig.ledger()).allocations.values())
        assert rig.reporter.counts[-1] == "not_started"

    asyncio.run(tried())


def test_a_pod_that_waits_for_cards_does_not_keep_the_service_from_being_ready() -> None:
    async def tried() -> None:
        rig = await a_rig_with_an_agent()
        service = rig.reconciler._service
        rig.see(late(3), late(7), late(11))
        assert unadopted(service, rig.cache) == []
        rig.cache.put_hardware("n1", None)
        assert unadopted(service, rig.cache) == ["n1", "n1", "n1"]

    asyncio.run(tried())


def test_a_pod_that_uses_no_card_of_its_node_does_not_keep_the_service_from_being_ready() -> None:
    """Such as one of a device plugin, on a node whose agent has left."""

    async def tried() -> None:
        rig = await a_rig()
        service = rig.reconciler._service
        rig.cache.put_node(KubeNode(Metadata(name="n1")))
        await rig.reconciler.reconcile("n1")
        service.ledgers.apply(Change("n1", await rig.store.read("n1")))

        rig.see(bound(read_pod(a_pod("p", limits={"nvidia.com/gpu": 1})), "n1"))

        await rig.reconciler.reconcile("n1")
        assert not (await rig.ledger()).allocations
        assert unadopted(service, rig.cache) == []

    asyncio.run(tried())


async def under_quota(quota: Quota, *pods: Pod) -> tuple[Rig, MemoryQuotas]:
    """A reconciler that knows a quota, and has looked once at late pods of its namespace."""
    quotas = MemoryQuotas((quota,))
    rig = await a_rig_with_an_agent(quotas)
    (stored,) = quotas.all()
    rig.reconciler._service.quotas.apply(stored)
    rig.see(*pods)
    await rig.reconciler.process("n1")
    return rig, quotas


def test_a_late_pod_for_which_the_quota_has_no_room_holds_nothing_until_it_has() -> None:
    async def tried() -> None:
        limits = QuotaLimits(memory=4096 << 20)
        quota = Quota("default", limits, counted=True)
        rig, quotas = await under_quota(quota, late(0), late(4), late(8))

        (stored,) = quotas.all()
        assert sorted((await rig.ledger()).allocations) == ["uid-p0", "uid-p4"]
        assert stored.quota.holds.keys() == {("uid-p0", "n1"), ("uid-p4", "n1")}
        assert rig.reconciler.drifting == 1
        assert rig.reporter.events.count(("n1", "LedgerDrift")) == 1
        await rig.reconciler.process("n1")
        assert quotas.all() == [stored]
        assert len((await rig.ledger()).allocations) == 2

        raised = replace(stored.quota, limits=QuotaLimits(memory=6144 << 20))
        await quotas.write(raised, stored.version)
        await rig.reconciler.process("n1")
        assert len((await rig.ledger()).allocations) == 3
        assert rig.reconciler.drifting == 0

    asyncio.run(tried())


def test_of_late_pods_the_one_of_higher_priority_gets_what_the_quota_has_left() -> None:
    async def tried() -> None:
        quota = Quota("default", QuotaLimits(memory=2048 << 20), counted=True)
        urgent = late(8)
        spec = msgspec.structs.replace(urgent.spec, priority=10)
        rig, _ = await under_quota(quota, late(0), msgspec.structs.replace(urgent, spec=spec))

        assert [*(await rig.ledger()).allocations] == ["uid-p8"]

    asyncio.run(tried())


def test_a_late_pod_that_blocked_all_cards_blocks_none_while_it_waits_for_the_quota() -> None:
    async def tried() -> None:
        quotas = MemoryQuotas((Quota("default", QuotaLimits(memory=0), counted=True),))
        rig = await a_rig(quotas=quotas)
        rig.see(late(0))
        await rig.reconciler.reconcile("n1")
        assert all(each.blocked for each in (await rig.ledger()).allocations.values())

        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
        (stored,) = quotas.all()
        rig.reconciler._service.quotas.apply(stored)
        await rig.reconciler.reconcile("n1")
        assert not (await rig.ledger()).allocations

    asyncio.run(tried())


def test_a_late_pod_waits_while_its_quota_cannot_be_used() -> None:
    async def tried() -> None:
        rig, _ = await under_quota(Quota("default"), late(0))

        assert not (await rig.ledger()).allocations
        assert rig.reconciler.drifting == 1

    asyncio.run(tried())
