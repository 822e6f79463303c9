"""Binds of a replica that is stopped meanwhile, until others have the cards."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from adapters.service.decide.service import send_binding
from e2e.adversary import scheduling
from e2e.adversary.stops import GRACE, has_stopped
from e2e.adversary.world import KNOWN, World
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.names import LEDGERS
from e2e.harness.processes.waiting import within

PATIENCE = 10
"""Seconds in which cards are released; the scheduler's question ends after 15."""

SENDING = send_binding.__name__
"""A stop after the age of the commit was checked, before the Binding is sent."""

WHOLE = {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "9000"}
"""More than half of both cards of a node."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A replica that does not lead stops in a bind, and goes on when other pods have the cards.

    Attributes:
        replica: its number.
        point: at which it stops: a number from 1, or a coroutine's name.
        node: of all these pods.
        by_review: the API server asks it about a Binding; else a scheduler asks it to bind.
    """

    replica: int
    point: int | str
    node: str
    by_review: bool = False


def bind_late(world: World, stop: Stop, late: Object, guests: Sequence[Object]) -> str:
    """Bind a pod by a replica that is stopped meanwhile.

    Args:
        world: the replica's.
        stop: the replica, and where it stops.
        late: the pod.
        guests: pods that the other replica binds meanwhile.

    Returns:
        what was said; it begins with a sentence about the stop.
    """
    service, node = world.replicas[stop.replica], stop.node
    with ThreadPoolExecutor(1) as pool, world.stops.at(service, stop.point):
        answer = (
            pool.submit(scheduling.by_binding, world.scheduler, late, node, {})
            if stop.by_review
            else pool.submit(scheduling.by_extender, world, late, stop.replica, node)
        )
        within(KNOWN, lambda: answer.done() or has_stopped(service))
        if not has_stopped(service):
            return f"not stopped: {answer.result()}"
        said = [f"stopped at {stop.point}, {release(world, late, node)}"]
        said += [scheduling.by_extender(world, guest, 1 - stop.replica, node) for guest in guests]
    return "; ".join([*said, answer.result()])


def release(world: World, late: Object, node: str) -> str:
    """Let time pass until a pod that is not bound has no cards of a node; what became of it."""
    uid, path = late["metadata"]["uid"], f"{PODS}/{late['metadata']['name']}"

    def holds() -> bool:
        rows = (world.ledger(node) or {}).get("allocations", ())
        return any(row["uid"] == uid for row in rows)

    def is_bound() -> bool:
        return "nodeName" in (world.find(path) or {"spec": {}})["spec"]

    def is_over() -> bool:
        world.stops.advance(GRACE // 3)
        return is_bound() or not holds()

    with suppress(TimeoutError):
        within(0.2, holds)  # its write may be on the way
    had = holds()
    with suppress(TimeoutError):
        within(PATIENCE, is_over)
    if is_bound():
        return "bound"
    return "without cards" if not had else "with its cards" if holds() else "released"


def reopen(world: World) -> str:
    """Let time pass until the nodes whose record was deleted get pods again; their names."""
    closed = [node for node in world.places if world.is_closed(node)]

    def is_over() -> bool:
        world.stops.advance(GRACE // 3)
        return not any(map(world.is_closed, closed))

    if closed:
        within(KNOWN, is_over)
    return ", ".join(closed)


def bind_past_loss(world: World) -> list[str]:
    """Stop a bind until the record that it wrote was deleted and other pods were bound.

    The replica that does not lead stops where it sends the Binding: the age of the commit was
    checked before.

    Args:
        world: new.

    Returns:
        what was said to the pod that came before the node got pods again, to the one that came
        after it, and to the one whose bind was stopped.

    Raises:
        AssertionError: the witness has found something wrong.
    """
    leader = world.leader()
    service = world.replicas[1 - leader]
    late, early, next_one = (
        world.api.create(PODS, pod(world.name("p"), "no-scheduler", WHOLE)) for _ in range(3)
    )
    with ThreadPoolExecutor(1) as pool, world.stops.at(service, SENDING):
        answer = pool.submit(scheduling.by_extender, world, late, 1 - leader, "n0")
        within(KNOWN, lambda: answer.done() or has_stopped(service))
        world.api.delete(f"{LEDGERS}/n0")
        within(KNOWN, lambda: world.ledger("n0") is not None)
        said = [scheduling.by_extender(world, early, leader, "n0")]
        reopen(world)
        said.append(scheduling.by_extender(world, next_one, leader, "n0"))
    said.append(answer.result())
    world.caught_up()
    if problems := world.witness.problems():
        raise AssertionError(f"{problems}\nafter {said}")
    return said


def every_stop(
    world: World, points: Iterable[int | str] | None = None
) -> Iterator[tuple[int | str, str]]:
    """Stop a bind at each point once, until one is not reached; yields it and what was said.

    Args:
        world: new.
        points: as those of ``Stop``; all if None.

    Raises:
        AssertionError: the witness has found something wrong, or a bind was refused before it came
            to the point.
    """
    leader = world.leader()
    for point in points or count(1):
        late, guest = (
            world.api.create(PODS, pod(world.name("p"), "no-scheduler", WHOLE)) for _ in range(2)
        )
        said = bind_late(world, Stop(1 - leader, point, "n0"), late, [guest])
        if said.startswith("not stopped"):
            if not said.endswith('{"Error":""}'):
                raise AssertionError(f"{point}: {said}")
            return
        world.caught_up()
        if problems := world.witness.problems():
            raise AssertionError(f"{problems}\nafter {said}")
        yield point, said
        for each in (late, guest):
            world.remove(each)
        within(KNOWN, lambda: not (world.ledger("n0") or {}).get("allocations"))
