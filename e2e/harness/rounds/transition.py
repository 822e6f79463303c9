"""Pods of all dialects come and go while nodes go from a device plugin to claims, and some return.

With Dragoman, and without it: then each way of giving cards keeps its own book. There Volcano's and
Koordinator's pods get cards by the plugins of their schedulers, and MetaX's get none.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from random import Random

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.bulk import at_once, create_all, delete_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, cluster, pod, turn, wait_for_nodes
from e2e.harness.doubles.balancer import balanced
from e2e.harness.names import CORE, DEVICES, LEDGERS, RATIO
from e2e.harness.oracles.blocked_cards import BlockedCards
from e2e.harness.oracles.idle_cards import IdleCards, Need
from e2e.harness.oracles.shared_cards import FULL, SharedCards
from e2e.harness.processes.repeating import repeating
from e2e.harness.processes.waiting import within
from e2e.harness.rounds import pace
from e2e.harness.rounds.changing_nodes import (
    AGENT,
    CARDS,
    CLAIMS_DRIVER,
    DRIVER,
    GPU,
    KUBELET,
    MEMORY,
    NODES,
    PLUGIN,
    ChangingNodes,
    gpus_of,
)
from e2e.harness.rounds.scale import DISCARD
from e2e.harness.schedulers.full_stack import KOORD, KUBE, VOLCANO, prepare
from e2e.harness.schedulers.native import changing
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CLAIMS, RESOURCES, a_class, a_pod

PART = 20 << 10
"""MiB of a share, and of a claim for a part: a quarter of a card."""

CLAIMED = {"whole", "part"}
"""Kinds of pods that have a claim."""

LIMITS: Mapping[str, Mapping[str, str]] = {
    "plain": {GPU: "1"},
    "volcano": {
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": str(PART),
        "volcano.sh/vgpu-cores": "25",
    },
    "koordinator": {CORE: "25", RATIO: "25"},
    "metax": {
        "metax-tech.com/sgpu": "1",
        "metax-tech.com/vcore": "25",
        "metax-tech.com/vmemory": str(PART >> 10),
    },
    "hami": {GPU: "1", "nvidia.com/gpumem": str(PART), "nvidia.com/gpucores": "25"},
}
SHARES = "DRAConsumableCapacity=true"
"""Without this feature koord-scheduler 1.8.0 takes a shared device for free as soon as one of its
claims ends. Source: k8s.io/kubernetes 1.35.2, pkg/scheduler/framework/plugins/dynamicresources,
allocateddevices.go. kube-scheduler 1.37 has it."""

DIALECTS = ("volcano", "koordinator", "metax")
THREE = ("plain", "volcano", "koordinator")
"""Kinds for all three schedulers: vc-scheduler adds up amounts of MetaX's that no node states."""

ASKS = (
    *((kind, scheduler) for kind in THREE for scheduler in (KUBE, KOORD, VOLCANO)),
    *(("metax", scheduler) for scheduler in (KUBE, KOORD, KUBE)),
    *(("whole", scheduler) for scheduler in (KUBE, KOORD, KUBE)),
    *(("part", KUBE) for _ in range(3)),
)
"""Kinds of pods and their schedulers, each as often as the others."""

ALONE = (
    *(("plain", scheduler) for scheduler in (KUBE, KOORD, VOLCANO)),
    ("volcano", VOLCANO),
    ("koordinator", KOORD),
    *((kind, scheduler) for kind, scheduler in ASKS if kind in CLAIMED),
)
"""Kinds and schedulers that get cards without Dragoman."""

LEASTWAYS = 60
"""Seconds in which pods that still wait at the end are bound."""

BLOCKED = 30
"""Seconds for which a ledger may hold another card of a pod than it has: a leader that was killed
has a successor after 15, and an API server that stalls delays it."""

STALL = 3
"""Seconds for which the API server stands still."""


def add(api: Api, kind: str, name: str, scheduler: str, node: str = "") -> None:
    """Create a pod of a kind, with its claim; on a node, or on any."""
    if kind not in CLAIMED:
        api.create(PODS, on(pod(name, scheduler, dict(LIMITS[kind])), node))
        return
    exactly: Object = {"deviceClassName": DRIVER}
    if kind == "part":
        # The driver gives all compute where none is requested.
        exactly["capacity"] = {"requests": {"memory": f"{PART}Mi", "compute": "25"}}
        shared = "device.allowMultipleAllocations == true"
        exactly["selectors"] = [{"cel": {"expression": shared}}]
    spec = {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}
    with suppress(ApiError):  # it is there, where only its pod was refused
        api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
    api.create(PODS, on(a_pod(name, scheduler, name), node))


def on(body: Object, node: str) -> Object:
    """A pod that only one node may have, where one is named, and that its kubelet ends."""
    body["metadata"]["finalizers"] = [KUBELET]
    body["spec"]["terminationGracePeriodSeconds"] = 1
    if node:
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return body


def remove(api: Api, name: str) -> None:
    """Delete a pod and its claim."""
    for path in (f"{PODS}/{name}", f"{CLAIMS}/{name}"):
        with suppress(ApiError):
            api.delete(path)


def kind_of(name: str) -> str:
    """The kind of a pod of ``Arrivals``."""
    return name.partition("-")[0]


def add_class(api: Api) -> None:
    """The class of the driver's devices, by which plain pods become claims."""
    made = a_class(DRIVER, DRIVER)
    made["spec"]["extendedResourceName"] = GPU
    api.create(f"{RESOURCES}/deviceclasses", made)


@contextmanager
def ground() -> Iterator[ControlPlane]:
    """A cluster without nodes, for one run.

    Raises:
        NotBuiltError: a part is not built.
    """
    switches = {name: {"enabled": True} for name in ("arbiter", "shadows")}
    with cluster([]) as made:
        plane = replace(made, values={"dra": {"enabled": True, **switches}})
        prepare(plane)
        start_volcano_controllers(plane)
        add_class(plane.api)
        yield plane


@dataclass(slots=True)
class Arrivals:
    """Pods that come in a fixed order, and go, any that run, while too many do.

    Attributes:
        asks: kinds and schedulers, of which each is as likely.
        shared: knows which run.
        most: how many may run.
        total: how many come; 0 for no limit.
        came: kind and scheduler of those that came, by name.
    """

    api: Api
    asks: Sequence[tuple[str, str]]
    shared: SharedCards
    most: int
    seed: int = 3
    total: int = 0
    came: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    _gone: set[str] = field(default_factory=set[str])

    @contextmanager
    def coming(self, pause: float = 0.25) -> Iterator[None]:
        """Let them come and go for a block; seconds between two."""
        began, before, dice = time.monotonic(), len(self.came), Random(self.seed)  # noqa: S311

        def go() -> None:
            running = sorted(self.shared.running.keys() & {*self.came} - self._gone)
            leave = dice.sample(running, max(0, len(running) - self.most))
            self._gone.update(leave)
            at_once(partial(remove, self.api), leave)

        def come() -> None:
            due = before + ceil((time.monotonic() - began) / pause)
            at_once(self._come, range(len(self.came), min(due, self.total or due)))

        with repeating(come, pause / 2), repeating(go, pause):
            yield

    def _come(self, number: int) -> None:
        kind, scheduler = Random(f"{self.seed} {number}").choice(self.asks)  # noqa: S311
        name = f"{kind}-{number}"

        def is_added() -> bool:
            try:
                add(self.api, kind, name, scheduler)
            except ApiError as error:
                return error.status == 409  # it came, and its answer was lost
            except OSError:  # the API server ends, or stands still
                return False
            return True

        within(60, is_added)
        self.came[name] = kind, scheduler


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run is.

    Attributes:
        nodes: how many, with two cards each.
        pods: how many come.
        groups: of nodes that change together.
        seconds: from one change to the next, at least.
        pause: seconds between two pods.
        faults: seconds between two faults: a replica is killed, the API server stalls, in turns.
    """

    nodes: int
    pods: int
    groups: int
    seconds: float
    pause: float
    faults: float
    seed: int = 46


@dataclass(slots=True)
class Outcome:
    """What a run found.

    Attributes:
        came: pods by kind.
        bound: those that were bound, by kind.
        waited: seconds until each was bound, by its name.
        idle: for how many of the seconds in which each waited one card was free that it could have.
        waiting: those that were not, of the kinds that can be.
        over: pods and claims that got a card on which there was no room, and what it had.
        problems: those, and what else the oracle could not explain.
        blocked: cards that a ledger held for a pod that had another one.
        rejected: pods that the kubelet did not start.
        kills: of replicas.
        stalls: of the API server.
        steps: nodes that changed their state.
        seconds: of the whole.
    """

    came: Counter[str]
    bound: Counter[str]
    waited: dict[str, float]
    idle: dict[str, float]
    waiting: list[str]
    over: list[tuple[str, str]]
    problems: list[str]
    blocked: list[str]
    rejected: list[str]
    kills: int
    stalls: int
    steps: int
    seconds: float


@dataclass(slots=True)
class Replicas:
    """Two replicas behind one address.

    Attributes:
        front: the address, as the schedulers and the API server know the service.
    """

    front: Service
    _replicas: Sequence[Service]
    kills: int = 0

    def kill(self) -> None:
        """Kill -9 one of them, in turns; it starts again a second later."""
        service = self._replicas[self.kills % len(self._replicas)]
        self.kills += 1
        service.kill()
        time.sleep(1)
        service.start()


@contextmanager
def replicas(plane: ControlPlane) -> Iterator[Replicas]:
    """Two replicas, which the API server asks, for a block."""
    dra = {"claims": True, "arbiter": True, "shadows": True}
    with ThreadPoolExecutor() as pool:
        start = partial(start_service, plane, dra=dra, publish=[*DIALECTS])
        pair = tuple(pool.map(start, ("one", "two")))
    ports = [each.clear for each in pair], [each.secure for each in pair]
    with balanced(*ports) as (clear, secure):
        front = Service(plane, "front", clear, secure)
        with webhooks(front):
            try:
                yield Replicas(front, pair)
            finally:
                for each in pair:
                    each.stop()


@dataclass(slots=True)
class Walk:
    """Nodes go from state to state, group by group.

    Attributes:
        served: whether Dragoman is there.
        steps: nodes that changed their state.
    """

    nodes: ChangingNodes
    names: Sequence[str]
    groups: int
    served: bool
    steps: int = 0

    @property
    def api(self) -> Api:
        """The server."""
        return self.nodes.plane.api

    def turns(self) -> Iterator[list[Callable[[], None]]]:
        """What happens at once: each group is a step behind the one before it.

        Every second group returns, half of it to the plugin alone.
        """
        path = [self.to_dialect, self.to_both, self.to_claims]
        back = [self.back_to_both, self.back_to_dialect, self.back_to_plugin]
        ways = [path if group % 2 else path + back for group in range(self.groups)]
        for at in range(self.groups + len(path + back) - 1):
            found: list[Callable[[], None]] = []
            for group, way in enumerate(ways):
                if 0 <= at - group < len(way):
                    own = self.names[group :: self.groups]
                    step = way[at - group]
                    half = own[: len(own) // 2] if step == self.back_to_plugin else own
                    found.append(partial(self._take, step, half))
            yield found

    def _take(self, step: Callable[[Sequence[str]], None], nodes: Sequence[str]) -> None:
        step(nodes)
        self.steps += len(nodes)

    def to_dialect(self, nodes: Sequence[str]) -> None:
        """From ``plugin`` to ``plugin and dialect``."""
        self._cordon(nodes)
        self._label(nodes, {AGENT: "on"})
        self._known(nodes)
        self._cordon(nodes, closed=False)

    def to_both(self, nodes: Sequence[str]) -> None:
        """To ``dialect and claims``."""
        self._cordon(nodes)
        self._label(nodes, {PLUGIN: "false"})
        self._label(nodes, {CLAIMS_DRIVER: "true"})
        self._cordon(nodes, closed=False)

    def to_claims(self, nodes: Sequence[str]) -> None:
        """To ``claims``."""
        self._cordon(nodes)
        self._drain(nodes)
        self._end_dialect(nodes)
        self._cordon(nodes, closed=False)

    def back_to_both(self, nodes: Sequence[str]) -> None:
        """From ``claims`` to ``dialect and claims``."""
        self._label(nodes, {AGENT: "on"})
        self._known(nodes)

    def back_to_dialect(self, nodes: Sequence[str]) -> None:
        """From ``dialect and claims`` to ``plugin and dialect``."""
        self._cordon(nodes)
        self._drain(nodes)
        self._label(nodes, {CLAIMS_DRIVER: None})
        self._label(nodes, {PLUGIN: "true"})
        self._cordon(nodes, closed=False)

    def back_to_plugin(self, nodes: Sequence[str]) -> None:
        """From ``plugin and dialect`` to ``plugin``."""
        self.to_claims(nodes)

    def _end_dialect(self, nodes: Sequence[str]) -> None:
        self._label(nodes, {AGENT: None})
        if self.served:
            self._merge([f"{LEDGERS}/{node}/status" for node in nodes], {"status": None})

    def _cordon(self, nodes: Sequence[str], *, closed: bool = True) -> None:
        body: Object = {"spec": {"unschedulable": closed or None}}
        self._merge([f"{NODES}/{node}" for node in nodes], body)

    def _label(self, nodes: Sequence[str], values: Mapping[str, str | None]) -> None:
        self._merge([f"{NODES}/{node}" for node in nodes], {"metadata": {"labels": values}})
        self.nodes.settle(*nodes)

    def _merge(self, paths: Sequence[str], body: Object) -> None:
        at_once(lambda path: self.api.merge(path, body), paths)

    def _known(self, nodes: Sequence[str]) -> None:
        def are_known() -> bool:
            rows = self.api.get(LEDGERS)["items"]
            return {*nodes} <= {row["metadata"]["name"] for row in rows if row["spec"].get("cards")}

        if self.served:
            within(60, are_known)

    def _drain(self, nodes: Sequence[str]) -> None:
        def are_empty() -> bool:
            """A pod whose Binding was on its way when the nodes were closed comes later."""
            there = [each["metadata"] for each in self.nodes.pods_on(nodes)]
            stay = [each["name"] for each in there if "deletionTimestamp" not in each]
            at_once(partial(remove, self.api), stay)
            return not there

        within(300, are_empty)  # 20 nodes in a large run


def run(plane: ControlPlane, size: Size, *, served: bool) -> Outcome:
    """Let all nodes walk while pods come and go, and remove what was made.

    Args:
        plane: prepared, with the class, Volcano's controllers and kwok; no scheduler of the three
            runs.
        size: of the run.
        served: whether Dragoman is there; else all schedulers run alone.
    """
    api, began = plane.api, time.monotonic()
    names = [f"walks-{number:03}" for number in range(size.nodes)]
    labels = {PLUGIN: "true", "nvidia.com/gpu.present": "true"}
    create_all(api, NODES, [fake_node(name, labels=labels) for name in names])
    wait_for_nodes(api, names)
    sharing = {name for at, name in enumerate(names) if at // size.groups % 2 == 0}
    nodes = ChangingNodes(plane, sharing, dialects=frozenset(DIALECTS), alone=not served)
    for name in (names[0], names[size.groups]):
        nodes.learn_cards(name)
    nodes.play(names)
    shared = SharedCards(gpus_of(nodes.cards), nodes.devices(), nodes.cards)
    blocked = BlockedCards(shared)
    walk = Walk(nodes, names, size.groups, served)
    most = size.nodes * CARDS * 3 // 4
    arrivals = Arrivals(api, ASKS, shared, most, size.seed, size.pods)
    can = {*(ASKS if served else ALONE)}
    faults: list[str] = []
    with ExitStack() as stack:
        pair = _started(stack, plane, names, served=served)
        stack.enter_context(nodes.running())
        nodes.settle(*names)
        if served:
            stack.enter_context(blocked.watching(api))
        stack.enter_context(shared.watching(api))
        with ExitStack() as busy:
            busy.enter_context(arrivals.coming(size.pause))
            with repeating(partial(_fault, plane, pair, faults), size.faults):
                with ThreadPoolExecutor() as pool:
                    for steps in walk.turns():
                        until = time.monotonic() + size.seconds
                        for _ in pool.map(lambda step: step(), steps):
                            pass
                        time.sleep(max(0.0, until - time.monotonic()))
                within(600, lambda: len(arrivals.came) == size.pods)
            waiting = partial(_waiting, arrivals, can)
            arrivals.most = size.nodes // 2  # those that run leave room to those that wait
            with suppress(TimeoutError):
                within(LEASTWAYS, lambda: not waiting())
        left = waiting()
        _clear(plane, names, served=served)
    delete_all(api, NODES, names)
    if not served:
        api.delete(DEVICES)  # koord-manager, which does not run, deletes a node's
    bound = shared.bound
    return Outcome(
        came=Counter(map(kind_of, arrivals.came)),
        bound=Counter(map(kind_of, bound.keys() & {*arrivals.came})),
        waited={
            name: bound[name] - shared.created[name] for name in arrivals.came if name in bound
        },
        idle=_idle(arrivals, shared, nodes, can),
        waiting=left,
        over=shared.over_admitted(),
        problems=shared.problems(),
        blocked=blocked.problems(BLOCKED),
        rejected=nodes.rejected,
        kills=pair.kills if pair else 0,
        stalls=faults.count("stall"),
        steps=walk.steps,
        seconds=time.monotonic() - began,
    )


def _idle(
    arrivals: Arrivals, shared: SharedCards, nodes: ChangingNodes, can: set[tuple[str, str]]
) -> dict[str, float]:
    """How long a card was free while a pod waited, by its name, if its kind can have cards."""
    cards = {each: IdleCards.of(shared, nodes.states, _need(*each, nodes.shared)) for each in can}
    return {
        name: cards[ask].longest(shared.created[name], shared.bound.get(name, time.monotonic()))
        for name, ask in arrivals.came.items()
        if ask in can
    }


def _need(kind: str, scheduler: str, sharing: Collection[str]) -> Need:
    """What a pod needs; kube-scheduler alone makes claims of plain pods."""

    def suits(node: str, has: frozenset[str]) -> bool:
        claims = CLAIMS_DRIVER in has and (kind != "part" or node in sharing)
        if kind == "plain":
            return PLUGIN in has or (claims and scheduler == KUBE)
        return claims if kind in CLAIMED else AGENT in has

    is_whole = kind in {"plain", "whole"}
    compute = FULL if is_whole else 0 if kind == "part" else FULL // 4
    return Need(MEMORY if is_whole else PART, compute, suits)


def _started(
    stack: ExitStack, plane: ControlPlane, names: Sequence[str], *, served: bool
) -> Replicas | None:
    """Start the replicas and the schedulers."""
    if not served:
        none = Service(plane, "none", clear=DISCARD, secure=DISCARD)
        stack.enter_context(changing(plane.api, *names, seconds=10))
        for scheduler, mode, name, gates in (
            ("kube-scheduler", pace.NONE, KUBE, ""),
            ("koord-scheduler", pace.OWN, KOORD, SHARES),
            ("vc-scheduler", pace.OWN, VOLCANO, ""),
        ):
            start = partial(pace.start, plane, none, scheduler, mode, name, gates)
            stack.enter_context(turn(start, plane))
        return None
    values = {**plane.values, "webhooks": {"bindings": {"failurePolicy": "Fail"}}}
    pair = stack.enter_context(replicas(replace(plane, values=values)))
    within(60, lambda: is_asked(plane.api))
    for scheduler, name, gates in (
        ("kube-scheduler", KUBE, ""),
        ("koord-scheduler", KOORD, SHARES),
        ("vc-scheduler", VOLCANO, ""),
    ):
        start = partial(pace.start, plane, pair.front, scheduler, pace.EXTENDER, name, gates)
        stack.enter_context(turn(start, plane))
    return pair


def is_asked(api: Api) -> bool:
    """Whether the API server asks the service: it learns of webhooks late."""
    share = pod("asked", KUBE, dict(LIMITS["volcano"]))
    found = api.create(f"{PODS}?dryRun=All", share)
    return "env" in found["spec"]["containers"][0]


def _fault(plane: ControlPlane, pair: Replicas | None, faults: list[str]) -> None:
    """Kill a replica, or let the API server stall, in turns."""
    faults.append("kill" if len(faults) % 2 else "stall")
    if faults[-1] == "stall":
        (server,) = [each for each in plane.run.processes if each.name == "kube-apiserver"]
        server.identity.signal_group(signal.SIGSTOP)
        time.sleep(STALL)
        server.identity.signal_group(signal.SIGCONT)
    elif pair is not None:
        pair.kill()


def _waiting(arrivals: Arrivals, can: set[tuple[str, str]]) -> list[str]:
    """Pods that wait, of the kinds and schedulers that may get cards; the API server says which."""
    return sorted(
        row["metadata"]["name"]
        for row in arrivals.api.get(PODS)["items"]
        if "nodeName" not in row["spec"]
        and (kind_of(row["metadata"]["name"]), row["spec"]["schedulerName"]) in can
    )


def _clear(plane: ControlPlane, names: Sequence[str], *, served: bool) -> None:
    """Delete all pods and claims of a run, and wait until no ledger has any of them."""
    for path in (PODS, CLAIMS):
        plane.api.delete(path)
    within(60, lambda: not plane.api.get(PODS)["items"] and not plane.api.get(CLAIMS)["items"])
    if served:
        own = {*names}

        def held() -> list[str]:
            rows = plane.api.get(LEDGERS)["items"]
            return [
                f"{each['metadata']['name']}: {each['spec']['allocations']}"
                for each in rows
                if each["metadata"]["name"] in own and each["spec"].get("allocations")
            ]

        within(90, lambda: not held(), held)
