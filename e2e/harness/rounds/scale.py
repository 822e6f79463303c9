"""Many pods through a stock scheduler, alone and with the service beside it, on one cluster.

Without the service the scheduler counts the same resources itself, as nodes state them: the pods
and the nodes are the same, only cards are not chosen.
"""

import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any

import yaml

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all, delete_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.nodes import is_ready
from e2e.harness.cluster.ready_cluster import PODS, cluster, pod, turn
from e2e.harness.cluster.writes import accepted_writes
from e2e.harness.names import LEDGERS
from e2e.harness.processes.run import Run
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.processes.yardstick import yardstick
from e2e.harness.rounds.round import Round
from e2e.harness.schedulers.schedulers import (
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
)
from e2e.harness.schedulers.service import Service, install, kube_like, start_service
from e2e.harness.workloads.inventory import (
    Described,
    DialectRecords,
    add_inventory,
    described,
    gpus,
    metax,
    volcano,
)
from e2e.testbed import cache

CARDS = 8
SHARES = (
    {
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": "8000",
        "volcano.sh/vgpu-cores": "10",
    },
    {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "8", "metax-tech.com/vcore": "10"},
)
STARTERS: Mapping[str, Callable[[ControlPlane, Mapping[str, Any]], None]] = {
    "kube-scheduler": start_kube_scheduler,
    "koord-scheduler": start_koord_scheduler_alone,
}
FILES = {
    "kube-scheduler": "kube-scheduler-config.yaml",
    "koord-scheduler": "koord-scheduler-config.yaml",
}

PATIENCE = 1200
"""Seconds for all pods of a round."""

REST = 30
"""Seconds for which an idle cluster is measured: every node renews its Lease three times."""

RENEWAL = "PUT leases"
"""How ``_writes`` counts the renewals of Leases."""

DISCARD = 9
"""A port at which nothing is asked."""

COUNTED = frozenset(("pods/binding", "pods", "nodeledgers", "events", "leases"))
"""Resources whose writes are counted."""

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRound(Round):
    """How a scheduler had all pods bound once.

    Attributes:
        scheduler: which.
        served: whether it asked the service.
        renewals: Leases that were renewed while ``processor`` was measured, nearly all of nodes.
        resident: MiB of the service at the end; 0 without it.
        writes: per pod, those that were accepted, by verb and resource; creation and status of
            the pods themselves are left out.
    """

    scheduler: str
    served: bool
    renewals: int
    resident: float
    writes: Mapping[str, float]

    def beyond(self, renewal: Mapping[str, float]) -> Mapping[str, float]:
        """Processor seconds of each component beyond what the renewals of Leases take.

        Args:
            renewal: seconds of each component for one, by ``renewal_of``.
        """
        return {
            name: spent - renewal.get(name, 0.0) * self.renewals
            for name, spent in self.processor.items()
        }


@contextmanager
def ground(nodes: int) -> Iterator[ControlPlane]:
    """A cluster of ``nodes`` nodes with eight cards, described by two dialects."""
    with cluster([]) as plane:
        install(plane)
        define(plane, cache.asset("koordinator", "crd"))
        add_inventory(plane.api, [_node(f"node-{number:05}") for number in range(nodes)])
        within(300, lambda: all(is_ready(one) for one in plane.api.get("/api/v1/nodes")["items"]))
        yield plane


def renewal_of(plane: ControlPlane) -> Mapping[str, float]:
    """Processor seconds of each component for one renewal of a Lease, while no pod waits.

    The nodes renew theirs every ten seconds: a hundred writes a second for 1,000 of them. So a
    round that lasts longer has more of them, whatever its pods cost.
    """
    before, used = _writes(plane.api), processor_seconds(plane.run)
    time.sleep(REST)
    after, spent = _writes(plane.api), processor_seconds(plane.run)
    count = after[RENEWAL] - before[RENEWAL]
    return {name: (spent[name] - seconds) / max(count, 1) for name, seconds in used.items()}


def described_by(plane: ControlPlane, nodes: int) -> tuple[Service, float]:
    """A service that has made a ledger of every node, and the seconds until it had."""
    started = time.monotonic()
    service = start_service(plane, log={"level": "warning", "format": "json"})
    ledgers_of(plane, nodes)
    return service, time.monotonic() - started


def bind_all(
    plane: ControlPlane, scheduler: str, pods: int, service: Service | None
) -> SchedulerRound:
    """Have a scheduler bind pods that all wait for it, and delete them."""
    file = kube_like(service or _no_service(plane), FILES[scheduler], "scale")
    configuration = yaml.safe_load(file)
    configuration["clientConnection"] = {
        "kubeconfig": str(plane.kubeconfig(scheduler, "system:masters")),
        "qps": 2000,  # else its own limit of 50 requests a second is what is measured
        "burst": 2000,
    }
    if service is None:
        del configuration["extenders"]
    asked = [pod(f"scale-{number}", "scale", dict(SHARES[number % 2])) for number in range(pods)]
    create_all(plane.api, PODS, asked)
    before, used = _writes(plane.api), processor_seconds(plane.run)
    with (
        yardstick() as unit,
        bindings(plane.api) as bound,
        turn(lambda: STARTERS[scheduler](plane, configuration), plane),
    ):
        within(PATIENCE, lambda: len(bound) == pods)
        after, spent = _writes(plane.api), processor_seconds(plane.run)
        resident = 0.0 if service is None else _resident(plane.run, service)
    times = sorted(bound.values())
    delete_all(plane.api, PODS, [each["metadata"]["name"] for each in asked])
    within(300, lambda: not plane.api.get(f"{PODS}?limit=1")["items"])
    if service is not None:
        within(300, lambda: not allocations(plane.api))
    return SchedulerRound(
        scheduler=scheduler,
        served=service is not None,
        renewals=after.pop(RENEWAL, 0) - before[RENEWAL],
        pods=pods,
        seconds=times[-1] - times[0],
        processor={name: round(spent[name] - used.get(name, 0), 1) for name in spent},
        yardstick=unit.seconds,
        resident=resident,
        writes={what: (count - before[what]) / pods for what, count in sorted(after.items())},
    )


def _node(name: str) -> Described:
    """A node that states every amount, so that a scheduler can count alone."""
    cards = gpus(name, CARDS)
    shares = {"metax-tech.com/vcore": str(100 * CARDS), "metax-tech.com/vmemory": str(80 * CARDS)}
    return described(name, volcano(cards), metax(cards), DialectRecords(resources=shares))


def _no_service(plane: ControlPlane) -> Service:
    """An address for the file, which loses its extender before it is used."""
    return Service(plane, "none", clear=DISCARD, secure=DISCARD)


@contextmanager
def bindings(api: Api, names: str = r"scale-\d+") -> Iterator[Mapping[str, float]]:
    """By pod, when it was seen to be bound; filled as they are.

    Args:
        api: of the cluster.
        names: a pattern for those of the pods that count.
    """
    pattern = re.compile(rb'"name":"(%b)".*?"nodeName":"' % names.encode())
    version: str = api.get(f"{PODS}?limit=1")["metadata"]["resourceVersion"]
    bound: dict[str, float] = {}
    over = Event()

    def follow() -> None:
        # The server ends a watch whose reader is slow; the next one goes on from there.
        last = version
        while not over.is_set():
            connection = api.connection(1)
            query = f"watch=true&resourceVersion={last}"
            with closing(connection), suppress(TimeoutError, HTTPException):
                connection.request("GET", f"{api.root}{PODS}?{query}", headers=dict(api.headers))
                for line in connection.getresponse():
                    seen = _VERSION.search(line)
                    last = seen[1].decode() if seen else last
                    found = pattern.search(line)
                    if found is not None:
                        bound.setdefault(found[1].decode(), time.monotonic())

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield bound
    finally:
        over.set()
        thread.join(10)


def _writes(api: Api) -> Counter[str]:
    """Accepted writes so far, by verb and resource, but creations of pods."""
    found = accepted_writes(api, COUNTED)
    del found["POST pods"]
    return found


def _resident(run: Run, service: Service) -> float:
    (found,) = [each for each in run.processes if each.name == service.name]
    pages = Path(f"/proc/{found.popen.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() / (1 << 20)


def allocations(api: Api) -> list[Object]:
    """What all ledgers say is held."""
    return [row for one in api.get(LEDGERS)["items"] for row in one["spec"].get("allocations", ())]
