"""Random histories of two services that are interrupted anywhere: see ``world``."""

from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from adapters.service.tests.settling import SettlingLoop, run_settling
from adapters.service.tests.world import LIVES, NODES, PODS, World
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaLimits

T = TypeVar("T")

STEPS = 72

lives = st.integers(0, LIVES - 1)
pods = st.sampled_from(PODS)


LIMITS = QuotaLimits(cards=2000, memory=14 * GIB, compute=120)
"""Limits of a quota that some pods of the histories exceed together, and none by itself."""


async def history(
    seed: int, limits: QuotaLimits | None = None, *, losing: bool = True
) -> Counter[str]:
    """Run one history, from its number; returns what happened in it.

    Args:
        seed: its number.
        limits: of the quota of its namespace.
        losing: whether ledgers are deleted; then their cards are closed, and fewer pods bind.
    """
    dice, world, counts = Random(seed), World(limits), Counter[str]()  # noqa: S311
    noting = Random(-1 - seed)  # noqa: S311
    await world.turn()
    trouble = dice.choice((0.0, 0.05, 0.2))
    wanted = PODS[: dice.choice((2, len(PODS)))]
    weights = (
        70,
        12,
        dice.choice((1, 3)),
        3,
        dice.choice((3, 12)),
        dice.choice((5, 15)),
        2 * losing,
    )
    # Where a service is stalled, the other one gets far while a request of the first one waits.
    stall, life = dice.choice((0.0, 0.95)), 0
    noted = noting.choice((0.0, 0.2))
    for _ in range(STEPS):
        if noting.random() < noted:
            await world.note(noting.choice(PODS))
        if dice.random() >= stall:
            life = dice.randrange(LIVES)
        steps = ("open", "begin", "kill", "leave", "tick", "reconcile", "lose")
        (step,) = dice.choices(steps, weights)
        if limits is not None and step in ("tick", "reconcile") and dice.random() < 0.5:
            step = "reconcile quota"
        match step:
            case "open":
                await world.open(life, dice.randrange(9), through=dice.random() >= trouble)
            case "begin":
                await world.begin(life, dice.choice(wanted), dice.choice(NODES))
            case "kill":
                await world.kill(life)
            case "leave":
                await world.leave(dice.choice(PODS))
            case "tick":
                await world.tick()
            case "lose":
                await world.lose(dice.choice(NODES))
                counts["lost"] += 1
            case "reconcile quota":
                await world.reconcile_quota(life)
            case _:
                await world.reconcile(life)
    counts["crashes"] = world.crashes
    counts["bindings"] = world.bindings
    counts["refused"] = world.refused
    await world.end()
    return counts


@pytest.mark.timeout(600)
@pytest.mark.parametrize("limits", [None, LIMITS], ids=["no quota", "quota"])
def test_no_history_over_allocates_a_card_or_a_quota_or_leaks_one(
    limits: QuotaLimits | None,
) -> None:
    histories = 20 * settings().max_examples

    async def run() -> Counter[str]:
        counts = Counter[str]()
        for seed in range(histories):
            try:
                counts += await history(seed, limits)
            except AssertionError as error:
                raise AssertionError(f"history {seed}: {error}") from error
        return counts

    counts = run_settling(run())

    print(f"{histories} histories of {STEPS} steps each: {dict(counts)}")  # noqa: T201
    assert counts["crashes"] > histories
    assert counts["bindings"] > histories / 2
    if limits is not None:
        assert counts["refused"] > histories / 10


@pytest.mark.timeout(600)
def test_the_histories_find_a_quota_that_is_exceeded_where_ledgers_have_no_fence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NodeLedger, "fenced", lambda ledger, *_: ledger)

    async def run() -> None:
        for seed in range(20 * settings().max_examples):
            await history(seed, LIMITS, losing=False)

    with pytest.raises(AssertionError, match="the quota is exceeded"):
        run_settling(run())


class Histories(RuleBasedStateMachine):
    """Runs a history step by step, so that hypothesis shrinks one that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SettlingLoop()
        self.world = self.run(begun())

    @rule(life=lives, pod=pods, node=st.sampled_from(NODES))
    def begin(self, life: int, pod: str, node: str) -> None:
        self.run(self.world.begin(life, pod, node))

    @rule(life=lives, gate=st.integers(0, 3), through=st.sampled_from((True, True, True, False)))
    def open(self, life: int, gate: int, through: bool) -> None:
        self.run(self.world.open(life, gate, through))

    @rule(life=lives, gate=st.integers(0, 3))
    def open_two(self, life: int, gate: int) -> None:
        self.run(self.world.open(life, gate, through=True))
        self.run(self.world.open(life, gate, through=True))

    @rule(life=lives)
    def kill(self, life: int) -> None:
        self.run(self.world.kill(life))

    @rule(pod=pods)
    def leave(self, pod: str) -> None:
        self.run(self.world.leave(pod))

    @rule(pod=pods)
    def note(self, pod: str) -> None:
        self.run(self.world.note(pod))

    @rule(node=st.sampled_from(NODES))
    def lose(self, node: str) -> None:
        self.run(self.world.lose(node))

    @rule()
    def tick(self) -> None:
        self.run(self.world.tick())

    @rule(life=lives)
    def reconcile(self, life: int) -> None:
        self.run(self.world.reconcile(life))

    def teardown(self) -> None:
        try:
            self.run(self.world.end())
        finally:
            self.loop.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.loop.run_until_complete(work)


async def begun() -> World:
    world = World()
    await world.turn()
    return world


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=40)
