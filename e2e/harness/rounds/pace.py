"""Pods per second through a stock scheduler in each of its modes, in turns on one cluster."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import yaml

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all, delete_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.nodes import is_ready
from e2e.harness.cluster.ready_cluster import PODS, cluster, node_of, pod, turn
from e2e.harness.names import CORE, RATIO
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.processes.yardstick import yardstick
from e2e.harness.rounds.round import Round
from e2e.harness.rounds.scale import CARDS, PATIENCE, allocations, bindings
from e2e.harness.rounds.volcano import without_extender
from e2e.harness.schedulers.native import (
    ALL_NODES,
    KOORD_FILE,
    VOLCANO_FILE,
    change,
    known_to_peers,
    results,
)
from e2e.harness.schedulers.schedulers import (
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import (
    Service,
    install,
    kube_like,
    start_service,
    volcano_like,
    webhooks,
)
from e2e.harness.schedulers.volcano import GROUPS, MEMORY, NUMBER
from e2e.harness.workloads.inventory import add_inventory, gpus, koordinator, volcano
from e2e.testbed import cache

OWN, NATIVE, EXTENDER, NONE = "own", "native", "extender", "none"
"""The scheduler's own plugin alone; the same with Dragoman as arbiter; Dragoman as extender; no
choice of cards, the scheduler counts what nodes state."""
STOCK = "stock"
"""Neither an extender nor ``percentageOfNodesToScore``, which the extender needs."""

PLAIN = "plain-pods"
"""kube-scheduler with pods that request no card."""

VOLCANO_SHARE = {NUMBER: "1", MEMORY: "8000", "volcano.sh/vgpu-cores": "10"}
SHARES = {
    "vc-scheduler": VOLCANO_SHARE,
    "koord-scheduler": {CORE: "10", RATIO: "10"},
    "kube-scheduler": VOLCANO_SHARE,
    PLAIN: {"cpu": "100m", "memory": "128Mi"},
}
MODES = {
    "vc-scheduler": (OWN, NATIVE, EXTENDER, NONE),
    "koord-scheduler": (OWN, NATIVE, EXTENDER, NONE),
    "kube-scheduler": (EXTENDER, NONE),
    PLAIN: (STOCK, NONE, EXTENDER),
}
NAME = "pace"
"""By which pods name the scheduler."""

SETTLED = 4
"""Seconds after its start in which vc-scheduler has its first session: it gives no cards of nodes
that it cached before, until they change."""

_ANY = [{"operator": "Exists"}]  # a node that the controllers have not seen yet is tainted


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRound(Round):
    """How a scheduler had all pods bound once.

    Attributes:
        mode: in which it ran.
        rejected: Bindings that the service rejected.
        corrected: Bindings that got other cards than the scheduler chose.
    """

    mode: str
    rejected: int
    corrected: int


@contextmanager
def ground(nodes: int) -> Iterator[tuple[ControlPlane, Service]]:
    """A cluster of nodes of eight cards, which Volcano and Koordinator describe, and a service.

    The service has made the ledgers and mirrors the records of both peers. It is stopped: beside a
    scheduler alone it would adopt that one's pods.
    """
    with cluster([]) as plane:
        install(plane)
        define(plane, cache.asset("koordinator", "crd"))
        start_volcano_controllers(plane, NAME)
        names = [f"node-{number:05}" for number in range(nodes)]
        cards = [(name, gpus(name, CARDS)) for name in names]
        add_inventory(
            plane.api,
            [known_to_peers(name, volcano(each), koordinator(each)) for name, each in cards],
        )
        within(300, lambda: all(is_ready(one) for one in plane.api.get(ALL_NODES)["items"]))
        log = {"level": "warning", "format": "json"}
        service = start_service(plane, log=log, mirrors=["volcano", "koordinator"])
        ledgers_of(plane, nodes)
        service.stop()
        yield plane, service


def bind_all(
    plane: ControlPlane, service: Service, scheduler: str, mode: str, pods: int
) -> PaceRound:
    """Have a scheduler bind pods that it gets all at once, and delete them.

    Dragoman and its webhooks are there in the modes that have it. A pod that comes before the
    others shows that the scheduler knows the nodes.
    """
    share = SHARES[scheduler]
    asked = [pod(f"scale-{n}", NAME, dict(share), tolerations=_ANY) for n in range(pods)]
    served = mode in (NATIVE, EXTENDER)
    with _serving(service) if served else nullcontext():
        with turn(partial(start, plane, service, scheduler, mode), plane):
            if scheduler == "vc-scheduler":
                show_nodes(plane.api)
            plane.api.create(PODS, pod("first", NAME, dict(share), tolerations=_ANY))
            within(120, lambda: bool(node_of(plane.api, "first")))
            before, used = _results(service, served), processor_seconds(plane.run)
            with yardstick() as unit, bindings(plane.api) as bound:
                create_all(plane.api, PODS, asked)
                within(PATIENCE, lambda: len(bound) == pods)
            after, spent = _results(service, served), processor_seconds(plane.run)
        times = sorted(bound.values())
        delete_all(plane.api, PODS, ["first", *(each["metadata"]["name"] for each in asked)])
        plane.api.delete(f"{GROUPS}?gracePeriodSeconds=0")
        within(300, lambda: not plane.api.get(f"{PODS}?limit=1")["items"])
        if served:
            within(300, lambda: not allocations(plane.api))
    return PaceRound(
        mode=mode,
        pods=pods,
        seconds=times[-1] - times[0],
        processor={name: round(spent[name] - used.get(name, 0), 1) for name in spent},
        yardstick=unit.seconds,
        rejected=after["refused"] - before["refused"],
        corrected=after["corrected"] - before["corrected"],
    )


@contextmanager
def _serving(service: Service) -> Iterator[None]:
    """The service runs, and the API server asks it, for a block."""
    service.start()
    try:
        with webhooks(service):
            yield
    finally:
        service.stop()


def start(
    plane: ControlPlane,
    service: Service,
    scheduler: str,
    mode: str,
    name: str = NAME,
    gates: str = "",
) -> None:
    """Start a scheduler in a mode, with the files that users get.

    Args:
        plane: the control plane that it serves.
        service: that it asks.
        scheduler: of ``MODES``.
        mode: of it.
        name: by which pods name it.
        gates: features of kube-scheduler or koord-scheduler beside its own.
    """
    is_own = mode in (OWN, NATIVE)
    if scheduler == "vc-scheduler":
        text = volcano_like(service, VOLCANO_FILE if is_own else "volcano-scheduler-configmap.yaml")
        if mode in (OWN, NONE):
            text = json.dumps(without_extender(text))
        start_volcano_scheduler(plane, text, name)
        return
    koord = KOORD_FILE if is_own else "koord-scheduler-config.yaml"
    file = koord if scheduler == "koord-scheduler" else "kube-scheduler-config.yaml"
    configuration: Object = yaml.safe_load(kube_like(service, file, name))
    configuration["clientConnection"] |= {"qps": 2000, "burst": 2000}  # its own limit is 50
    if mode in (OWN, NONE, STOCK):
        del configuration["extenders"]
    if mode == STOCK:
        del configuration["percentageOfNodesToScore"]
    if scheduler == "koord-scheduler":
        start_koord_scheduler_alone(plane, configuration, gates=gates)
    else:
        start_kube_scheduler(plane, configuration, gates=gates)


def show_nodes(api: Api) -> None:
    """Change all nodes once vc-scheduler has had its first session."""
    time.sleep(SETTLED)
    change(api, *(row["metadata"]["name"] for row in api.get(ALL_NODES)["items"]))
    time.sleep(SETTLED)


def _results(service: Service, served: bool) -> Counter[str]:  # noqa: FBT001
    return results(service) if served else Counter()
