"""Binds of a replica that is stopped meanwhile, until others have the cards."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from e2e.adversary import scheduling
from e2e.adversary.stops import GRACE, has_stopped
from e2e.adversary.world import KNOWN, World
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.processes.waiting import within

PATIENCE = 10
"""Seconds in which cards are released; the scheduler's question ends after 15."""

WHOLE = {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "9000"}
"""More than half of both cards of a node."""


def bind_late(
    world: World, replica: int, node: str, late: Object, guests: Sequence[Object], point: int
) -> str:
    """Bind a pod by a replica that stops at a point, goes on when other pods have the cards.

    Args:
        world: with another replica that leads.
        replica: that stops.
        node: of all these pods.
        late: the pod.
        guests: that the other replica binds meanwhile.
        point: see ``stops``.

    Returns:
        what was said; it begins with a sentence about the stop.
    """
    service = world.replicas[replica]
    with ThreadPoolExecutor(1) as pool, world.stops.at(service, point):
        answer = pool.submit(scheduling.by_extender, world, late, replica, node)
        within(KNOWN, lambda: answer.done() or has_stopped(service))
        if not has_stopped(service):
            return f"not stopped: {answer.result()}"
        said = [f"stopped at {point}, {release(world, late, node)}"]
        said += [scheduling.by_extender(world, guest, 1 - replica, node) for guest in guests]
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


def every_stop(world: World, first: int = 1) -> Iterator[tuple[int, str]]:
    """Stop a bind at each point once; yields the number of the point and what was said.

    Args:
        world: new.
        first: the point to begin with.

    Raises:
        AssertionError: the witness has found something wrong.
    """
    leader = world.leader()
    for point in count(first):
        late, guest = (
            world.api.create(PODS, pod(world.name("p"), "no-scheduler", WHOLE)) for _ in range(2)
        )
        said = bind_late(world, 1 - leader, "n0", late, [guest], point)
        if said.startswith("not stopped"):
            return
        world.caught_up()
        if problems := world.witness.problems():
            raise AssertionError(f"{problems}\nafter {said}")
        yield point, said
        for each in (late, guest):
            world.remove(each)
        within(KNOWN, lambda: not (world.ledger("n0") or {}).get("allocations"))
