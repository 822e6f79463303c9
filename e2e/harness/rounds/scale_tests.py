"""The tests of scale that others publish, at any size, through a stock scheduler in one mode."""

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.bulk import create_all, delete_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    pod,
    turn,
    wait_for_nodes,
)
from e2e.harness.names import CORE, DEVICES, RATIO
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.rounds import pace
from e2e.harness.rounds.scale import CARDS, PATIENCE, allocations, bindings
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    VOLCANO,
    add_ready_nodes,
    prepare,
    wait_for_cards,
)
from e2e.harness.schedulers.gangs import (
    GATE,
    POD_GROUPS,
    by_koordinator,
    by_kubernetes,
    by_volcano,
    start_gang_plane,
)
from e2e.harness.schedulers.mover import PLANS, start_mover
from e2e.harness.schedulers.native import ALL_NODES, DESCRIBED, changing, known_to_peers
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.volcano import GROUPS, MEMORY, NUMBER
from e2e.harness.workloads.inventory import (
    Described,
    DialectRecords,
    add_inventory,
    gpus,
    koordinator,
    volcano,
)

COUNTED = "example.com/card"
"""Cards as nodes state them in no dialect: a scheduler alone adds them up."""
NOT_TAKEN = 60
"""Seconds after which a card by eviction, or the first word about a gang, does not come."""
HANDSHAKE = 30
"""Seconds between two changes of each node, as by Volcano's device plugin."""
MOVED = 5
"""Pods on each node of which a plan empties some."""
OWNER = "/apis/apps/v1/namespaces/default/replicasets/moved"
REPLICA_SETS = OWNER.rpartition("/")[0]
BINDINGS = "/api/v1/namespaces/default/bindings"

SECOND = 3
"""Seconds from one eviction to the next."""

Share = dict[str, str]
Figures = tuple[float, ...]
"""Seconds, one for each row of a test."""

WHOLES, HALVES = "a pod of a card for each card", "as many pods of half a card"
AT_ONCE, EVICTED = "a card by eviction, at once after that", "a card by eviction"
UNFIT, FREED, LATEST = "gang without room: first word", "freed card used again", "the same, latest"
SINGLE, GANG = "pods of a gang, in no gang", "gang"
BURSTS = {8: "16 halves, a node of 8 cards", 1: "16 halves, 8 nodes of a card"}
PLAN, FIRST = "plan of moves: processor", "the same: first eviction"
ROWS = (
    HALVES,
    WHOLES,
    AT_ONCE,
    EVICTED,
    UNFIT,
    FREED,
    LATEST,
    SINGLE,
    GANG,
    *BURSTS.values(),
    PLAN,
    FIRST,
)
_NUMBERS = count()


class WrongError(Exception):
    """Pods are bound, but not as they should be."""


@dataclass(frozen=True, slots=True)
class Way:
    """A scheduler in one of its modes, and the words of its pods.

    Attributes:
        scheduler: of ``pace.MODES``.
        mode: of it.
        name: by which pods name it.
        gang: makes a gang, as of ``by_kubernetes``.
        whole: what a pod requests that needs a card.
        half: the same of half a card; empty where no card is divided.
    """

    scheduler: str
    mode: str
    name: str
    gang: Callable[..., list[str]]
    whole: Share
    half: Share

    @property
    def served(self) -> bool:
        """Whether Dragoman is there."""
        return self.mode != pace.NONE


_KUBE, _KOORD, _VC = "kube-scheduler", "koord-scheduler", "vc-scheduler"
_OURS = {NUMBER: "1", MEMORY: "81920"}, {NUMBER: "1", MEMORY: "40960"}
_KOORDS = {CORE: "100", RATIO: "100"}, {CORE: "50", RATIO: "50"}
_ALONE: tuple[Share, Share] = {COUNTED: "1"}, {}
WAYS = {
    "kube": Way(_KUBE, pace.EXTENDER, KUBE, by_kubernetes, *_OURS),
    "koord-native": Way(_KOORD, pace.NATIVE, KOORD, by_koordinator, *_KOORDS),
    "koord": Way(_KOORD, pace.EXTENDER, KOORD, by_koordinator, *_OURS),
    "vc-native": Way(_VC, pace.NATIVE, VOLCANO, by_volcano, *_OURS),
    "kube-alone": Way(_KUBE, pace.NONE, KUBE, by_kubernetes, *_ALONE),
    "koord-alone": Way(_KOORD, pace.NONE, KOORD, by_koordinator, *_ALONE),
    "vc-alone": Way(_VC, pace.NONE, VOLCANO, by_volcano, *_ALONE),
}


@dataclass(slots=True)
class Bed:
    """A cluster, the service, which runs where the way has it, and the scheduler.

    Attributes:
        service: of the cluster.
        nodes: with eight cards each; ``burst`` adds others for its time.
        way: the scheduler that runs.
        handshake: seconds from one change of each node, or its Device, to the next.
        bound: by pod, when it was seen to be bound.
    """

    service: Service
    nodes: int
    way: Way
    handshake: float
    bound: Mapping[str, float]

    @property
    def plane(self) -> ControlPlane:
        """The cluster."""
        return self.service.plane

    def create(self, share: Share, pods: int, **spec: Any) -> list[str]:
        """Create pods that request a share; their names."""
        made = [pod(f"pod-{next(_NUMBERS)}", self.way.name, share, **spec) for _ in range(pods)]
        create_all(self.plane.api, PODS, made)
        return [each["metadata"]["name"] for each in made]

    def wait(self, names: Sequence[str], seconds: float = PATIENCE) -> float:
        """Wait until pods are bound; when the last one was."""
        left = set(names)
        within(seconds, lambda: left <= self.bound.keys(), lambda: f"{left - self.bound.keys()}")
        return max(self.bound[name] for name in names)

    def names(self) -> set[str]:
        """All pods."""
        return {row["metadata"]["name"] for row in self.plane.api.get(PODS)["items"]}

    def clear(self) -> None:
        """Delete all pods and groups, and wait until nothing is held."""
        api = self.plane.api
        delete_all(api, PODS, [*self.names()])
        for path in (POD_GROUPS, *([GROUPS] if self.way.scheduler == _VC else [])):
            api.delete(f"{path}?gracePeriodSeconds=0")
        within(300, lambda: not api.get(f"{PODS}?limit=1")["items"])
        within(300, lambda: not allocations(api))


@contextmanager
def ground(nodes: int, *ways: Way) -> Iterator[Service]:
    """A cluster with nodes of eight cards, and a service that is stopped and has their ledgers.

    Args:
        nodes: how many.
        ways: that will run on it: only vc-scheduler needs Volcano's controllers.
    """
    with run() as this:
        plane = start_gang_plane(this)
        add_priorities(plane.api)
        prepare(plane)
        if any(way.scheduler == _VC for way in ways):
            start_volcano_controllers(plane)
        add_ready_nodes(plane, [_node(f"node-{number:05}", CARDS) for number in range(nodes)])
        on = {"enabled": True}
        log = {"level": "warning", "format": "json"}
        peers = ["volcano", "koordinator"]
        service = start_service(plane, log=log, mirrors=peers, preemption=on, moves=on)
        ledgers_of(plane, nodes)
        service.stop()
        yield service


@contextmanager
def bed(service: Service, nodes: int, way: Way, handshake: float = HANDSHAKE) -> Iterator[Bed]:
    """The scheduler runs, with the service and its webhooks if the way has them, for a block.

    Args:
        service: of ``ground``.
        nodes: how many it has.
        way: the scheduler.
        handshake: seconds from one change of each node, or its Device, to the next.
    """
    plane = service.plane
    gates = GATE if way.scheduler == "kube-scheduler" else ""
    start = partial(pace.start, plane, service, way.scheduler, way.mode, way.name, gates)
    if way.served:
        service.start()
    try:
        with turn(start, plane), bindings(plane.api, '[^"]+') as bound:
            made = Bed(service, nodes, way, handshake, bound)
            names = [f"node-{number:05}" for number in range(nodes)]
            with _asked(made), _shown(made, names):
                made.wait(made.create(way.whole, 1))
                made.clear()
                yield made
    finally:
        if way.served:
            service.stop()


def tests(on: Bed, ends: int) -> Iterator[tuple[tuple[str, ...], Callable[[], Figures]]]:
    """All tests of a way, and their rows; call each before the next is asked for.

    Args:
        on: the cluster, empty.
        ends: pods that end, one each second, while others wait for their cards.
    """
    way, nodes = on.way, on.nodes
    size = max(nodes * 512 // 500, 4)
    if way.half:
        yield (HALVES,), partial(fill, on, way.half, 2)
        on.clear()
    yield (WHOLES,), partial(fill, on, way.whole)
    if way.scheduler != _VC:  # its usual actions evict no pod
        yield (AT_ONCE,), partial(evict, on)
        time.sleep(SECOND)
        yield (EVICTED,), partial(evict, on)
    yield (UNFIT,), partial(unfit_gang, on, size)
    yield (FREED, LATEST), partial(queue, on, nodes, ends)
    on.clear()
    yield (SINGLE, GANG), partial(gang, on, size)
    on.clear()
    for cards, row in BURSTS.items() if way.half else ():
        yield (row,), partial(burst, on, cards)
        on.clear()
    if way.name == KUBE and way.served:
        yield (PLAN, FIRST), partial(moves, on, max(nodes * 82 // 500, 1))


def fill(on: Bed, share: Share, of_card: int = 1) -> Figures:
    """Seconds until as many pods as there are cards, which all come at once, are bound.

    Args:
        on: an empty cluster.
        share: what each pod requests.
        of_card: how many of them a card can have.
    """
    started = time.monotonic()
    names = on.create(share, on.nodes * CARDS)
    seconds = on.wait(names) - started
    _check_cards(on, len(names), range(1, of_card + 1))
    return (seconds,)


def gang(on: Bed, size: int) -> Figures:
    """Seconds for as many pods in no gang, and for the gang, both until the last is bound."""
    found = []
    for create in (partial(on.create, on.way.whole, size), partial(_gang, on, size)):
        started = time.monotonic()
        found.append(on.wait(create()) - started)
        on.clear()
    return tuple(found)


def unfit_gang(on: Bed, size: int) -> Figures:
    """Seconds from the last pod of a gang in a full cluster to its first word; none is bound."""
    names, api = _gang(on, size), on.plane.api
    started = time.monotonic()

    def has_word() -> bool:
        rows = (api.get(f"{PODS}/{name}") for name in (names[0], names[-1]))
        return any(row["status"].get("conditions") for row in rows)

    try:
        within(NOT_TAKEN, has_word)
        seconds = time.monotonic() - started
        _check(not {*names} & on.bound.keys(), "part of a gang is bound")
    finally:
        delete_all(api, PODS, names)
    return (seconds,)


def evict(on: Bed) -> Figures:
    """Seconds until a pod of high priority has a card of a full cluster; one other pod ends."""
    before, started = on.names(), time.monotonic()
    (high,) = on.create(on.way.whole, 1, priority="high")
    try:
        seconds = on.wait([high], NOT_TAKEN) - started
    except TimeoutError:
        delete_all(on.plane.api, PODS, [high])
        raise
    gone = before - on.names()
    _check(len(gone) == 1, f"evicted: {sorted(gone)}")
    return (seconds,)


def queue(on: Bed, waiting: int, ends: int) -> Figures:
    """Seconds until a freed card is used again, median and most, while pods wait for one.

    Args:
        on: a full cluster.
        waiting: pods that wait.
        ends: pods that end, one each second.
    """
    running = sorted(on.names())[:ends]
    left, taken = {*on.create(on.way.whole, waiting)}, []
    api, query = on.plane.api, f"{PODS}?fieldSelector=spec.nodeName="

    def tried() -> bool:
        rows = api.get(query)["items"]
        return sum(bool(row["status"].get("conditions")) for row in rows) >= waiting

    within(PATIENCE, tried)
    for name in running:
        started = time.monotonic()
        api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        within(NOT_TAKEN, lambda: left & on.bound.keys())
        (first,) = left & on.bound.keys()
        left.remove(first)
        taken.append(on.bound[first] - started)
        time.sleep(max(0.0, started + 1 - time.monotonic()))
    return median(taken), max(taken)


def burst(on: Bed, cards: int) -> Figures:
    """Seconds until 16 halves that come at once are bound to eight cards, two to each.

    Args:
        on: an empty cluster, which gets nodes for it.
        cards: of each of these nodes.
    """
    api, pool = on.plane.api, f"burst-{next(_NUMBERS)}"
    nodes = [_node(f"{pool}-{number}", cards, pool) for number in range(8 // cards)]
    names = [each.node["metadata"]["name"] for each in nodes]
    add_inventory(api, nodes)
    wait_for_nodes(api, names)
    wait_for_cards(on.plane, names)
    with _shown(on, names):
        started = time.monotonic()
        made = on.create(on.way.half, 16, nodeSelector={"pool": pool})
        seconds = on.wait(made, 2 * NOT_TAKEN) - started
    _check_cards(on, 16, range(2, 3))
    for path in DESCRIBED:
        delete_all(api, path, names)
    return (seconds,)


def moves(on: Bed, free: int) -> Figures:
    """Processor seconds of a plan that empties nodes, and seconds from it to the first eviction.

    Args:
        on: an empty cluster; each of its nodes gets five pods of a ReplicaSet.
        free: nodes to be emptied.
    """
    api, labels = on.plane.api, {"app": "moved"}
    made = [pod(f"moved-{number}", "none", on.way.whole) for number in range(MOVED * on.nodes)]
    for each in made:
        each["metadata"]["labels"] = labels
    create_all(api, PODS, made)
    create_all(api, BINDINGS, [_binding(number, on.nodes) for number in range(len(made))])
    template = {
        "metadata": {"labels": labels},
        "spec": {**made[0]["spec"], "schedulerName": on.way.name},
    }
    spec = {"replicas": len(made), "selector": {"matchLabels": labels}, "template": template}
    api.create(REPLICA_SETS, {"metadata": {"name": "moved"}, "spec": spec})
    within(300, lambda: api.get(OWNER)["status"].get("readyReplicas") == len(made))
    mover = start_mover(on.plane)
    plan, spent = _planned(on.plane, free)
    number = len(plan["spec"]["moves"])
    _check(number == MOVED * free, f"{number} moves in place of {MOVED * free}")
    started = time.monotonic()
    api.create(PLANS, plan)
    first = f"{PODS}/{plan['spec']['moves'][0]['pod'].rpartition('/')[2]}"
    within(PATIENCE, lambda: _is_gone(on.plane, first))
    seconds = time.monotonic() - started
    mover.kill()
    for path in (f"{PLANS}/{plan['metadata']['name']}", OWNER):
        api.delete(path)
    within(300, lambda: not on.names())
    on.clear()
    return spent, seconds


def _check(right: bool, wrong: str) -> None:  # noqa: FBT001
    if not right:
        raise WrongError(wrong)


def _node(name: str, cards: int, pool: str = "main") -> Described:
    found = gpus(name, cards)
    alone = DialectRecords(labels={"pool": pool}, resources={COUNTED: str(cards)})
    return known_to_peers(name, volcano(found), koordinator(found), alone)


@contextmanager
def _asked(on: Bed) -> Iterator[None]:
    if not on.way.served:
        yield
        return
    with webhooks(on.service):
        yield


@contextmanager
def _shown(on: Bed, nodes: Sequence[str]) -> Iterator[None]:
    """What a scheduler knows of cards changes again and again, where that wakes its pods.

    vc-scheduler sees nodes change, as in a cluster with its device plugin. koord-scheduler's own
    DeviceShare may count the card of a pod that ended after a waiting pod was tried again, also
    without Dragoman; the next try is at a change of a Device, or minutes later (1.8.0, seen).
    """
    is_vc = on.way.scheduler == _VC
    if not is_vc and on.way.mode != pace.NATIVE:
        yield
        return
    if is_vc:
        pace.show_nodes(on.plane.api)
    kinds = (ALL_NODES,) if is_vc else (DEVICES,)
    with changing(on.plane.api, *nodes, kinds=kinds, seconds=on.handshake):
        yield


def _gang(on: Bed, size: int) -> list[str]:
    return on.way.gang(on.service, size, *[on.way.whole] * size)


def _check_cards(on: Bed, pods: int, of_card: range) -> None:
    """All pods hold a card, and each card that is held has as many pods as are right."""
    if on.way.served:
        held = allocations(on.plane.api)
        found = Counter(grant["card"] for row in held for grant in row["grants"])
        wrong = {card: number for card, number in found.items() if number not in of_card}
        _check(found.total() == pods and not wrong, f"{found.total()} of {pods} pods; {wrong}")


def _binding(number: int, nodes: int) -> Object:
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes:05}"}
    return {"metadata": {"name": f"moved-{number}"}, "target": target}


def _planned(plane: ControlPlane, free: int) -> tuple[Object, float]:
    """The plan that the command makes, and its processor seconds."""
    admin = plane.kubeconfig("admin", "system:masters")
    words = ["defrag", "--free-nodes", str(free), "-o", "json", "--kubeconfig", str(admin)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    _check(done.returncode in (0, 1), done.stderr)
    plan: Object = json.loads(done.stdout)
    return plan, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _is_gone(plane: ControlPlane, path: str) -> bool:
    try:
        return "deletionTimestamp" in plane.api.get(path)["metadata"]
    except ApiError:
        return True
