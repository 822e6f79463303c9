"""Random histories against two replicas: no rule of a card is ever broken.

``--seed=N`` repeats a history; ``--histories``, ``--steps`` and ``--minutes`` run more and longer
ones. In those with odd seeds the replicas mirror records, which others edit and forge. The last
lines that are printed say how much memory the replicas had.
"""

from collections.abc import Iterator
from itertools import count
from time import monotonic

import psutil
import pytest

from e2e.adversary.history import History
from e2e.adversary.mirrored import TARGETS
from e2e.adversary.world import World
from e2e.tests.adversary.conftest import Worlds

pytestmark = [pytest.mark.local("kills its replicas and deletes ledgers"), pytest.mark.timeout(0)]

MIB = 1 << 20


def test_no_history_breaks_a_rule_of_a_card(worlds: Worlds, request: pytest.FixtureRequest) -> None:
    first, histories, steps, minutes = (
        int(str(request.config.getoption(name)))
        for name in ("--seed", "--histories", "--steps", "--minutes")
    )
    began = monotonic()
    seeds: list[int] = []
    memories: list[str] = []
    for seed in seeds_for(first, histories, began + minutes * 60):
        with worlds(mirrors=TARGETS if seed % 2 else ()) as world:
            history = History(world, seed)
            print(f"seed {seed}, {steps} steps")
            before = memory(world)
            history.check(steps)
            print(f"{world.witness.bound} pods bound, {world.witness.allocated} claims allocated")
            print(dict(history.counts))
            seeds.append(seed)
            memories.append(growth(before, memory(world)))
            assert world.witness.bound
            assert world.witness.allocated
            assert history.counts["storm"]
            assert bool(history.counts["forge_mirror"]) == bool(world.mirrors)
    taken = (monotonic() - began) / 60
    print(f"{taken:.1f} minutes, {len(seeds) * steps} steps, seeds {seeds[0]} to {seeds[-1]};")
    print(f"resident memory of the replicas in MiB: {'; '.join(memories)}")


def seeds_for(first: int, histories: int, until: float) -> Iterator[int]:
    """A number of seeds, and more until a time of the monotonic clock."""
    for number in count():
        if number >= histories and monotonic() >= until:
            return
        yield first + number


def memory(world: World) -> dict[int, int]:
    """MiB that each replica has in memory, by the number of its process."""
    processes = (psutil.Process(replica.pid) for replica in world.replicas)
    return {each.pid: each.memory_info().rss // MIB for each in processes}


def growth(before: dict[int, int], after: dict[int, int]) -> str:
    """How the memory of each replica has changed; of one that was killed, since it runs again."""
    return ", ".join(
        f"{begin} to {end}{'' if pid in before else ' (started again)'}"
        for begin, (pid, end) in zip(before.values(), after.items(), strict=True)
    )
