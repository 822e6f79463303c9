"""Evictions where cards are fragmented, by the descheduler or by a plan, and what follows.

The nodes have cards of one kind in one dialect, so that the sums that the descheduler compares are
exact. Each round begins with the same pods on the same cards.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.ready_cluster import PODS, cluster, pod, turn, wait_for_nodes
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.waiting import within
from e2e.harness.rounds.scale import CARDS, allocations
from e2e.harness.schedulers.mover import PLANS, start_mover
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, install, kube_like, start_service
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import (
    SLOTS,
    DialectRecords,
    add_inventory,
    described,
    gpus,
    volcano,
)
from e2e.testbed import cache

CORES = "volcano.sh/vgpu-cores"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = "/api/v1/nodes"
NAME = "room"
"""By which pods name the scheduler."""

APPS = 60
WAITING = "waiting"
"""What the names of the pods that wait begin with; their priority class, so that the scheduler
tries them before the pods that controllers create in place of evicted ones. It evicts nothing."""

NODE = DialectRecords(resources={"cpu": "96", "memory": "768Gi"})
CARD, FULL = 80, 100
"""GiB and percent of a card."""
MOST = CARD * CARDS
"""GiB of the cards of a node."""

QUIET = 20
"""Seconds without a change after which nothing more is expected; the scheduler tries a pod again
after at most ten."""

PATIENCE = 600


@dataclass(slots=True)
class _App:
    """Equal pods of one ReplicaSet.

    Attributes:
        memory: GiB of its card that a pod gets.
        places: node and card of each pod.
    """

    name: str
    memory: int
    cores: int
    cpu: int
    main_memory: int
    places: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @classmethod
    def drawn(cls, number: int, dice: random.Random) -> "_App":
        """Amounts as ``bench/fragmented.py`` draws them."""
        return cls(
            f"app-{number:02}",
            dice.choice((8, 10, 16, 24, 32, 40)),
            dice.choice((0, 10, 20)),
            dice.randint(1, 4),
            dice.choice((4, 8, 16)),
        )

    def pod(self, name: str) -> Object:
        """A pod of it without a place."""
        made = pod(name, NAME, _limits(self.memory, self.cores, self.cpu, self.main_memory))
        made["metadata"]["labels"] = {"app": self.name}
        return made

    def bound(self) -> Iterator[Object]:
        """The pods, each with the record of the card that it has.

        Source: volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go, encodeContainerDevices.
        """
        for number, (node, card) in enumerate(self.places):
            made = self.pod(f"{self.name}-{number}")
            record = f"{card},NVIDIA,{self.memory << 10},{self.cores}:"
            made["metadata"]["annotations"] = {
                "volcano.sh/vgpu-node": node,
                "volcano.sh/vgpu-ids-new": record,
                "volcano.sh/devices-to-allocate": record,
            }
            made["spec"]["nodeName"] = node
            yield made

    def replica_set(self) -> Object:
        """What adopts its pods."""
        template = self.pod("")
        del template["metadata"]["name"]
        labels = template["metadata"]["labels"]
        spec = {"replicas": len(self.places), "selector": {"matchLabels": labels}}
        return {"metadata": {"name": self.name}, "spec": {**spec, "template": template}}


@dataclass(frozen=True, slots=True)
class Evictions:
    """What followed from evictions.

    Attributes:
        evicted: pods that were deleted.
        bound: of the pods that waited before.
        without_place: of the pods that controllers created in place of evicted ones.
        seconds: until the descheduler or the plan had ended.
    """

    evicted: int
    bound: int
    without_place: int
    seconds: float


@contextmanager
def ground(nodes: int) -> Iterator[tuple[ControlPlane, Service]]:
    """A cluster of empty nodes of eight cards, the mover, and a service with their ledgers.

    Raises:
        NotBuiltError: a part is not built.
    """
    cache.binary("descheduler", "descheduler")
    with cluster([]) as plane:
        install(plane)
        names = [f"node-{number:05}" for number in range(nodes)]
        add_inventory(
            plane.api, [described(name, volcano(gpus(name, CARDS)), NODE) for name in names]
        )
        wait_for_nodes(plane.api)
        value = {"value": 100, "preemptionPolicy": "Never"}
        plane.api.create(CLASSES, {"metadata": {"name": WAITING}, **value})
        log = {"level": "warning", "format": "json"}
        service = start_service(plane, log=log, moves={"enabled": True})
        start_mover(plane)
        ledgers_of(plane, nodes)
        yield plane, service


@contextmanager
def fragmented(
    plane: ControlPlane, waiting: int, memory: int, used: tuple[int, int], seed: int
) -> Iterator[None]:
    """Pods on a part of the cards' memory, and some that wait, for the length of a block.

    Args:
        plane: its nodes have ledgers, and no pods.
        waiting: pods that wait.
        memory: GiB of one card that each of these asks for, more than any has free.
        used: percent of each node's card memory that is in use, at least and at most.
        seed: of all amounts and places.
    """
    nodes = sorted(row["metadata"]["name"] for row in plane.api.get(NODES)["items"])
    apps = _fill(nodes, used, random.Random(seed))  # noqa: S311
    create_all(plane.api, PODS, [each for app in apps for each in app.bound()])
    count = sum(len(app.places) for app in apps)
    within(PATIENCE, lambda: _running(plane.api) == len(allocations(plane.api)) == count)
    create_all(plane.api, SETS, [app.replica_set() for app in apps if app.places])
    within(PATIENCE, lambda: _owned(plane.api) == count)
    asked = _limits(memory, 0, 1, 4)
    create_all(
        plane.api,
        PODS,
        [pod(f"{WAITING}-{n}", NAME, dict(asked), priority=WAITING) for n in range(waiting)],
    )
    try:
        yield
    finally:
        for path in (PLANS, SETS, PODS):
            plane.api.delete(f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
        within(PATIENCE, lambda: not plane.api.get(PODS)["items"])
        within(PATIENCE, lambda: not allocations(plane.api))


def deschedule(
    plane: ControlPlane, service: Service, plugin: str, arguments: Mapping[str, Any]
) -> Evictions:
    """Run the descheduler once with one plugin.

    Only pods are evicted that another node has room for by the descheduler's own count
    (``nodeFit``).
    """
    return _count(plane, service, partial(_run, plane, plugin, arguments))


def carry_out(plane: ControlPlane, service: Service, plan: Object) -> Evictions:
    """Have the service and the mover carry out a MovePlan.

    Raises:
        RuntimeError: the plan stopped.
    """
    return _count(plane, service, partial(_finish, plane.api, plan))


def _count(plane: ControlPlane, service: Service, evict: Callable[[], None]) -> Evictions:
    """Evict pods, wait until nothing changes any more, and count what became of them.

    Stock kube-scheduler, with the service as its extender, has tried all pods that wait before, and
    tries them once more at the end.
    """
    before = _by_uid(plane.api)
    targets = {uid for uid, each in before.items() if not _is_bound(each)}
    start = partial(_start_scheduler, plane, service)
    with turn(start, plane):
        within(PATIENCE, lambda: _rejected(plane.api) == targets)
        started = time.monotonic()
        evict()
        seconds = time.monotonic() - started
        _settle(plane.api)
    # A scheduler that starts tries every pod that waits, also those whose time has not come.
    with turn(start, plane):
        _settle(plane.api)
    after = _by_uid(plane.api)
    return Evictions(
        evicted=len(before.keys() - after.keys()),
        bound=sum(_is_bound(after[uid]) for uid in targets),
        without_place=sum(not _is_bound(after[uid]) for uid in after.keys() - targets),
        seconds=seconds,
    )


def _finish(api: Api, plan: Object) -> None:
    """Create a MovePlan, and wait until it has ended."""
    path = f"{PLANS}/{api.create(PLANS, plan)['metadata']['name']}"

    def status() -> Object:
        found: Object = api.get(path).get("status", {})
        return found

    within(
        PATIENCE, lambda: status().get("phase") in ("Finished", "Stopped"), lambda: str(status())
    )
    if status()["phase"] == "Stopped":
        raise RuntimeError(f"the plan stopped: {status()}")


def _run(plane: ControlPlane, plugin: str, arguments: Mapping[str, Any]) -> None:
    """Run the descheduler until it ends."""
    configurations = [
        {"name": "DefaultEvictor", "args": {"nodeFit": True}},
        {"name": plugin, "args": dict(arguments)},
    ]
    profile = {
        "name": "bench",
        "pluginConfig": configurations,
        "plugins": {"balance": {"enabled": [plugin]}},
    }
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    file = plane.run.folder / "descheduler-policy.yaml"
    file.write_text(json.dumps({**policy, "profiles": [profile]}))
    flags: Flags = {
        "kubeconfig": plane.kubeconfig("descheduler", "system:masters"),
        "policy-config-file": file,
        "secure-port": 0,
        "v": 3,
    }
    binary = cache.binary("descheduler", "descheduler")
    process = plane.run.start("descheduler", [binary, *words(flags)])
    if code := process.popen.wait(PATIENCE):
        raise RuntimeError(f"the descheduler ended with {code}:\n{process.tail()}")


def _fill(nodes: Sequence[str], used: tuple[int, int], dice: random.Random) -> list[_App]:
    """Pods on random cards until each node is full, without those that have ended since."""
    apps = [_App.drawn(number, dice) for number in range(APPS)]
    for node in nodes:
        left = dice.uniform(*used) / 100 * MOST
        cards: dict[str, list[_App]] = {card.uuid: [] for card in gpus(node, CARDS)}
        for _ in range(200):
            app = dice.choice(apps)
            free = [card for card, there in cards.items() if _has_room([*there, app])]
            if free:
                cards[dice.choice(free)].append(app)
        every = [(card, app) for card, there in cards.items() for app in there]
        dice.shuffle(every)
        while sum(app.memory for _, app in every) > left:
            every.pop()
        for card, app in every:
            app.places.append((node, card))
    return apps


def _has_room(apps: Sequence[_App]) -> bool:
    """Whether a card has room for one pod of each."""
    memory, cores = sum(app.memory for app in apps), sum(app.cores for app in apps)
    return memory <= CARD and cores <= FULL and len(apps) <= SLOTS


def _limits(memory: int, cores: int, cpu: int, main_memory: int) -> dict[str, str]:
    """What a pod asks for: GiB and percent of one card, CPUs, and GiB of the node's memory."""
    share = {NUMBER: "1", MEMORY: str(memory << 10), CORES: str(cores)}
    return share | {"cpu": str(cpu), "memory": f"{main_memory}Gi"}


def _start_scheduler(plane: ControlPlane, service: Service) -> None:
    """Start kube-scheduler with our file, and the scoring that HighNodeUtilization must have.

    Source: descheduler v0.36.0 README.md, HighNodeUtilization.
    """
    configuration: Object = yaml.safe_load(kube_like(service, "kube-scheduler-config.yaml", NAME))
    weights = [{"name": name, "weight": 1} for name in ("cpu", "memory", MEMORY)]
    strategy = {"type": "MostAllocated", "resources": weights}
    (profile,) = configuration["profiles"]
    profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    start_kube_scheduler(plane, configuration)


def _settle(api: Api) -> None:
    """Wait until no pod has come, gone or been bound for some time."""
    last, since = _places(api), time.monotonic()
    deadline = since + PATIENCE
    while time.monotonic() < since + QUIET:
        time.sleep(1)
        now = _places(api)
        if now != last:
            last, since = now, time.monotonic()
        if since > deadline:
            raise TimeoutError(f"pods still come and go after {PATIENCE} s")


def _places(api: Api) -> dict[str, str]:
    return {uid: each["spec"].get("nodeName", "") for uid, each in _by_uid(api).items()}


def _by_uid(api: Api) -> dict[str, Object]:
    return {each["metadata"]["uid"]: each for each in api.get(PODS)["items"]}


def _is_bound(each: Object) -> bool:
    return bool(each["spec"].get("nodeName"))


def _running(api: Api) -> int:
    return sum(each["status"]["phase"] == "Running" for each in api.get(PODS)["items"])


def _owned(api: Api) -> int:
    return sum("ownerReferences" in each["metadata"] for each in api.get(PODS)["items"])


def _rejected(api: Api) -> set[str]:
    """Uids of the pods that the scheduler found no place for."""
    return {
        each["metadata"]["uid"]
        for each in api.get(PODS)["items"]
        for row in each["status"].get("conditions", ())
        if row["type"] == "PodScheduled" and row.get("reason") == "Unschedulable"
    }
