"""What changes under a plan: no pod is evicted that would have no place, or for nothing."""

import dataclasses

import msgspec
import pytest

from adapters.service.reconcile.tests.moved_cluster import (
    Moved,
    on,
    owned,
    small_on_both,
    up_to,
)
from adapters.service.reconcile.tests.preempted_cluster import rejected
from adapters.service.tests.builders import Json, a_node, a_pod
from adapters.stores.store import StoredQuota
from adapters.wire.kube import NodeSpec, Taint
from adapters.wire.records.move_plan import MovePhase, MovePlanSpec, MoveStep
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaHold

THREE = (a_node("n1", cards=1), a_node("n2", cards=1), a_node("n3", cards=2))

CORDONED = NodeSpec(unschedulable=True)
AWAY = NodeSpec(taints=(Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),))


def change_node(moved: Moved, name: str, spec: NodeSpec) -> None:
    node = msgspec.structs.replace(a_node(name, cards=1), spec=spec)
    moved.rig.bench.cluster.kube_nodes[name] = node


def test_no_pod_is_evicted_whose_place_another_pod_took_while_the_mover_waited() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICT)
        moved.create(owned(a_pod("web-9", memory=1000)))
        assert await moved.bind("web-9", "n2") == ""

        assert await moved.look() == "Stopped"

        why = "another pod of ReplicaSet default/web has the place of move 1"
        assert moved.plans.status().reason == why


@pytest.mark.parametrize("phase", [MovePhase.READY, MovePhase.EVICT])
@pytest.mark.parametrize("spec", [CORDONED, AWAY])
def test_no_pod_is_evicted_whose_new_node_takes_none(spec: NodeSpec, phase: MovePhase) -> None:
    @on()
    async def _(moved: Moved) -> None:
        change_node(moved, "n2", NodeSpec())
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, phase)
        change_node(moved, "n2", spec)

        assert await moved.look() == "Stopped"

        assert moved.plans.status().reason.startswith("default/web-1 cannot run on n2: un")


@pytest.mark.parametrize("phase", [MovePhase.READY, MovePhase.EVICT])
@pytest.mark.parametrize("cards", [0, 1])
def test_no_pod_is_evicted_whose_quota_would_refuse_the_next_one(
    cards: int, phase: MovePhase
) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, phase)
        hold = QuotaHold("uid-web-1", "default/web-1", "n1", QuotaAmounts(1000, 1000 << 20), 1)
        limits = QuotaLimits(cards=cards * 1000)  # it was lowered
        quota = Quota("default", limits, {hold.key: hold}, counted=True)
        moved.rig.bench.service.quotas.put(StoredQuota(quota, "1"))

        assert await moved.look() == ("Evict" if cards else "Stopped")

        if not cards:
            assert moved.plans.status().reason.startswith("default/web-1 would get no cards: quota")


def test_the_next_pod_of_one_that_ended_while_the_mover_waited_stops_no_plan() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICT)
        moved.rig.end("web-1")  # by hand
        moved.create(owned(a_pod("web-2", memory=1000)))
        assert await moved.bind("web-2", "n2") == ""

        assert await moved.look() == "Evict"


def test_what_the_mover_has_begun_is_not_stopped_under_its_hands() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICT)
        plan = moved.plans.by_name["plan"]
        begun = MoveStep(1, begun_at=moved.now(), mover="m")
        status = msgspec.structs.replace(moved.plans.status(), steps=(begun,))
        await moved.plans.write_status(plan, status)
        change_node(moved, "n2", CORDONED)

        assert await moved.look() == "Evict"


@pytest.mark.parametrize("bound", [True, False])
def test_no_pod_is_evicted_for_a_pod_that_waits_no_more(*, bound: bool) -> None:
    @on(*THREE)
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        moved.plans.create("plan", spec)
        await up_to(moved, MovePhase.READY)
        if bound:
            assert await moved.bind("big", "n3") == ""
        else:
            moved.rig.end("big")

        assert await moved.look(2) == "Finished"

        why = "moves 1 to 1 are left out: what they make room for is bound or gone"
        assert moved.plans.status().reason == why
        assert moved.events[-1] == ("PlanFinished", "All is done; 0 pods moved.")
        assert moved.kept() == []


def test_a_pod_of_another_namespace_stops_no_plan() -> None:
    @on(*THREE)
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        pod = owned(a_pod("web-2", memory=1000))
        metadata = {**pod["metadata"], "namespace": "tenant", "uid": "uid-forged"}
        spec = {**pod["spec"], "nodeName": "n3"}
        moved.rig.sleep(2)
        status = {"startTime": moved.now(), "phase": "Running"}
        moved.create({**pod, "metadata": metadata, "spec": spec, "status": status})

        assert await moved.look() == "Evicted"


def test_a_pod_is_not_kept_waiting_for_a_place_that_its_move_has_not_come_to() -> None:
    @on(*THREE)
    async def _(moved: Moved) -> None:
        await moved.run_pod("web-1", "n1", memory=5000)
        await moved.run_pod("old-1", "n2", memory=5000)
        moves = (
            moved.a_move("old-1", "n3", "GPU-n3-0"),
            moved.a_move("web-1", "n2", "GPU-n2-0"),
        )
        moved.plans.create("plan", MovePlanSpec(moves))
        await up_to(moved, MovePhase.EVICT)

        another = owned(a_pod("web-2", memory=5000))  # it was scaled up
        moved.create(another)

        assert await moved.rig.ask(another, "n1", "n2", "n3") == ["n3"]
        assert await moved.bind("web-2", "n3") == ""


def test_a_pod_waits_for_its_place_while_the_one_before_it_ends() -> None:
    @on()
    async def _(moved: Moved) -> None:
        await moved.run_pod("web-1", "n1", memory=5000)
        moves = (moved.a_move("web-1", "n1", "GPU-n1-0"),)  # the same place again
        moved.plans.create("plan", MovePlanSpec(moves))
        await up_to(moved, MovePhase.EVICT)
        moved.leaves("web-1")

        again = owned(a_pod("web-2", memory=5000))
        moved.create(again)

        assert await moved.rig.ask(again, "n1", "n2") == []
        moved.rig.end("web-1")
        await moved.rig.bench.service.release("uid-web-1")
        assert await moved.rig.ask(again, "n1", "n2") == ["n1"]


def test_a_pod_that_is_created_again_after_its_turn_has_its_place() -> None:
    @on()
    async def _(moved: Moved) -> None:
        def a_database() -> Json:
            return owned(a_pod("db-0", memory=1000), kind="StatefulSet")

        await moved.rig.run_pod(a_database(), "n1")
        await moved.rig.refuse(rejected("big", memory=8000), "n1", "n2")
        targets = (moved.a_target("big", "n1", "GPU-n1-0"),)
        moves = (moved.a_move("db-0", "n2", "GPU-n2-0"),)
        moved.plans.create("plan", MovePlanSpec(moves, targets))
        await up_to(moved, MovePhase.READY)
        moved.rig.end("db-0")  # by hand; the StatefulSet takes a moment
        await moved.look(2)
        await moved.rig.bench.service.release("uid-db-0")
        again = a_database()
        again["metadata"]["uid"] = "uid-again"
        moved.create(again)

        assert await moved.rig.ask(again, "n1", "n2") == ["n2"]
        assert moved.kept() == ["n1: default/big", "n2: default/db-0"]


@pytest.mark.parametrize("steps", [(1,), (1, 1), (2, 1)])
def test_steps_that_were_not_made_stop_a_plan(steps: tuple[int, ...]) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.READY)
        plan = moved.plans.by_name["plan"]
        status = msgspec.structs.replace(moved.plans.status(), steps=tuple(map(MoveStep, steps)))
        await moved.plans.write_status(plan, status)

        assert await moved.look() == "Stopped"

        assert "status.steps" in moved.plans.status().reason


def test_a_plan_whose_status_cannot_be_written_holds_up_no_other() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        for name, created in (("broken", "1"), ("plan", "2"), ("denied", "3")):
            moved.plans.create(name, spec, created)
        broken = moved.plans.by_name["broken"]
        spoiled = msgspec.Raw(b'{"phase": "Nonsense"}')
        moved.plans.by_name["broken"] = msgspec.structs.replace(broken, status=spoiled)
        moved.plans.denied = {"broken", "denied"}  # by a policy, each time

        assert await moved.look() == "Held"


def test_what_keeps_all_plans_from_being_carried_out_is_said_once() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.unlisted = OSError("403 Forbidden: moveplans")
        await moved.coordinator.look()
        await moved.coordinator.look()
        assert moved.failures == ["403 Forbidden: moveplans"]

        moved.plans.unlisted = None
        await moved.coordinator.look()
        moved.plans.unlisted = OSError("403 Forbidden: moveplans")
        await moved.coordinator.look()
        assert len(moved.failures) == 2


def test_a_plan_that_is_being_deleted_is_carried_out_no_more() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.READY)
        plan = moved.plans.by_name["plan"]
        going = msgspec.structs.replace(plan.metadata, deletion_timestamp=moved.now())
        moved.plans.by_name["plan"] = msgspec.structs.replace(plan, metadata=going)

        assert await moved.look() == "Ready"  # a finalizer keeps it
        assert moved.kept() == []


def test_nothing_is_preempted_for_a_pod_that_a_plan_makes_room_for() -> None:
    @on(*THREE)
    async def _(moved: Moved) -> None:
        for name in ("small-1", "small-2"):
            await moved.run_pod(name, "n3", memory=5000)
        spec = await small_on_both(moved)
        moved.plans.create("plan", spec)
        await moved.look()
        await moved.rig.refuse(rejected("big", memory=8000), "n1", "n2", "n3")

        await moved.rig.preemptor.round()
        assert moved.rig.evictor.evicted == []

        moved.plans.by_name.clear()
        await moved.look_only()
        await moved.rig.refuse(rejected("big", memory=8000), "n1", "n2", "n3")
        await moved.rig.preemptor.round()
        assert len(moved.rig.evictor.evicted) == 1


def test_no_plan_is_begun_where_the_definition_of_ledgers_keeps_no_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        store = moved.rig.bench.store
        write = store.write

        async def pruned(ledger: NodeLedger, expected: str | None) -> str:
            """Write as a server whose definition of NodeLedgers is older: it has no holds."""
            return await write(dataclasses.replace(ledger, holds=()), expected)

        monkeypatch.setattr(store, "write", pruned)

        assert await moved.look() == "Stopped"

        why = "NodeLedger n1 has no places that are kept: install configs/crd/nodeledgers.yaml"
        assert moved.plans.status().reason == why
