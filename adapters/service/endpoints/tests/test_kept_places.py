"""A pod whose place a plan of moves keeps goes there, whichever scheduler asks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from adapters.service.endpoints.tests import reviews
from adapters.service.endpoints.tests.kube_bodies import bind
from adapters.service.endpoints.tests.reviews import response
from adapters.service.endpoints.tests.test_volcano_extender import event, predicate
from adapters.service.endpoints.volcano_extender import VolcanoExtender
from adapters.service.reconcile.tests.moved_cluster import Moved, a_moved_cluster, owned
from adapters.service.tests.builders import Json, a_node, a_pod, decoded, read_pod
from adapters.wire.records.move_plan import MovePlanSpec
from adapters.wire.volcano import PredicateStatus

AGAIN = owned(a_pod("web-2", memory=1000))

Test = Callable[[Moved], Coroutine[Any, Any, None]]


def kept(test: Test) -> None:
    """Run a test where web-1 moves from n1 to n2; n3 is empty."""

    async def main() -> None:
        nodes = [a_node(name, cards=1) for name in ("n1", "n2", "n3")]
        moved = await a_moved_cluster(*nodes)
        await moved.run_pod("web-1", "n1", memory=1000)
        moved.plans.create("plan", MovePlanSpec((moved.a_move("web-1", "n2", "GPU-n2-0"),)))
        await moved.look()
        moved.create(AGAIN)
        await test(moved)

    asyncio.run(main())


def test_vc_scheduler_places_it_there_and_nowhere_else() -> None:
    @kept
    async def _(moved: Moved) -> None:
        extender = VolcanoExtender(moved.rig.bench.service)

        answers = {
            node: await decoded(extender.predicate(predicate(AGAIN, node)))
            for node in ("n1", "n2", "n3")
        }

        elsewhere = {"status": "its place is kept on node n2", "code": 3}
        assert answers == {"n1": elsewhere, "n2": {"status": "", "code": 0}, "n3": elsewhere}

        async def allocate(node: str) -> str:
            asked = event(AGAIN, node, PredicateStatus.ALLOCATED)
            text: str = (await decoded(extender.allocate(asked)))["errorMessage"]
            return text

        assert await allocate("n3") == "n3: its place is kept on node n2"
        assert await allocate("n2") == ""
        assert moved.rig.bench.service.ledgers.reservation_count() == 0  # it is kept already
        assert [each.cause for each in moved.rig.bench.decision_log.decisions[-2:]] == ["kept"] * 2


def test_vc_scheduler_waits_until_the_place_is_free() -> None:
    @kept
    async def _(moved: Moved) -> None:
        await moved.run_pod("late-1", "n3", memory=8000)
        moved.plans.by_name.clear()
        await moved.look_only()
        moves = (moved.a_move("late-1", "n2", "GPU-n2-0"), moved.a_move("web-1", "n3", "GPU-n3-0"))
        moved.plans.create("plan", MovePlanSpec(moves))
        assert await moved.look() == "Held"
        extender = VolcanoExtender(moved.rig.bench.service)

        answer = await decoded(extender.predicate(predicate(AGAIN, "n1")))
        assert answer["status"] == ""  # it need not wait for a step that is not made yet

        moved.leaves("late-1")
        answer = await decoded(extender.predicate(predicate(AGAIN, "n3")))
        assert answer["status"] == "its place is kept, and free once other pods have left"


def test_a_binding_to_another_node_is_rejected_and_one_to_the_place_gets_its_cards() -> None:
    @kept
    async def _(moved: Moved) -> None:
        async def reviewed(node: str) -> Json:
            return response(await reviews.bind(moved.rig.bench, "web-2", node))

        assert (await reviewed("n3"))["status"]["message"] == "its place is kept on node n2"
        assert (await reviewed("n2"))["allowed"]
        assert moved.rig.holders("n2") == ["web-2"]


def test_a_pod_of_a_stateful_set_gets_the_place_of_its_name_only() -> None:
    @kept
    async def _(moved: Moved) -> None:
        db = owned(a_pod("db-0", memory=500), "StatefulSet", "db")
        await moved.rig.run_pod(db, "n3")
        moved.plans.by_name.clear()
        await moved.look_only()
        moved.plans.create("plan", MovePlanSpec((moved.a_move("db-0", "n2", "GPU-n2-0"),)))
        await moved.look()

        other = owned(a_pod("db-1", memory=500), "StatefulSet", "db")
        assert await moved.rig.ask(other, "n1", "n2", "n3") == ["n1", "n2", "n3"]
        moved.rig.end("db-0")
        again = {**db, "metadata": {**db["metadata"], "uid": "uid-db-0-again"}}
        assert await moved.rig.ask(again, "n1", "n2", "n3") == ["n2"]
        moved.create(again)
        bound = await decoded(moved.rig.kube.bind(bind("db-0", "n2", "uid-db-0-again")))
        assert bound == {"Error": ""}


def test_a_pod_that_requests_something_else_is_free_to_go_anywhere() -> None:
    @kept
    async def _(moved: Moved) -> None:
        changed = owned(a_pod("web-3", memory=2000))
        assert await moved.rig.ask(changed, "n1", "n2", "n3") == ["n1", "n2", "n3"]


def test_nothing_is_evicted_for_a_pod_whose_place_is_kept() -> None:
    @kept
    async def _(moved: Moved) -> None:
        rejected, again = moved.rig.bench.service.rejected_pods, read_pod(AGAIN)
        found = moved.rig.bench.service.pod_requests.read(again)
        assert found is not None
        rejected.rejected(found, ["n1"], 0)

        assert await moved.rig.ask(AGAIN, "n1", "n2", "n3") == ["n2"]

        assert rejected.all() == []
