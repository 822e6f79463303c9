"""Random histories against two replicas: no rule of a card is ever broken.

``--seed=N`` repeats a history; ``--histories`` and ``--steps`` run more and longer ones.
"""

import pytest

from e2e.adversary.history import History
from e2e.tests.adversary.conftest import Worlds

pytestmark = [pytest.mark.local("kills its replicas and deletes ledgers"), pytest.mark.timeout(0)]


def test_no_history_breaks_a_rule_of_a_card(worlds: Worlds, request: pytest.FixtureRequest) -> None:
    first, count, steps = (
        int(str(request.config.getoption(name))) for name in ("--seed", "--histories", "--steps")
    )
    for seed in range(first, first + count):
        with worlds() as world:
            history = History(world, seed)
            print(f"seed {seed}, {steps} steps")
            history.check(steps)
            print(f"{world.witness.bound} pods bound, {dict(history.counts)}")
            assert world.witness.bound
            assert history.counts["storm"]
