"""The reconciler over a store, with a cluster cache that may be late."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import msgspec
import pytest

from adapters.cluster.api.error import ClusterError
from adapters.dialects.adoption import adopt
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import DEFAULT_GRACE, MARGIN
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.nodes.controller import AGAIN, GRACE, REST, Reconciler
from adapters.service.reconcile.nodes.node_reader import AT_ONCE, ClusterEndedPods
from adapters.service.reconcile.nodes.tests.pods import (
    NODE,
    a_wish,
    allocated,
    bound,
    placed,
    written,
)
from adapters.service.reconcile.reporter import RepairReporter
from adapters.service.reconcile.work_queue import LIMIT
from adapters.service.tests.builders import (
    DIALECTS,
    FakeClock,
    RecordingDecisionLog,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    read_pod,
)
from adapters.service.tests.claims import LiveClaims
from adapters.service.tests.settling import run_settling, settled
from adapters.stores.memory import MemoryQuotas, MemoryStore
from adapters.stores.store import Change, Conflict, Stored
from adapters.tests.waiting import until
from adapters.wire.kube import KubeNode, Pod
from adapters.wire.kube import annotations as annotations_of
from adapters.wire.kube import labels as labels_of
from adapters.wire.records.hardware import DeviceHolding, NodeHardware
from core.durations import SECOND
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET, Placement
from core.requests.request import PodRef
from core.tests.builders import a_grant, held


@dataclass
class FakePods:
    """An API server's pods.

    Attributes:
        full: names of pods that have no room for another annotation.
        frozen: names of pods that an admission policy lets no client change.
    """

    there: dict[str, Pod] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)
    reads: int = 0
    writes: int = 0

    async def get(self, pod: PodRef) -> Pod | None:
        self.reads += 1
        assert pod.namespace == "default"
        return self.there.get(pod.name)

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> Pod:
        if pod.name in self.frozen:
            raise ClusterError(HTTPStatus.FORBIDDEN, "Forbidden", "a policy denied the request")
        if pod.name in self.full and annotations:
            raise ClusterError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", "metadata.annotations: Too long"
            )
        self.writes += 1
        found = self.there[pod.name]
        values = {**annotations_of(found), **annotations}
        metadata = msgspec.structs.replace(
            found.metadata,
            annotations={key: value for key, value in values.items() if value is not None},
            labels={**labels_of(found), **(labels or {})},
        )
        self.there[pod.name] = msgspec.structs.replace(found, metadata=metadata)
        return self.there[pod.name]


@dataclass
class RecordingReporter(RepairReporter):
    counts: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, ...]] = field(default_factory=list)

    def repaired(self, kind: str) -> None:
        self.counts.append(kind)

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:  # noqa: ARG002
        self.events.append((pod.metadata.name, reason))

    def of_node(self, node: str, reason: str, text: str) -> None:  # noqa: ARG002
        self.events.append((node, reason))

    def inventory(self, node: str, problems: Sequence[str]) -> None:
        self.problems.append((node, *problems))


@dataclass
class Rig:
    """A reconciler with what is around it."""

    reconciler: Reconciler
    cache: ClusterCache
    store: MemoryStore
    pods: FakePods
    reporter: RecordingReporter
    clock: FakeClock
    ledgers: LedgerCache

    def see(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods.there[pod.metadata.name] = pod
            self.cache.put_pod(pod)

    async def ledger(self) -> NodeLedger:
        stored = await self.store.read("n1")
        assert stored is not None
        return stored.ledger


async def a_rig(
    node: KubeNode | None = None,
    quotas: MemoryQuotas | None = None,
    mirrored: Collection[str] = (),
) -> Rig:
    cache = ClusterCache()
    pods, reporter = FakePods(), RecordingReporter()
    ended = ClusterEndedPods(cache, pods, LiveClaims(), confirm_always=True)
    bench = await a_service(a_node("n1"), quotas=quotas, mirrored=mirrored, ended=ended)
    made = Reconciler(
        bench.service, cache, bench.store, pods, RecordingDecisionLog(), reporter=reporter
    )
    cache.put_node(node or a_node("n1"))
    return Rig(made, cache, bench.store, pods, reporter, bench.clock, bench.service.ledgers)


async def committed(rig: Rig, pod: Pod) -> Placement:
    ledger = await rig.ledger()
    placement = placed(pod, ledger)
    assert placement is not None
    stored = await rig.store.read("n1")
    assert stored is not None
    changed = ledger.reserve(allocated(pod, placement)).commit(pod.metadata.uid)
    await rig.store.write(changed, stored.version)
    return placement


def test_a_pod_that_is_never_bound_is_released_after_the_grace_and_not_before() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        rig.pods.there["p0"] = pod

        assert not await rig.reconciler.reconcile("n1")
        assert (await rig.ledger()).allocations
        rig.clock.time += GRACE * SECOND
        assert await rig.reconciler.reconcile("n1")
        assert not (await rig.ledger()).allocations
        assert rig.reporter.events == [("p0", "CardsReleased")]
        assert rig.reporter.counts == ["never_bound"]

    asyncio.run(tried())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_a_deleted_pod_whose_containers_do_not_run_is_released_at_once(phase: str) -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        rig.cache.put_pod(bound(pod, "n1", phase=phase))
        rig.cache.drop_pod(pod.metadata)

        assert await rig.reconciler.reconcile("n1")

        assert not (await rig.ledger()).allocations
        assert rig.reporter.counts == ["gone"]

    asyncio.run(tried())


def test_what_only_init_containers_had_is_free_once_they_have_succeeded() -> None:
    async def tried() -> None:
        node = a_metax_node("n1", cards=1)
        rig = await a_rig(node)
        await rig.reconciler.reconcile("n1")
        share = {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4, "metax-tech.com/vcore": 10}
        plain = a_pod("p0", limits=share)
        large = {"limits": {**share, "metax-tech.com/vmemory": 40}}
        plain["spec"]["initContainers"] = [{"name": "load", "resources": large}]
        pod = read_pod(plain)
        placement = await committed(rig, pod)
        result = written(pod, placement, (await rig.ledger()).node)
        for state, memory in (({"running": {}}, 40), ({"terminated": {"exitCode": 0}}, 4)):
            status = {
                "phase": "Running",
                "initContainerStatuses": [{"name": "load", "state": state}],
            }
            rig.see(bound(read_pod({**plain, "status": status}), "n1", result.annotations))
            await rig.reconciler.reconcile("n1")

            assert (await rig.ledger()).usages[0].memory == memory * GIB
        assert rig.reporter.counts[-1] == "recounted"

    asyncio.run(tried())


@pytest.mark.parametrize("phase", ["Pending", "Succeeded"])
def test_a_commit_meanwhile_delays_no_release_of_a_pod_that_ended(phase: str) -> None:
    """The API server answers about the pod after another pod got cards of its node."""

    async def tried() -> None:
        rig = await a_rig()
        ended, other = a_wish(0), a_wish(1)
        await committed(rig, ended)
        if phase == "Succeeded":
            rig.see(bound(ended, "n1", phase=phase))
        else:
            rig.cache.put_pod(bound(ended, "n1", phase=phase))
            rig.cache.drop_pod(ended.metadata)
        rig.see(other)
        rig.ledgers.load(await rig.store.load())
        get = rig.pods.get

        async def late(pod: PodRef) -> Pod | None:
            if rig.pods.reads == 0:
                await committed(rig, other)
            return await get(pod)

        rig.pods.get = late  # type: ignore[method-assign]

        await rig.reconciler.process("n1")

        assert (await rig.ledger()).allocations.keys() == {other.metadata.uid}
        assert rig.pods.reads == 1
        assert rig.reporter.counts == ["gone"]

    asyncio.run(tried())


def test_a_pod_is_not_released_because_the_watch_alone_reports_that_it_was_deleted() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        rig.see(pod)
        rig.cache.drop_pod(pod.metadata)
        rig.ledgers.load(await rig.store.load())

        await rig.reconciler.process("n1")

        assert (await rig.ledger()).allocations.keys() == {pod.metadata.uid}

    asyncio.run(tried())


def test_a_pod_that_was_deleted_unbound_is_released_at_once_beside_an_agent() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
        pod = a_wish(0)
        await committed(rig, pod)
        rig.cache.put_pod(pod)
        rig.cache.drop_pod(pod.metadata)

        assert await rig.reconciler.reconcile("n1")

        assert not (await rig.ledger()).allocations

    asyncio.run(tried())


def test_a_pod_deleted_by_force_keeps_its_cards_until_the_agent_says_that_it_stopped() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.put_hardware("n1", NodeHardware(NODE.cards))
        pod = a_wish(0)
        await committed(rig, pod)
        rig.see(bound(pod, "n1"))
        rig.cache.drop_pod(pod.metadata)
        del rig.pods.there["p0"]

        assert not await rig.reconciler.reconcile("n1")
        assert not await rig.reconciler.reconcile("n1")
        (kept,) = (await rig.ledger()).allocations.values()
        assert kept.release_by == rig.clock.wall() // SECOND + DEFAULT_GRACE + MARGIN
        assert rig.reporter.counts == ["kept"]

        stopped = NodeHardware(NODE.cards, stopped=(pod.metadata.uid,))
        rig.cache.put_hardware("n1", stopped)
        assert await rig.reconciler.reconcile("n1")
        assert not (await rig.ledger()).allocations
        assert rig.reporter.counts == ["kept", "gone"]
        assert rig.reporter.events == []

    asyncio.run(tried())


def test_without_an_answer_the_cards_of_a_deleted_pod_are_released_after_its_grace() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)

        assert not await rig.reconciler.reconcile("n1")
        assert (await rig.ledger()).allocations
        rig.clock.time += (DEFAULT_GRACE + MARGIN) * SECOND
        assert await rig.reconciler.reconcile("n1")
        assert not (await rig.ledger()).allocations
        assert rig.reporter.events == [("n1", "StopUnconfirmed")]
        assert rig.reporter.counts == ["kept", "unconfirmed"]

    asyncio.run(tried())


def test_lost_annotations_are_written_again_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        rig.see(bound(pod, "n1"))

        assert await rig.reconciler.reconcile("n1")
        assert await rig.reconciler.reconcile("n1")  # the cache is late

        assert rig.pods.writes == 1
        assert rig.reporter.events == [("p0", "CardsAnnotated")]
        found = adopt(rig.pods.there["p0"], NODE, DIALECTS)
        assert found is not None
        assert found.grants == (await rig.ledger()).allocations["uid-p0"].grants

    asyncio.run(tried())


def test_a_pod_without_annotations_blocks_cards_and_is_reported_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(bound(a_wish(0), "n1"))

        for _ in range(3):
            await rig.reconciler.reconcile("n1")

        assert rig.reporter.events == [("p0", "CardsUnknown"), ("n1", "LedgerDrift")]
        assert rig.reconciler.drifting == 1
        rig.see(bound(a_wish(0), "n1", phase="Failed"))
        await rig.reconciler.reconcile("n1")
        assert rig.reconciler.drifting == 0

    asyncio.run(tried())


def test_a_record_of_other_amounts_than_the_request_is_reported_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        said = {"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,1000,0:", "volcano.sh/vgpu-node": "n1"}
        rig.see(bound(a_wish(0), "n1", said))

        for _ in range(3):
            await rig.reconciler.reconcile("n1")

        (allocation,) = (await rig.ledger()).allocations.values()
        assert allocation.grants[0].memory == 2000 << 20
        assert rig.reporter.events == [("n1", "LedgerDrift")]
        assert rig.reconciler.drifting == 1

    asyncio.run(tried())


def test_a_pod_of_nvidias_plugin_gets_and_keeps_the_cards_that_the_kubelet_assigned() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = bound(read_pod(a_pod("p0", limits={"nvidia.com/gpu": 1})), "n1")
        rig.see(pod)
        first, second = (card.uuid for card in NODE.cards)
        await rig.reconciler.reconcile("n1")
        blocked = (await rig.ledger()).allocations["uid-p0"]

        holding = DeviceHolding("uid-p0", "main", "nvidia.com/gpu", 1, (second,))
        rig.cache.put_hardware("n1", NodeHardware(holdings=(holding,)))
        await rig.reconciler.reconcile("n1")
        held_now = (await rig.ledger()).allocations["uid-p0"]
        rig.cache.put_hardware("n1", None)
        await rig.reconciler.reconcile("n1")

        assert blocked.blocked == {first, second}
        assert [grant.card for grant in held_now.grants] == [second]
        assert (held_now.dialect, held_now.blocked) == (KUBELET, frozenset())
        assert (await rig.ledger()).allocations["uid-p0"] == held_now
        assert (rig.pods.writes, rig.reconciler.drifting) == (0, 0)

    asyncio.run(tried())


def test_a_node_whose_agent_comes_and_goes_gives_no_card_twice() -> None:
    """A plain pod runs before the first report, and a share when the agent is taken away."""

    async def tried() -> None:
        rig = await a_rig(a_node("n1", cards=0))
        plain = bound(read_pod(a_pod("plain", limits={"nvidia.com/gpu": 1})), "n1")
        share = read_pod(a_pod("share"))
        cards = tuple(replace(c, dialects=frozenset({"volcano"})) for c in NODE.cards)
        holding = DeviceHolding("uid-plain", "main", "nvidia.com/gpu", 1, (cards[0].uuid,))
        rig.see(plain)
        await rig.reconciler.reconcile("n1")
        assert (await rig.ledger()).allocations == {}
        before = await rig.store.read("n1")

        rig.cache.put_hardware("n1", NodeHardware(cards))
        await rig.reconciler.reconcile("n1")
        # In one write, so that no share is committed between the cards and the pod.
        after = await rig.store.read("n1")
        assert before is not None
        assert after is not None
        assert int(after.version) == int(before.version) + 1
        assert placed(share, await rig.ledger()) is None
        rig.cache.put_hardware("n1", NodeHardware(cards, holdings=(holding,)))
        await rig.reconciler.reconcile("n1")
        placement = await committed(rig, share)
        assert [grant.card for grant in placement.grants] == [cards[1].uuid]
        rig.see(bound(share, "n1"))

        rig.cache.put_hardware("n1", None)
        await rig.reconciler.reconcile("n1")
        left = await rig.ledger()
        assert left.node.cards == ()
        assert {*left.allocations} == {"uid-plain", "uid-share"}
        assert placed(read_pod(a_pod("late", limits={"nvidia.com/gpu": 1})), left) is None

    asyncio.run(tried())


def test_an_assignment_of_the_kubelet_does_not_count_for_a_new_pod_of_the_same_name() -> None:
    async def tried() -> None:
        rig = await a_rig()
        holding = DeviceHolding("uid-p0", "main", "nvidia.com/gpu", 1, (NODE.cards[0].uuid,))
        rig.cache.put_hardware("n1", NodeHardware(holdings=(holding,)))
        pod = bound(read_pod(a_pod("p0", limits={"nvidia.com/gpu": 1})), "n1")
        metadata = msgspec.structs.replace(pod.metadata, uid="another")

        rig.see(msgspec.structs.replace(pod, metadata=metadata))
        await rig.reconciler.reconcile("n1")

        (found,) = (await rig.ledger()).allocations.values()
        assert found.blocked == {card.uuid for card in NODE.cards}

    asyncio.run(tried())


def test_the_ledger_of_a_deleted_node_is_deleted_when_it_has_no_allocation() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.drop_node(a_node("n1").metadata)

        assert await rig.reconciler.reconcile("n1")

        assert await rig.store.read("n1") is None
        assert await rig.reconciler.reconcile("n1")

    asyncio.run(tried())


def test_a_concurrent_write_is_a_conflict_and_the_next_attempt_succeeds() -> None:
    async def tried() -> None:
        rig = await a_rig(a_node("n1", cards=3))
        rig.store.races = 1  # type: ignore[attr-defined]

        with pytest.raises(Conflict):
            await rig.reconciler.reconcile("n1")
        assert await rig.reconciler.reconcile("n1")

        assert len((await rig.ledger()).node.cards) == 3

    asyncio.run(tried())


@pytest.mark.parametrize("turns", range(5))
def test_a_reconciler_that_is_woken_just_before_it_is_cancelled_ends(turns: int) -> None:
    async def main() -> None:
        rig = await a_rig()
        running = asyncio.create_task(rig.reconciler.run())
        await settled()
        rig.reconciler.look_at("n1")
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()

        await settled()

        assert running.cancelled(), "it would go on without the Lease"

    run_settling(main())


def test_many_nodes_are_described_concurrently_up_to_the_limit() -> None:
    class SlowStore(MemoryStore):
        writing = most = 0

        async def write(self, ledger: NodeLedger, expected: str | None) -> str:
            self.writing += 1
            self.most = max(self.most, self.writing)
            await asyncio.sleep(0.001)
            self.writing -= 1
            return await super().write(ledger, expected)

    async def main() -> tuple[int, int]:
        rig, store = await a_rig(), SlowStore()
        names = [f"m{number}" for number in range(100)]
        for name in names:
            rig.cache.put_node(a_node(name))
        made = Reconciler(
            (await a_service()).service, rig.cache, store, rig.pods, RecordingDecisionLog()
        )

        async def all_are_described() -> bool:
            return len(await store.load()) >= len(names)

        running = asyncio.create_task(made.run())
        await until(all_are_described)
        running.cancel()
        return len(await store.load()), store.most

    described, most = asyncio.run(main())

    assert described >= 100
    assert most == LIMIT


def test_no_request_is_sent_where_the_watches_agree() -> None:
    class CountingStore(MemoryStore):
        reads = 0

        async def read(self, node: str) -> Stored | None:
            self.reads += 1
            return await super().read(node)

    async def main() -> list[int]:
        bench, cache, store = (
            await a_service(a_node("n1")),
            ClusterCache(),
            CountingStore(),
        )
        made = Reconciler(bench.service, cache, store, FakePods(), RecordingDecisionLog())
        kube = a_node("n1")
        cache.put_node(kube)
        running = asyncio.create_task(made.run())
        seen: list[int] = []
        for step in ("agrees", "other cards", "another pod"):
            if step == "other cards":
                cache.put_node(a_node("n1", cards=3))
            elif step == "another pod":
                cache.put_node(kube)
                stored = bench.service.ledgers.stored("n1")
                assert stored is not None
                ledger = stored.ledger.adopt(replace(held(a_grant("x")), node="n1"))
                bench.service.ledgers.apply(Change("n1", Stored(ledger, "2")))
            before = store.reads
            bench.clock.time += int(REST * SECOND)
            made.look_at("n1")
            for _ in range(100):
                await asyncio.sleep(0)
            seen.append(store.reads - before)
        running.cancel()
        return [min(count, 1) for count in seen]

    assert asyncio.run(main()) == [0, 1, 1]


def counted_looks(rig: Rig) -> list[str]:
    """The nodes that the reconciler looks at from now on."""
    looks, process = list[str](), rig.reconciler.process

    async def counted(name: str) -> None:
        looks.append(name)
        await process(name)

    rig.reconciler.process = counted  # type: ignore[method-assign]
    return looks


def test_a_node_that_changes_again_and_again_is_looked_at_once_in_its_rest() -> None:
    async def tried() -> None:
        rig = await a_rig()
        looks = counted_looks(rig)
        running = asyncio.create_task(rig.reconciler.run())
        await until(lambda: len(looks) == 1)
        for number in range(20):
            rig.clock.time += int(REST * SECOND / 25)
            rig.see(bound(a_wish(number), "n1"))
            rig.reconciler.look_at("n1")
            await asyncio.sleep(0)
        assert len(looks) == 1
        rig.clock.time += int(REST * SECOND)
        await until(lambda: len(looks) == 2)
        assert len((await rig.ledger()).allocations) == 20
        running.cancel()

    asyncio.run(tried())


def test_a_node_is_looked_at_when_a_pod_ends_although_it_rests() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.cache.subscribe_to_ends(rig.reconciler.look_at_once)
        looks = counted_looks(rig)
        running = asyncio.create_task(rig.reconciler.run())
        rig.see(bound(a_wish(0), "n1"))
        await until(lambda: len(looks) == 1)
        rig.reconciler.look_at("n1")
        rig.cache.drop_pod(rig.pods.there.pop("p0").metadata)
        await until(lambda: len(looks) == 2)
        running.cancel()

    asyncio.run(tried())


def test_pods_of_a_ledger_are_asked_about_a_few_at_a_time() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pods = [bound(a_wish(number), "n1") for number in range(AT_ONCE + 1)]
        rig.see(*pods)
        await rig.reconciler.reconcile("n1")
        for pod in pods:
            rig.cache.drop_pod(pod.metadata)
        now, most = 0, 0
        get = rig.pods.get

        async def counted(pod: PodRef) -> Pod | None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return await get(pod)

        rig.pods.get = counted  # type: ignore[method-assign]
        await rig.reconciler.reconcile("n1")
        assert most == AT_ONCE

    asyncio.run(tried())


def test_a_pod_whose_binding_the_watch_has_not_seen_costs_no_request_within_the_grace() -> None:
    async def tried() -> None:
        rig = await a_rig()
        waiting, running = a_wish(0), a_wish(1)
        rig.see(waiting)
        await committed(rig, waiting)
        placement = await committed(rig, running)
        rig.see(bound(running, "n1", written(running, placement, NODE).annotations))
        rig.reconciler._service.ledgers.apply(Change("n1", await rig.store.read("n1")))

        for _ in range(2):
            await rig.reconciler.process("n1")
            assert rig.pods.reads == 0
            assert rig.reconciler._queue.due() == []
            rig.clock.time += int(AGAIN * SECOND)
            assert rig.reconciler._queue.due() == ["n1"]

        rig.clock.time += GRACE * SECOND
        await rig.reconciler.process("n1")
        assert rig.pods.reads == 1
        assert [*(await rig.ledger()).allocations] == [running.metadata.uid]

    asyncio.run(tried())


@pytest.mark.parametrize("where", [None, "n2", "another uid"])
def test_the_server_is_asked_about_a_pod_that_the_watch_does_not_know_as_unbound(
    where: str | None,
) -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        if where == "another uid":
            metadata = msgspec.structs.replace(pod.metadata, uid="other")
            rig.see(msgspec.structs.replace(pod, metadata=metadata))
        elif where is not None:
            rig.see(bound(pod, where, {}))
        rig.reconciler._service.ledgers.apply(Change("n1", await rig.store.read("n1")))

        await rig.reconciler.process("n1")

        assert rig.pods.reads == 1

    asyncio.run(tried())


def test_an_invalid_description_of_cards_is_reported_once_for_each_change() -> None:
    async def tried() -> None:
        rig = await a_rig()
        invalid = {"volcano.sh/node-vgpu-register": "GPU-0,ten,8192,NVIDIA,true,hami-core:"}
        for _ in range(2):
            node = a_node("n1")
            metadata = msgspec.structs.replace(node.metadata, annotations=invalid)
            rig.cache.put_node(msgspec.structs.replace(node, metadata=metadata))
            await rig.reconciler.reconcile("n1")
        rig.cache.put_node(a_node("n1"))
        await rig.reconciler.reconcile("n1")

        ((node_name, problem),) = rig.reporter.problems
        assert node_name == "n1"
        assert "ten" in problem

    asyncio.run(tried())
