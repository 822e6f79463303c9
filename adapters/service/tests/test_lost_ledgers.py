"""A ledger is deleted while a Binding is on its way that relies on it, step by step."""

import pytest

from adapters.service.tests.settling import run_settling
from adapters.service.tests.test_reconciler_races import (
    BINDING,
    RECONCILING,
    begin_bind,
    open_all_but,
    reconcile,
)
from adapters.service.tests.world import GRACE, World


async def others_bind(world: World) -> None:
    """Bind two pods, each of which leaves no room for p0 on its card, with the other service."""
    await world.begin(RECONCILING, "p3", "n0")
    await world.begin(RECONCILING, "p4", "n0")
    await open_all_but(world, RECONCILING, "")


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_ledger_that_is_made_again_keeps_cards_for_a_binding_on_its_way(
    is_killed: bool,
) -> None:
    """Also where the leader is killed too, so that the next one has never seen the ledger."""

    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await world.lose("n0")
        if is_killed:
            await world.kill(RECONCILING)
        await open_all_but(world, RECONCILING, "")
        await reconcile(world)
        await others_bind(world)

        await open_all_but(world, BINDING, "")
        world.lives[RECONCILING].look()
        await reconcile(world)

        assert world.bindings == 1
        assert "p0" in world.stored("n0").allocations
        await world.end()

    run_settling(scenario())


def test_a_service_that_was_stopped_binds_no_pod_after_its_ledger_was_made_again() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await world.lose("n0")
        await open_all_but(world, RECONCILING, "")
        for _ in range(2):
            await reconcile(world)
            world.now += GRACE
        await reconcile(world)
        await others_bind(world)
        others = world.bindings

        await open_all_but(world, BINDING, "")

        assert others > 0
        await world.end()

    run_settling(scenario())


def test_a_ledger_that_is_made_again_waits_for_a_pod_that_the_cache_has_as_unbound() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await world.lose("n0")
        await open_all_but(world, BINDING, "")
        await open_all_but(world, RECONCILING, "")
        for _ in range(3):
            await reconcile(world)
            world.now += GRACE
        await others_bind(world)
        others = world.bindings - 1

        world.lives[RECONCILING].look()
        await reconcile(world)
        await reconcile(world)

        assert others == 0
        assert world.stored("n0").allocations.keys() == {"p0"}
        await world.end()

    run_settling(scenario())
