"""The reconciler's decision over any state of one node, and its runner over a store."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.adopt import adopt
from adapters.dialects.dialect import Result
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialect_of
from adapters.sidecar.decide.service import SECOND
from adapters.sidecar.reconcile.cluster_cache import ClusterCache
from adapters.sidecar.reconcile.concurrency import ABREAST
from adapters.sidecar.reconcile.controller import GRACE, Reconciler
from adapters.sidecar.reconcile.plan import (
    Adopt,
    Annotate,
    Describe,
    NodeView,
    Release,
    ReleaseCause,
    Repair,
    drift,
    reconcile,
    repaired,
)
from adapters.sidecar.tests.builders import (
    DIALECTS,
    FakeClock,
    RecordingDecisionLog,
    a_node,
    a_pod,
    a_service,
    read_pod,
)
from adapters.stores.memory import MemoryStore
from adapters.stores.store import Change, Conflict, Stored
from adapters.wire.hardware import KUBELET, DeviceHolding, NodeHardware
from adapters.wire.kube import KubeNode, Pod, annotations
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.pod_ref import PodRef
from core.tests.builders import a_grant, held

NODE = read_node(a_node("n1"), None, DIALECTS)[0]
SMALLER = read_node(a_node("n1", cards=1), None, DIALECTS)[0]
WISHES = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 2000},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 30},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 8192, "volcano.sh/vgpu-cores": 100},
)
GARBLED = {"volcano.sh/vgpu-ids-new": "?", "volcano.sh/vgpu-node": "n1"}


def a_wish(number: int) -> Pod:
    return read_pod(a_pod(f"p{number}", limits=WISHES[number % len(WISHES)]))


def placed(pod: Pod, ledger: NodeLedger) -> Placement | None:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    found = fit(dialect.read_request(pod), ledger)
    return found if isinstance(found, Placement) else None


def allocated(pod: Pod, placement: Placement) -> Allocation:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    return Allocation.of(dialect.read_request(pod), placement)


def written(pod: Pod, placement: Placement, node: Node) -> Result:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    return dialect.write_result(pod, dialect.read_request(pod), placement, node, 7)


def bound(pod: Pod, node: str, said: Mapping[str, str] | None = None, phase: str = "") -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    status = msgspec.structs.replace(pod.status, phase=phase or "Running")
    metadata = msgspec.structs.replace(
        pod.metadata, annotations={**annotations(pod), **(said or {})}
    )
    return msgspec.structs.replace(pod, spec=spec, status=status, metadata=metadata)


@st.composite
def views(draw: st.DrawFn) -> NodeView:
    """Any record, any pods: each in the record or not, bound or not, saying this or that."""
    ledger = NodeLedger.of(NODE)
    pods: list[Pod] = []
    where: dict[str, str] = {}
    overdue: set[str] = set()
    for number in range(draw(st.integers(0, 6))):
        pod = a_wish(number)
        uid = pod.metadata.uid
        placement = placed(pod, ledger)
        in_record = draw(st.sampled_from(("no", "yes", "yes", "unread")))
        if placement is not None and in_record == "yes":
            ledger = ledger.reserve(allocated(pod, placement)).commit(uid)
        elif in_record == "unread":
            unread = adopt(bound(pod, "n1", GARBLED), NODE, DIALECTS)
            assert unread is not None
            ledger = ledger.adopt(unread)
        match draw(st.sampled_from(("here", "here", "here", "there", "nowhere", "gone"))):
            case "here":
                says = draw(st.sampled_from(("right", "wrong", "garbled", "nothing")))
                other = placed(pod, NodeLedger.of(NODE))
                assert other is not None
                chosen = placement if says == "right" and placement else other
                said = written(pod, chosen, NODE).annotations
                said = {"garbled": GARBLED, "nothing": {}}.get(says, said)
                phase = draw(st.sampled_from(("Pending", "Running")))
                pods.append(bound(pod, "n1", said, phase))
                where[uid] = "n1"
            case "there":
                where[uid] = "n2"
            case "nowhere":
                where[uid] = ""
                if draw(st.booleans()):
                    overdue.add(uid)
            case _:
                pass
    node = draw(st.sampled_from((NODE, NODE, SMALLER, None)))
    return NodeView(ledger, node, tuple(pods), where, frozenset(overdue), 9)


def carried_out(view: NodeView, repairs: tuple[Repair, ...]) -> NodeView:
    says = {r.pod.metadata.uid: r.result.annotations for r in repairs if isinstance(r, Annotate)}
    pods = tuple(
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata,
                annotations={**annotations(pod), **says.get(pod.metadata.uid, {})},
            ),
        )
        for pod in view.pods
    )
    return replace(view, ledger=repaired(view.ledger, repairs), pods=pods)


@given(views())
def test_after_one_reconcile_nothing_is_leaked_and_every_bound_pod_is_in_the_record(
    view: NodeView,
) -> None:
    after = carried_out(view, reconcile(view, DIALECTS)).ledger

    here = {pod.metadata.uid for pod in view.pods}
    waiting = {uid for uid, node in view.bound.items() if node == "" and uid not in view.overdue}
    assert here <= after.allocations.keys() <= here | waiting
    assert after.node == (view.node or view.ledger.node)


@given(views())
def test_a_second_reconcile_does_nothing(view: NodeView) -> None:
    after = carried_out(view, reconcile(view, DIALECTS))

    assert reconcile(after, DIALECTS) == ()
    assert drift(after.ledger, after.pods, DIALECTS) == drift(after.ledger, after.pods, DIALECTS)


@given(views())
def test_nothing_is_over_booked_but_by_what_pods_say_that_were_bound_by_others(
    view: NodeView,
) -> None:
    repairs = reconcile(view, DIALECTS)
    strangers = {r.allocation.uid for r in repairs if isinstance(r, Adopt)}
    known = {pod.metadata.uid for pod in view.pods} & view.ledger.allocations.keys() - strangers

    after = carried_out(view, repairs).ledger

    own = NodeLedger.of(after.node)
    for uid in known:
        if after.allocations[uid].unread is None and view.node != SMALLER:
            own = own.reserve(replace(after.allocations[uid], node="n1"))
    assert own.problems() == ()


@given(views())
def test_a_bound_pod_that_the_record_knows_says_so_or_is_reported(view: NodeView) -> None:
    after = carried_out(view, reconcile(view, DIALECTS))

    told = {problem.pod for problem in drift(after.ledger, after.pods, DIALECTS)}
    for pod in after.pods:
        known = after.ledger.allocations[pod.metadata.uid]
        if known.unread is None and known.pod not in told:
            found = adopt(pod, after.ledger.node, DIALECTS)
            assert found is not None
            assert {*found.grants} == {*known.grants}


def test_a_running_pod_is_given_only_the_annotations_that_its_record_needs() -> None:
    pod = a_wish(0)
    placement = placed(pod, NodeLedger.of(NODE))
    assert placement is not None
    ledger = NodeLedger.of(NODE).reserve(allocated(pod, placement)).commit(pod.metadata.uid)

    def told(phase: str) -> frozenset[str]:
        here = bound(pod, "n1", phase=phase)
        view = NodeView(ledger, NODE, (here,), {pod.metadata.uid: "n1"})
        (repair,) = reconcile(view, DIALECTS)
        assert isinstance(repair, Annotate)
        return frozenset(repair.result.annotations)

    assert "volcano.sh/bind-phase" in told("Pending")
    assert told("Running") < told("Pending")
    assert "volcano.sh/bind-phase" not in told("Running")


def test_an_unread_pod_blocks_a_card_that_comes_later_too() -> None:
    pod = bound(a_wish(0), "n1")
    unread = adopt(pod, SMALLER, DIALECTS)
    assert unread is not None
    view = NodeView(NodeLedger.of(SMALLER).adopt(unread), NODE, (pod,), {pod.metadata.uid: "n1"})

    after = repaired(view.ledger, reconcile(view, DIALECTS))

    assert after.allocations[pod.metadata.uid].blocked == {card.uuid for card in NODE.cards}


def test_why_cards_are_taken_back_is_told() -> None:
    ledger = NodeLedger.of(NODE)
    for number in (0, 4, 8):
        pod = a_wish(number)
        placement = placed(pod, ledger)
        assert placement is not None
        ledger = ledger.reserve(allocated(pod, placement)).commit(pod.metadata.uid)
    view = NodeView(ledger, NODE, (), {"uid-p4": "n2", "uid-p8": ""}, frozenset({"uid-p8"}))

    found = [(r.allocation.uid, r.why) for r in reconcile(view, DIALECTS) if isinstance(r, Release)]

    assert found == [
        ("uid-p0", ReleaseCause.GONE),
        ("uid-p4", ReleaseCause.ELSEWHERE),
        ("uid-p8", ReleaseCause.NEVER_BOUND),
    ]


def test_other_cards_are_described() -> None:
    assert reconcile(NodeView(NodeLedger.of(NODE), SMALLER, (), {}), DIALECTS) == (
        Describe(SMALLER),
    )


# --- the runner -----------------------------------------------------------------------------------


@dataclass
class FakePods:
    """An API server's pods."""

    there: dict[str, Pod] = field(default_factory=dict)
    writes: int = 0

    async def get(self, pod: PodRef) -> Pod | None:
        assert pod.namespace == "default"
        return self.there.get(pod.name)

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,  # noqa: ARG002
    ) -> None:
        self.writes += 1
        said = {key: value for key, value in annotations.items() if value is not None}
        found = self.there[pod.name]
        self.there[pod.name] = bound(
            found, found.spec.node_name or "", said, found.status.phase or ""
        )


@dataclass
class FakeWitness:
    counts: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)

    def repaired(self, kind: str) -> None:
        self.counts.append(kind)

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:  # noqa: ARG002
        self.events.append((pod.metadata.name, reason))

    def of_node(self, node: str, reason: str, text: str) -> None:  # noqa: ARG002
        self.events.append((node, reason))


@dataclass
class Rig:
    """A reconciler with what is around it."""

    reconciler: Reconciler
    mirror: ClusterCache
    store: MemoryStore
    pods: FakePods
    witness: FakeWitness
    clock: FakeClock

    def see(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods.there[pod.metadata.name] = pod
            self.mirror.put_pod(pod)

    async def ledger(self) -> NodeLedger:
        stored = await self.store.read("n1")
        assert stored is not None
        return stored.ledger


async def a_rig(node: KubeNode | None = None) -> Rig:
    bench = await a_service(a_node("n1"))
    mirror = ClusterCache()
    pods, witness = FakePods(), FakeWitness()
    made = Reconciler(
        bench.service, mirror, bench.store, pods, RecordingDecisionLog(), witness=witness
    )
    mirror.put_node(node or a_node("n1"))
    return Rig(made, mirror, bench.store, pods, witness, bench.clock)


async def committed(rig: Rig, pod: Pod) -> Placement:
    ledger = await rig.ledger()
    placement = placed(pod, ledger)
    assert placement is not None
    stored = await rig.store.read("n1")
    assert stored is not None
    changed = ledger.reserve(allocated(pod, placement)).commit(pod.metadata.uid)
    await rig.store.write(changed, stored.version)
    return placement


def test_what_never_was_bound_is_released_after_the_grace_and_not_before() -> None:
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
        assert rig.witness.events == [("p0", "CardsReleased")]
        assert rig.witness.counts == ["never_bound"]

    asyncio.run(tried())


def test_what_is_gone_is_released_at_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        await committed(rig, a_wish(0))

        assert await rig.reconciler.reconcile("n1")

        assert not (await rig.ledger()).allocations
        assert rig.witness.counts == ["gone"]

    asyncio.run(tried())


def test_a_pod_that_lost_its_annotations_gets_them_again_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = a_wish(0)
        await committed(rig, pod)
        rig.see(bound(pod, "n1"))

        assert await rig.reconciler.reconcile("n1")
        assert await rig.reconciler.reconcile("n1")  # the mirror has not seen it yet

        assert rig.pods.writes == 1
        assert rig.witness.events == [("p0", "CardsAnnotated")]
        found = adopt(rig.pods.there["p0"], NODE, DIALECTS)
        assert found is not None
        assert found.grants == (await rig.ledger()).allocations["uid-p0"].grants

    asyncio.run(tried())


def test_a_pod_without_a_record_blocks_cards_and_is_told_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.see(bound(a_wish(0), "n1"))

        for _ in range(3):
            await rig.reconciler.reconcile("n1")

        assert rig.witness.events == [("p0", "CardsUnknown"), ("n1", "LedgerDrift")]
        assert rig.reconciler.drifting == 1
        rig.mirror.drop_pod(rig.pods.there.pop("p0").metadata)
        await rig.reconciler.reconcile("n1")
        assert rig.reconciler.drifting == 0

    asyncio.run(tried())


def test_a_pod_of_nvidias_plugin_holds_what_the_kubelet_tells_and_keeps_it() -> None:
    async def tried() -> None:
        rig = await a_rig()
        pod = bound(read_pod(a_pod("p0", limits={"nvidia.com/gpu": 1})), "n1")
        rig.see(pod)
        first, second = (card.uuid for card in NODE.cards)
        await rig.reconciler.reconcile("n1")
        blocked = (await rig.ledger()).allocations["uid-p0"]

        told = DeviceHolding("uid-p0", "main", "nvidia.com/gpu", 1, (second,))
        rig.mirror.put_hardware("n1", NodeHardware(holdings=(told,)))
        await rig.reconciler.reconcile("n1")
        held_now = (await rig.ledger()).allocations["uid-p0"]
        rig.mirror.put_hardware("n1", None)
        await rig.reconciler.reconcile("n1")

        assert blocked.blocked == {first, second}
        assert [grant.card for grant in held_now.grants] == [second]
        assert (held_now.dialect, held_now.blocked) == (KUBELET, frozenset())
        assert (await rig.ledger()).allocations["uid-p0"] == held_now
        assert (rig.pods.writes, rig.reconciler.drifting) == (0, 0)

    asyncio.run(tried())


def test_what_the_kubelet_told_of_a_pod_says_nothing_of_the_next_one_of_its_name() -> None:
    async def tried() -> None:
        rig = await a_rig()
        told = DeviceHolding("uid-p0", "main", "nvidia.com/gpu", 1, (NODE.cards[0].uuid,))
        rig.mirror.put_hardware("n1", NodeHardware(holdings=(told,)))
        pod = bound(read_pod(a_pod("p0", limits={"nvidia.com/gpu": 1})), "n1")
        metadata = msgspec.structs.replace(pod.metadata, uid="another")

        rig.see(msgspec.structs.replace(pod, metadata=metadata))
        await rig.reconciler.reconcile("n1")

        (found,) = (await rig.ledger()).allocations.values()
        assert found.blocked == {card.uuid for card in NODE.cards}

    asyncio.run(tried())


def test_the_record_of_a_node_that_is_gone_is_deleted_when_nobody_holds_cards_of_it() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.mirror.drop_node(a_node("n1").metadata)

        assert await rig.reconciler.reconcile("n1")

        assert await rig.store.read("n1") is None
        assert await rig.reconciler.reconcile("n1")

    asyncio.run(tried())


def test_somebody_who_writes_between_makes_it_look_again() -> None:
    async def tried() -> None:
        rig = await a_rig(a_node("n1", cards=3))
        rig.store.races = 1  # type: ignore[attr-defined]

        with pytest.raises(Conflict):
            await rig.reconciler.reconcile("n1")
        assert await rig.reconciler.reconcile("n1")

        assert len((await rig.ledger()).node.cards) == 3

    asyncio.run(tried())


@pytest.mark.parametrize("turns", range(5))
def test_a_reconciler_that_is_woken_just_before_its_end_ends(turns: int) -> None:
    async def main() -> None:
        rig = await a_rig()
        running = asyncio.create_task(rig.reconciler.run())
        await asyncio.sleep(0.05)
        rig.reconciler.look_at("n1")
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()

        await asyncio.wait({running}, timeout=2)

        assert running.cancelled(), "it would work on after its Lease is another's"

    asyncio.run(main())


def test_many_nodes_are_described_side_by_side_and_not_too_many_of_them() -> None:
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
            rig.mirror.put_node(a_node(name))
        made = Reconciler(
            (await a_service()).service, rig.mirror, store, rig.pods, RecordingDecisionLog()
        )
        running = asyncio.create_task(made.run())
        while len(await store.load()) < len(names):
            await asyncio.sleep(0.001)
        running.cancel()
        return len(await store.load()), store.most

    described, most = asyncio.run(asyncio.wait_for(main(), 30))

    assert described >= 100
    assert most == ABREAST


def test_where_the_watches_agree_nobody_is_asked() -> None:
    class CountingStore(MemoryStore):
        reads = 0

        async def read(self, node: str) -> Stored | None:
            self.reads += 1
            return await super().read(node)

    async def main() -> list[int]:
        bench, mirror, store = (
            await a_service(a_node("n1")),
            ClusterCache(),
            CountingStore(),
        )
        made = Reconciler(bench.service, mirror, store, FakePods(), RecordingDecisionLog())
        kube = a_node("n1")
        mirror.put_node(kube)
        running = asyncio.create_task(made.run())
        seen: list[int] = []
        for step in ("agrees", "other cards", "a stranger"):
            if step == "other cards":
                mirror.put_node(a_node("n1", cards=3))
            elif step == "a stranger":
                mirror.put_node(kube)
                stored = bench.service.ledgers.stored("n1")
                assert stored is not None
                ledger = stored.ledger.adopt(replace(held(a_grant("x")), node="n1"))
                bench.service.ledgers.apply(Change("n1", Stored(ledger, "2")))
            before = store.reads
            made.look_at("n1")
            for _ in range(100):
                await asyncio.sleep(0)
            seen.append(store.reads - before)
        running.cancel()
        return [min(count, 1) for count in seen]

    assert asyncio.run(main()) == [0, 1, 1]
