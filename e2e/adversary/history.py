"""A random history, from its seed: authors, schedulers, other components and fate in turn."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from random import Random

from e2e.adversary import claims, scheduling
from e2e.adversary.agreement import differences
from e2e.adversary.authors import Authors
from e2e.adversary.fate import Fate
from e2e.adversary.mirrored import wrong_mirrors
from e2e.adversary.mirrors import Mirrors
from e2e.adversary.pods import Mood, random_pod
from e2e.adversary.resource_claims import ResourceClaims
from e2e.adversary.wanted import wanted
from e2e.adversary.world import KNOWN, World
from e2e.harness.cluster.api import Object
from e2e.harness.processes.waiting import within

LAST = 40
"""Steps that a failure shows."""

EPOCH = 30
"""Steps with the same kinds of pods."""

Act = Callable[[], str]


class History:
    """One history; the same seed chooses the same steps, unless races end in another way.

    Attributes:
        trace: what was done so far.
        counts: how often.
    """

    def __init__(self, world: World, seed: int, mood: Mood | None = None) -> None:
        """Prepare, and take no step yet.

        Args:
            world: what it acts on.
            seed: decides all choices.
            mood: of all authors; None for another one now and then.
        """
        self._world = world
        self._dice = Random(seed)  # noqa: S311
        self._pool = ThreadPoolExecutor(8)
        self._fate = Fate(world, self._dice, self._pool)
        self._authors = Authors(world, self._dice, mood, self._fate.started)
        self._claims = ResourceClaims(world, self._dice)
        self._mirrors = Mirrors(world, self._dice)
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        mirrors = (1 if mood is None else mood.mirrors) if world.mirrors else 0
        self._often = often = 1 if mood is None else mood.claims
        self._steps: tuple[tuple[int, Act], ...] = (
            (16, self._authors.create),
            (4, self._authors.delete),
            (3, self._authors.edit_result),
            (3, self._authors.edit_request),
            (2, self._authors.forge_create),
            (2, self._authors.recreate),
            (18, self.storm),
            (2, self.forge_filter),
            (1, self.past_us),
            (2, self.past_us_unrecorded),
            (4 * often, self._claims.claim),
            (3 * often, self._claims.allocate),
            (3 * often, self._claims.end),
            (2 * often, self._claims.forge),
            (4, self._fate.finish),
            (2, self._fate.lose_ledger),
            (6, self._fate.reopen),
            (1, self._fate.kill),
            (1 if mood is None else 0, self._fate.pause),
            (1 if mood is None else 0, self._fate.wait),
            (1, self._fate.replace_card),
            (1, self._fate.rename_node),
            (6 * mirrors, self._mirrors.forge_mirror),
            (mirrors, self.forge_lost),
            (3 * mirrors, self.past_us),
        )

    def check(self, steps: int, patience: float = KNOWN, every: int = 0) -> None:
        """Do ``steps`` steps; the witness must find nothing wrong after any of them.

        Args:
            steps: how many.
            patience: seconds in which ledgers and mirrors must be right when all is quiet.
            every: this many steps all is quiet for a while; 0 for after the last one only.

        Raises:
            AssertionError: it does; with the last steps.
        """
        try:
            self._run(steps, partial(self.settle, patience), every)
        except AssertionError as wrong:
            last = "\n".join(self.trace[-LAST:])
            raise AssertionError(f"{wrong}\nafter these steps:\n{last}") from wrong
        finally:
            self._pool.shutdown()

    def storm(self) -> str:
        """Pods are bound at once, by different ways; at times something breaks meanwhile."""
        pending = self._world.pending()
        chosen = self._dice.sample(pending, min(len(pending), self._dice.choice((1, 3, 6))))
        hot = self._dice.choice([*self._world.places, None])
        acts = [self._binding(pod, hot) for pod in chosen]
        if self._often:
            waiting = self._claims.waiting(self._dice.choice((0, 1, 3)))
            acts += map(self._claims.allocating, waiting)
        if self._dice.random() < 0.3:
            acts.append(self._trouble(chosen))
        self._dice.shuffle(acts)
        return "; ".join(self._pool.map(lambda act: act(), acts))

    def forge_filter(self) -> str:
        """A scheduler shows a pod with the uid of a real one and a smaller request, then binds."""
        pod = self._world.one_of(self._dice, self._world.pending())
        if pod is None:
            return "no pod"
        small = random_pod(self._dice, pod["metadata"]["name"], Mood(("volcano",)))
        small["metadata"] |= {"uid": pod["metadata"]["uid"], "namespace": "default"}
        for row in small["spec"]["containers"]:
            row["resources"]["limits"]["volcano.sh/vgpu-memory"] = "1"
        replica, node = self._dice.randrange(2), self._dice.choice([*self._world.places])
        scheduling.fitting(self._world, small, replica)
        scheduling.plan(self._world, small, replica, node)
        return scheduling.by_extender(self._world, pod, replica, node)

    def past_us(self) -> str:
        """A pod is bound by another component, with a record of a card that has room."""
        place = self._dice.choice([*self._world.places.values()])
        pod = self._world.one_of(self._dice, self._world.pending())
        asked = None if pod is None else wanted(pod)
        if pod is None or asked is None:
            return "no pod"
        cards = scheduling.room(self._world, pod, place)
        if not cards:
            return "no room"
        texts = claims.exact(asked, cards)
        if self._world.mirrors:
            texts |= self._mirrors.brought(pod)
        return scheduling.past_the_service(self._world, pod, place.name, texts)

    def forge_lost(self) -> str:
        """Mirrors on all pods of a node are forged while its ledger is lost, or a replica."""
        node, replica = self._dice.choice([*self._world.places]), self._dice.randrange(2)
        pods = [pod for pod in self._world.pods() if pod["spec"].get("nodeName") == node]
        acts: list[Act] = [*map(self._mirrors.forging, pods)]
        acts.append(lambda: self._fate.lose(node))
        if self._dice.random() < 0.3:
            acts.append(lambda: self._fate.kill_one(replica))
        self._dice.shuffle(acts)
        return "; ".join(self._pool.map(lambda act: act(), acts))

    def past_us_unrecorded(self) -> str:
        """A pod is bound without a record: no later pod gets a card of the node."""
        node = self._dice.choice([*self._world.places])
        pod = self._world.one_of(self._dice, self._world.pending())
        if pod is None:
            return "no pod"
        uid = pod["metadata"]["uid"]
        self._world.witness.unrecorded.add(uid)
        said = [scheduling.past_the_service(self._world, pod, node, {})]
        self._world.caught_up()
        self._world.witness.block(uid)
        self._authors.add()
        for later in self._world.pending()[-1:]:
            said += [scheduling.by_extender(self._world, later, each, node) for each in (0, 1)]
        return "; ".join(said)

    def settle(self, patience: float) -> str:
        """End all actions: ledgers say what the witness saw, and mirrors what ledgers say."""
        self._fate.started()
        self._fate.reopen()
        self._world.caught_up()
        with suppress(TimeoutError):
            within(patience, lambda: not differences(self._world))
        if different := differences(self._world):
            raise AssertionError(f"ledgers and pods disagree: {different}")
        with suppress(TimeoutError):
            within(patience, lambda: not wrong_mirrors(self._world))
        if wrong := wrong_mirrors(self._world):
            raise AssertionError("\n".join(wrong))
        return "settled"

    def _run(self, steps: int, settle: Act, every: int) -> None:
        weights, acts = zip(*self._steps, strict=True)
        for number in range(steps):
            if number % EPOCH == 0:
                self._do(self._authors.begin)
            (act,) = self._dice.choices(acts, weights)
            self._do(act)
            if every and number % every == every - 1:
                self._do(settle, "settle")
        self._do(settle, "settle")

    def _do(self, act: Act, name: str = "") -> None:
        name = name or act.__name__
        self.counts[name] += 1
        self.trace.append(f"{len(self.trace)} {name}")
        self.trace[-1] += f": {act()}"
        if problems := self._world.witness.problems():
            raise AssertionError("\n".join(problems))

    def _binding(self, pod: Object, hot: str | None) -> Act:
        """One way to bind a pod, to one node or any; chosen now and done later."""
        world, replica = self._world, self._dice.randrange(2)
        node = hot or self._dice.choice([*world.places])
        asked = wanted(pod)
        cards = world.places[node].cards
        hostile = claims.hostile(self._dice, asked, cards) if asked is not None else {}
        if world.mirrors:
            hostile = {**self._mirrors.brought(pod), **hostile}
        match self._dice.randrange(4):
            case 0:
                return lambda: scheduling.by_extender(world, pod, replica, node)
            case 1:
                return lambda: scheduling.after_filter(world, pod, replica)
            case 2:
                return lambda: scheduling.by_volcano(world, pod, replica, node)
            case _:
                return lambda: scheduling.by_binding(world.scheduler, pod, node, hostile)

    def _trouble(self, chosen: Sequence[Object]) -> Act:
        """What breaks, chosen now and done later."""
        replica, node = self._dice.randrange(2), self._dice.choice([*self._world.places])
        kinds = 5 if self._world.mirrors else 4
        kind, pod = self._dice.randrange(kinds), self._world.one_of(self._dice, chosen)
        if kind == 0:
            return lambda: self._fate.kill_one(replica)
        if kind == 1 or pod is None:
            return lambda: self._fate.lose(node)
        if kind == 4:
            return self._mirrors.forging(pod)
        return self._authors.edit_of(pod) if kind == 2 else lambda: self._world.remove(pod)
