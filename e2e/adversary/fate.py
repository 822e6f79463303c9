"""What happens to replicas, records, nodes and running pods; each step returns what was done."""

from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

from e2e.adversary import scheduling
from e2e.adversary.cards import Place
from e2e.adversary.late import Stop, bind_late, reopen
from e2e.adversary.stops import GRACE
from e2e.adversary.world import World, refused
from e2e.harness.names import LEDGERS

POINTS = 40
"""More than there are at which a bind may be stopped."""


class Fate:
    """The fate of a history."""

    def __init__(self, world: World, dice: Random, pool: ThreadPoolExecutor) -> None:
        """Prepare, and stop no replica yet.

        Args:
            world: what it acts on.
            dice: makes all choices.
            pool: starts replicas.
        """
        self._world = world
        self._dice = dice
        self._pool = pool
        self._starting: list[Future[None]] = []

    def finish(self) -> str:
        """Pods end; one without a record rather than others."""
        bound = [pod for pod in self._world.pods() if "nodeName" in pod["spec"]]
        first = [pod for pod in bound if pod["metadata"]["uid"] in self._world.witness.blocked]
        chosen = first[:1] + self._dice.sample(bound, min(len(bound), self._dice.choice((1, 2, 4))))
        for pod in chosen:
            self._world.end(pod)
        return ", ".join(pod["metadata"]["name"] for pod in chosen)

    def lose_ledger(self) -> str:
        """The record of a node is deleted."""
        return self.lose(self._dice.choice([*self._world.places]))

    def lose(self, node: str) -> str:
        """The record of this node."""
        refused(lambda: self._world.api.delete(f"{LEDGERS}/{node}"))
        return f"ledger of {node} lost"

    def reopen(self) -> str:
        """Time passes until the nodes whose record was deleted get pods again."""
        return reopen(self._world)

    def kill(self) -> str:
        """Kill -9 a replica; it is started again meanwhile."""
        return self.kill_one(self._dice.randrange(2))

    def kill_one(self, replica: int) -> str:
        """This replica, unless one is starting."""
        if any(not started.done() for started in self._starting):
            return "one is starting"
        service = self._world.replicas[replica]
        service.kill()
        self._starting.append(self._pool.submit(service.start))
        return f"replica {replica} killed"

    def started(self) -> None:
        """Wait for replicas that are starting."""
        while self._starting:
            self._starting.pop().result()

    def pause(self) -> str:
        """The replica that does not reconcile stops in a bind, until others have the cards."""
        self.started()
        pending = self._world.pending()
        if not pending:
            return "no pod"
        late, *guests = self._dice.sample(pending, min(len(pending), 4))
        leader, point = self._world.leader(), self._dice.randint(1, POINTS)
        fits = scheduling.fitting(self._world, late, leader)
        node = self._dice.choice(fits or [*self._world.places])
        # The API server asks only the first replica.
        by_review = leader == 1 and self._dice.random() < 0.5
        return bind_late(self._world, Stop(1 - leader, point, node, by_review), late, guests)

    def wait(self) -> str:
        """Time passes, and what waits for a third of the grace or less is over."""
        self._world.stops.advance(GRACE // 3)
        return f"{GRACE // 3} s"

    def replace_card(self) -> str:
        """Another card is in the place of one."""
        place = self._dice.choice(self._without_claims())
        position = self._dice.randrange(len(place.cards))
        self._world.describe(place.replaced(position, self._world.name("GPU-new-")))
        return f"{place.name} {position}"

    def rename_node(self) -> str:
        """A node without pods comes back under another name, with the same cards."""
        place = self._dice.choice(self._without_claims())
        for pod in self._world.pods():
            if pod["spec"].get("nodeName") == place.name:
                self._world.end(pod)
                self._world.remove(pod)
        self._world.remove_node(place.name)
        name = self._world.name("node")
        self._world.add(place.renamed(name))
        return f"{place.name} to {name}"

    def _without_claims(self) -> list[Place]:
        """The nodes whose cards no claim may have: its devices keep their names."""
        return [place for place in self._world.places.values() if place.kind != "claimed"]
