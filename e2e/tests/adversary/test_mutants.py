"""The checker catches each rule of the product that is disabled, in the histories of the others."""

import pytest

from e2e.adversary.history import History
from e2e.adversary.late import SENDING, bind_past_loss, every_stop
from e2e.adversary.mirrored import TARGETS
from e2e.adversary.mirrors import bind_past_forged
from e2e.adversary.pods import Mood
from e2e.adversary.terms import MISSING
from e2e.tests.adversary.conftest import Worlds

pytestmark = [pytest.mark.local("replicas without a rule"), pytest.mark.timeout(900)]

STEPS = 600
"""Far more than it takes: most are caught in the first 50."""

MOODS = {
    "memory": Mood(("volcano", "koordinator", "metax"), (6000, 9000), (10,)),
    "slots": Mood(("volcano", "metax"), (1000,), (10,)),
    "compute": Mood(("volcano", "koordinator"), (1000,), (30, 60)),
    "exclusive": Mood(("volcano", "koordinator"), (1000,), (0, 100)),
    **{rule: Mood(kinds, (1000,), (10,)) for rule, (_, kinds) in MISSING.items()},
    "unknown": Mood(("volcano",), (1000,), (10,)),
    "slices": Mood(("mig",)),
    "layouts": Mood(("mig",)),
    "compare-and-swap": Mood(("volcano",), (9000,), (100,)),
    "restate": Mood(("volcano", "koordinator"), (3000,), (10,)),
    "init": Mood(("init",), (9000,), (10,)),
    "claims": Mood(("volcano",), (9000,), (10,), claims=30),
    "live claim": Mood(("volcano",), (1000,), (10,), claims=30),
}
"""What authors ask for, so that the missing rule is soon at its limit."""

SAID = {
    "unknown": "beside",
    "compare-and-swap": "GPU",
    "restate": "is not|has not the cards",
    "init": "memory: ",
    "claims": "memory: |exclusive: |compute: |slots: ",
    "live claim": "would get other devices",
}
"""What the checker reports, where it is not the name of the rule."""

FEW, PATIENCE = 15, 25
"""Steps after which ledgers and mirrors are looked at, and seconds until they are wrong: a killed
leader's Lease takes 15."""


@pytest.mark.parametrize("rule", MOODS)
def test_the_checker_catches_a_service_without_a_rule(worlds: Worlds, rule: str) -> None:
    with worlds(rule, with_claims=MOODS[rule].claims > 0) as world:
        history = History(world, 1, MOODS[rule])
        with pytest.raises(AssertionError, match=SAID.get(rule, f"{rule}: ")):
            history.check(STEPS)

        print(f"caught after {len(history.trace)} steps and {world.witness.bound} Bindings")


def test_the_checker_catches_a_service_that_does_not_repair_mirrored_records(
    worlds: Worlds,
) -> None:
    with worlds("mirrors unrepaired", with_claims=False, mirrors=TARGETS) as world:
        history = History(world, 1, Mood(("hami", "koordinator"), (6000, 9000), (10,), mirrors=3))
        with pytest.raises(AssertionError, match="mirrors: "):
            history.check(STEPS, PATIENCE, FEW)

        print(f"caught after {len(history.trace)} steps")


@pytest.mark.parametrize(("rule", "caught"), [("mirrors adopted", 1), ("", 0)])
def test_the_checker_catches_a_service_that_adopts_mirrored_records(
    worlds: Worlds, rule: str, caught: int
) -> None:
    with worlds(rule, with_claims=False, mirrors=TARGETS) as world:
        assert len(bind_past_forged(world)) == caught


@pytest.mark.parametrize("rule", ["version", "touch"])
def test_the_checker_catches_a_service_that_binds_late(worlds: Worlds, rule: str) -> None:
    with worlds(rule) as world, pytest.raises(AssertionError, match="memory: "):
        print(*every_stop(world, [SENDING]), sep="\n")


def test_the_checker_catches_a_service_that_makes_a_lost_ledger_again_with_free_cards(
    worlds: Worlds,
) -> None:
    with worlds("lost") as world, pytest.raises(AssertionError, match="memory: "):
        print(*bind_past_loss(world), sep="\n")
