"""Races between a bind and the reconciler of another service, step by step: see ``world``."""

import pytest

from adapters.service.cluster_state.deleted_pods import DEFAULT_GRACE, MARGIN
from adapters.service.tests.settling import run_settling
from adapters.service.tests.world import GRACE, LAG, LIVES, World

BINDING, RECONCILING = 0, 1
"""Lives of the two services."""


async def open_all_but(world: World, life: int, kept: str) -> None:
    """Open the gates of a service until it waits at those of one kind only."""
    while others := [
        number for number, gate in enumerate(world.lives[life].gates) if gate.what != kept
    ]:
        await world.open(life, others[0], through=True)


async def begin_bind(world: World) -> None:
    """Bind p0 to n0 up to the moment before its Binding is sent; both services see the ledger."""
    await world.turn()
    await world.begin(BINDING, "p0", "n0")
    await open_all_but(world, BINDING, "post")
    assert [gate.what for gate in world.lives[BINDING].gates] == ["post"]
    assert "p0" in world.stored("n0").allocations
    await open_all_but(world, RECONCILING, "")


async def reconcile(world: World) -> None:
    await world.reconcile(RECONCILING)
    await open_all_but(world, RECONCILING, "")


def test_the_reconciler_keeps_cards_while_their_binding_may_still_be_sent() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        for _ in range(GRACE - 1):
            await reconcile(world)
            await world.tick()
        await reconcile(world)

        await open_all_but(world, BINDING, "")

        assert world.bindings == 1
        await world.end()

    run_settling(scenario())


def test_the_reconciler_releases_cards_after_the_grace() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await reconcile(world)
        for _ in range(GRACE):
            await world.tick()
        await reconcile(world)
        released = "p0" not in world.stored("n0").allocations

        await open_all_but(world, BINDING, "")

        assert released
        assert world.bindings == 1
        assert "p0" in world.stored("n0").allocations
        await world.end()

    run_settling(scenario())


@pytest.mark.parametrize("gate", range(8))
def test_a_service_that_was_stopped_binds_no_pod_to_cards_that_others_have(gate: int) -> None:
    """It stops before or after each of its requests; another pod needs all cards of the node."""

    async def scenario() -> None:
        world = World()
        await world.turn()
        await world.begin(BINDING, "p0", "n0")
        for _ in range(gate):
            if world.lives[BINDING].gates:
                await world.open(BINDING, 0, through=True)
        await open_all_but(world, RECONCILING, "")
        await reconcile(world)
        for _ in range(GRACE):
            await world.tick()
        await reconcile(world)
        await world.begin(RECONCILING, "p2", "n0")
        await world.begin(RECONCILING, "p4", "n0")
        await open_all_but(world, RECONCILING, "")

        await open_all_but(world, BINDING, "")

        assert world.bindings >= 1
        await world.end()

    run_settling(scenario())


def test_the_reconciler_keeps_the_cards_of_a_pod_that_its_cache_has_as_unbound() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await reconcile(world)
        await open_all_but(world, BINDING, "")
        stale = dict(world.lives[RECONCILING].seen)

        world.now += GRACE
        await reconcile(world)

        assert stale["p0"].spec.node_name is None
        assert world.pods["p0"].spec.node_name == "n0"
        assert "p0" in world.stored("n0").allocations
        await world.end()

    run_settling(scenario())


def test_a_deleted_pod_that_a_stale_cache_adopts_again_is_released_later() -> None:
    async def scenario() -> None:
        world = World()
        await begin_bind(world)
        await open_all_but(world, BINDING, "")
        world.lives[RECONCILING].look()
        await world.leave("p0")
        world.lives[BINDING].look()
        await world.reconcile(BINDING)
        await open_all_but(world, BINDING, "")
        released = "p0" not in world.stored("n0").allocations

        await open_all_but(world, RECONCILING, "")
        await reconcile(world)
        adopted = "p0" in world.stored("n0").allocations
        for _ in range(LAG * LIVES):
            await world.tick()
        await reconcile(world)
        world.now += DEFAULT_GRACE + MARGIN
        await reconcile(world)

        assert (released, adopted) == (True, True)
        assert "p0" not in world.stored("n0").allocations
        await world.end()

    run_settling(scenario())
