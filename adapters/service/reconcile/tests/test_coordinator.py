"""A plan is carried out by turns, or stops at the first surprise; no other pod gets its places."""

from dataclasses import replace

import msgspec
import pytest

from adapters.service.reconcile.move_coordinator import SILENCE
from adapters.service.reconcile.tests.moved_cluster import (
    Moved,
    on,
    owned,
    small_on_both,
    up_to,
)
from adapters.service.reconcile.tests.preempted_cluster import rejected
from adapters.service.tests.builders import a_node, a_pod
from adapters.wire.records.move_plan import MovePhase, MovePlanSpec, PlannedTarget, TargetKind
from core.durations import SECOND


def test_a_pod_moves_and_the_one_that_waits_gets_its_place() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))

        assert await moved.look() == "Held"
        assert moved.kept() == ["n1: default/big", "n2: default/web-1"]
        assert moved.rig.evictor.evicted == []
        await moved.mover_acts()
        assert await moved.look() == "Evict"
        await moved.mover_acts()
        moved.create(owned(a_pod("web-2", memory=1000)))

        assert await moved.rig.ask(owned(a_pod("web-2", memory=1000)), "n1", "n2") == ["n2"]
        assert await moved.bind("web-2", "n2") == ""
        assert await moved.look() == "Evicted"  # it is not ready yet
        moved.ready("web-2")
        assert await moved.look() == "Ready"
        assert await moved.look() == "Placing"
        await moved.rig.bench.service.release("uid-web-1")  # as the reconciler does
        assert await moved.look() == "Placing"
        assert moved.rig.holders("n1") == ["big"]
        assert await moved.rig.ask(rejected("big", memory=8000), "n1", "n2") == ["n1"]
        assert await moved.bind("big", "n1") == ""
        assert await moved.look() == "Finished"

        (step,) = moved.plans.status().steps
        assert (step.replacement, step.skipped) == ("web-2", False)
        assert [reason for reason, _ in moved.events] == ["PlacesHeld", "PlanFinished"]
        recorded = [
            (each.outcome.value, each.pod, each.node)
            for each in moved.rig.bench.decision_log.decisions
            if each.verb == "move"
        ]
        assert recorded == [("held", "default/web-1", "n2"), ("bound", "default/web-1", "n2")]
        assert (moved.rig.holders("n1"), moved.rig.holders("n2")) == (["big"], ["other-1", "web-2"])
        assert moved.kept() == []
        assert moved.rig.bench.service.ledgers.record("n2").holds == ()


def test_no_other_pod_gets_a_place_that_is_kept() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await moved.look()

        # 7,192 MiB are free on each card: beside what is kept, 6,192 of n2 and nothing of n1.
        thief = a_pod("thief", memory=6500)
        moved.create(thief)
        assert await moved.rig.ask(thief, "n1", "n2") == []
        assert await moved.bind("thief", "n2") != ""
        assert await moved.rig.ask(a_pod("small", memory=100), "n1", "n2") == ["n2"]


def test_a_place_is_given_only_once_the_pods_before_it_have_left() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        moved.plans.create("plan", spec)
        await up_to(moved, MovePhase.EVICTED)
        again = owned(a_pod("web-2", memory=1000))
        moved.create(again)
        assert await moved.rig.ask(again, "n1") == []  # n2, where its place is, is not possible
        assert await moved.bind("web-2", "n2") == ""
        moved.ready("web-2")
        await moved.look(3)
        # The containers of web-1 may still run: its cards are not the waiting pod's yet.
        assert moved.phase == "Placing"
        assert moved.rig.holders("n1")[0] == "web-1"
        assert await moved.rig.ask(rejected("big", memory=8000), "n1", "n2") == []


def test_cards_of_a_place_whose_bind_fails_are_kept_on() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        again = owned(a_pod("web-2", memory=1000))
        moved.create(again)
        service = moved.rig.bench.service
        found = service.pod_requests.read(moved.rig.pod("web-2"))
        assert found is not None
        await service.committer.commit(found, "n2")
        assert moved.kept() == ["n1: default/big"]

        await service.committer.release("uid-web-2", "n2")

        assert moved.kept() == ["n1: default/big", "n2: default/web-1"]
        assert await moved.rig.ask(again, "n1", "n2") == ["n2"]


@pytest.mark.parametrize("seconds", [599, 601])
def test_a_plan_whose_pod_does_not_come_back_in_time_stops(seconds: int) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.stays = True
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        await moved.look()

        moved.rig.sleep(seconds)

        assert await moved.look() == ("Stopped" if seconds > 600 else "Evicted")
        if seconds > 600:
            why = "no pod of ReplicaSet default/web has come after 600 s"
            assert moved.plans.status().reason == why
            assert moved.kept() == []


@pytest.mark.parametrize("ahead", [-900, 900, -7200])
def test_a_plan_waits_as_long_as_it_says_whatever_the_movers_clock_says(ahead: int) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.stays, moved.mover_ahead = True, ahead
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        assert await moved.look() == "Evicted"
        moved.rig.sleep(600)
        assert await moved.look() == "Evicted"
        moved.rig.sleep(1)

        assert await moved.look() == "Stopped"


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_plan_waits_as_long_as_it_says_though_the_leaders_clock_jumps(hours: int) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.stays = True
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        await moved.look()
        moved.rig.bench.clock.ahead = hours * 3600 * SECOND
        moved.rig.sleep(600)
        assert await moved.look() == "Evicted"
        moved.rig.sleep(1)

        assert await moved.look() == "Stopped"


@pytest.mark.parametrize("ahead", [-900, 0, 900])
def test_a_sibling_that_was_there_before_is_not_taken_for_the_new_pod(ahead: int) -> None:
    """The clocks of the mover and of the node's kubelet may differ."""

    @on()
    async def _(moved: Moved) -> None:
        moved.stays, moved.mover_ahead = True, ahead
        spec = await small_on_both(moved)
        await moved.rig.run_pod(owned(a_pod("web-0", memory=100)), "n1")
        moved.ready("web-0")
        moved.plans.create("plan", spec)

        await up_to(moved, MovePhase.EVICTED)

        assert await moved.look() == "Evicted"


@pytest.mark.parametrize("phase", [MovePhase.HELD, MovePhase.EVICT, MovePhase.EVICTED])
def test_a_leader_that_carries_out_no_plans_leaves_what_those_of_others_hold(
    phase: MovePhase,
) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, phase)
        kept = moved.kept()
        assert kept

        moved.enabled, moved.stays = False, False
        assert await moved.look(3) == phase.value
        assert moved.kept() == kept
        moved.stays = True
        await moved.look()
        moved.rig.sleep(SILENCE)
        assert await moved.look() == phase.value
        moved.rig.sleep(1)

        assert await moved.look() == "Stopped"

        assert moved.kept() == []
        assert "moves.enabled is off" in moved.plans.status().reason


def test_what_a_plan_holds_is_released_though_its_status_cannot_be_written() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        moved.enabled, moved.plans.denied = False, {"plan"}
        await moved.look()
        moved.stays = True
        moved.rig.sleep(SILENCE + 1)

        assert await moved.look() == "Evicted"

        assert moved.kept() == []


def test_a_leader_that_may_not_list_plans_releases_nothing() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        kept = moved.kept()
        moved.plans.unlisted = OSError("403 Forbidden")
        moved.enabled = False

        await moved.look_only()

        assert moved.kept() == kept


def test_a_leader_that_carries_out_no_plans_begins_none() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.enabled, moved.stays = False, True
        moved.coordinator = moved.a_coordinator()
        moved.plans.create("plan", await small_on_both(moved))
        await moved.look()
        moved.rig.sleep(SILENCE + 1)

        assert await moved.look() == MovePhase.NEW.value
        assert moved.kept() == []


def test_a_plan_whose_pod_goes_elsewhere_stops() -> None:
    @on(a_node("n1", cards=1), a_node("n2", cards=1), a_node("n3", cards=1))
    async def _(moved: Moved) -> None:
        moved.stays = True
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.EVICTED)
        moved.create(owned(a_pod("web-2", memory=1000)))
        moved.rig.sleep(2)

        assert await moved.bind("web-2", "n3") == ""  # its scheduler could not use n2
        moved.ready("web-2")

        assert await moved.look() == "Stopped"
        where = "default/web-2 went to n3, not to the place held on n2"
        assert moved.plans.status().reason == where
        # Its Event is in namespace default, and names no pod of another one.
        assert moved.events[-1] == ("PlanStopped", "Stopped at step 1; its status says why.")


def test_a_plan_is_not_begun_where_a_place_was_taken() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        await moved.run_pod("late-1", "n2", memory=7000)
        moved.plans.create("plan", spec)

        assert await moved.look() == "Stopped"

        assert "are not free any more: card GPU-n2-0 cannot take" in moved.plans.status().reason
        assert moved.kept() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"annotations": {"dragoman.dev/move": "false"}}, "its annotation dragoman.dev/move keeps"),
        ({"ownerReferences": []}, "no controller would create it again"),
        (
            {
                "ownerReferences": [
                    {"kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
                ]
            },
            "has another controller than the plan says",
        ),
    ],
)
def test_a_pod_that_must_not_be_moved_any_more_stops_the_plan(
    change: dict[str, object], why: str
) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.READY)
        pod = msgspec.to_builtins(moved.rig.pod("web-1"))
        moved.create({**pod, "metadata": {**pod["metadata"], **change}})

        assert await moved.look() == "Stopped"

        assert why in moved.plans.status().reason
        assert moved.rig.evictor.evicted == []


def test_a_pod_that_ended_before_its_turn_is_skipped() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await up_to(moved, MovePhase.READY)
        moved.rig.end("web-1")

        await moved.look(2)

        (step,) = moved.plans.status().steps
        assert step.skipped
        assert moved.phase == "Placing"


def test_a_forged_place_is_not_held() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        (move,) = spec.moves
        (grant,) = move.to.grants
        bigger = msgspec.structs.replace(grant, memory=grant.memory * 4)
        to = msgspec.structs.replace(move.to, grants=(bigger,))
        moved.plans.create("plan", MovePlanSpec((msgspec.structs.replace(move, to=to),)))

        assert await moved.look() == "Stopped"

        reason = moved.plans.status().reason
        assert reason == "default/web-1: its place on n2 is not what it requests"


def test_a_pod_whose_whole_card_the_ledger_chooses_is_moved_too() -> None:
    @on()
    async def _(moved: Moved) -> None:
        whole = a_pod("whole-1", limits={"nvidia.com/gpu": 1})
        for name in ("n1", "n2"):
            known = moved.rig.bench.service.ledgers.stored(name)
            assert known is not None
            ledger = known.ledger
            cards = [replace(c, dialects=frozenset({"koordinator"})) for c in ledger.node.cards]
            described = ledger.with_node(replace(ledger.node, cards=tuple(cards)))
            await moved.rig.bench.store.write(described, known.version)
        await moved.rig.bench.sync()
        await moved.rig.run_pod(owned(whole), "n1")
        moved.plans.create("plan", MovePlanSpec((moved.a_move("whole-1", "n2", "GPU-n2-0"),)))

        assert await moved.look() == "Held", moved.plans.status().reason


def test_plans_take_turns_by_age() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        moved.plans.create("plan", spec, "2026-01-02T00:00:00Z")
        moved.plans.create("older", spec, "2026-01-01T00:00:00Z")

        await moved.look(2)

        assert moved.plans.status("older").phase is MovePhase.HELD
        assert (moved.phase, moved.plans.status().reason) == ("Waiting", "waits for older")

        del moved.plans.by_name["older"]  # its operator stops it so
        await moved.look()
        assert moved.phase == "Held"
        holds = [
            hold.plan
            for n in ("n1", "n2")
            for hold in moved.rig.bench.service.ledgers.record(n).holds
        ]
        assert holds == ["uid-plan"] * 2


def test_a_plan_without_a_mover_stops() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.stays = True
        moved.plans.create("plan", await small_on_both(moved))
        await moved.look(2)
        moved.rig.sleep(SILENCE)
        assert await moved.look() == "Held"
        moved.rig.sleep(1)

        assert await moved.look() == "Stopped"

        assert moved.plans.status().reason == "no mover has said anything for 600 s"


def test_a_node_stays_empty_until_the_plan_ends() -> None:
    @on()
    async def _(moved: Moved) -> None:
        await moved.run_pod("web-1", "n1", memory=1000)
        move = moved.a_move("web-1", "n2", "GPU-n2-0")
        moved.plans.create(
            "plan", MovePlanSpec((move,), (PlannedTarget(TargetKind.NODE, "n1", 1),))
        )

        await up_to(moved, MovePhase.EVICTED)
        assert await moved.rig.ask(a_pod("thief", memory=10), "n1") == []
        again = owned(a_pod("web-2", memory=1000))
        moved.create(again)
        await moved.bind("web-2", "n2")
        moved.ready("web-2")
        await moved.look(3)

        assert moved.phase == "Finished"
        assert moved.kept() == []


@pytest.mark.parametrize(
    "status",
    [b'{"phase": "Evict", "step": 2}', b'{"phase": "Evicted"}', b'{"phase": "Nonsense"}', b"[]"],
)
def test_a_status_that_makes_no_sense_stops_its_plan(status: bytes) -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        plan = moved.plans.by_name["plan"]
        moved.plans.by_name["plan"] = msgspec.structs.replace(plan, status=msgspec.Raw(status))

        assert await moved.look() == "Stopped"

        assert "status" in moved.plans.status().reason


def test_a_write_that_another_process_made_first_changes_nothing() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        moved.plans.errors = [OSError("409 Conflict")]

        assert await moved.look() == ""
        assert await moved.look() == "Held"
        assert moved.kept() == ["n1: default/big", "n2: default/web-1"]


def test_what_a_plan_holds_is_released_where_plans_are_not_carried_out() -> None:
    @on()
    async def _(moved: Moved) -> None:
        moved.plans.create("plan", await small_on_both(moved))
        await moved.look()
        moved.plans.by_name.clear()

        await moved.coordinator.look()

        assert moved.kept() == []


def test_a_pod_for_which_room_was_made_keeps_its_cards_while_it_is_not_bound() -> None:
    @on()
    async def _(moved: Moved) -> None:
        spec = await small_on_both(moved)
        moved.plans.create("plan", spec)
        await up_to(moved, MovePhase.READY)
        moved.rig.end("web-1")
        await moved.rig.bench.service.release("uid-web-1")
        await moved.look(3)
        ledger = moved.rig.bench.service.ledgers.record("n1")
        first = ledger.allocations["uid-big"].attempt
        coordinator = moved.a_coordinator()
        await coordinator.look()
        await coordinator.look()
        moved.rig.bench.clock.time += 31 * SECOND

        await coordinator.look()

        ledger = moved.rig.bench.service.ledgers.record("n1")
        assert ledger.allocations["uid-big"].attempt > first
        moved.rig.sleep(601)
        await coordinator.look()
        assert moved.plans.status().reason == (
            "default/big not bound to the place that is held after 600 s"
        )
