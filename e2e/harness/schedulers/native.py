"""Schedulers in native mode: their own plugins choose cards, and the service is the arbiter."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from e2e.harness.cluster.ready_cluster import PODS, node_of, turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KOORD, VOLCANO, starter
from e2e.harness.schedulers.service import Service
from e2e.harness.schedulers.stock_sharing import HANDSHAKE, on
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import Described, DialectRecords, described

VOLCANO_FILE = "volcano-scheduler-configmap-native.yaml"
KOORD_FILE = "koord-scheduler-config-with-deviceshare.yaml"


def known_to_peers(name: str, *sayings: DialectRecords) -> Described:
    """A node whose cards vc-scheduler's own plugin reads too."""
    first, *rest = sayings
    return described(name, replace(first, annotations={**first.annotations, **HANDSHAKE}), *rest)


@contextmanager
def native(service: Service, nodes: Sequence[str]) -> Iterator[None]:
    """vc-scheduler and koord-scheduler in native mode, for a block.

    Args:
        service: that is their arbiter; the API server asks it already.
        nodes: those with cards in Volcano's words.
    """
    plane = service.plane
    volcano = starter(service, VOLCANO, file=VOLCANO_FILE)
    koord = starter(service, KOORD, file=KOORD_FILE)
    with turn(volcano, plane), turn(koord, plane):
        for node in nodes:
            within(90, partial(_chooses_cards, service, node))
        yield


def change(service: Service, *nodes: str) -> None:
    """Change nodes as the handshake of Volcano's device plugin does every 30 s.

    vc-scheduler 1.14.1 counts cards that its plugin chose, for a Binding that was rejected or a
    gang that was not bound, until it sees the node change.
    """
    for node in nodes:
        labels = {"e2e": f"{time.monotonic_ns()}"}
        service.plane.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})


@contextmanager
def changing(service: Service, *nodes: str, seconds: float = 2) -> Iterator[None]:
    """Change nodes again and again, for a block."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            change(service, *nodes)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def outcomes(service: Service, name: str, verb: str = "binding") -> list[str]:
    """How the calls of a verb about a pod of the default namespace ended, the latest first."""
    uid = service.plane.api.get(f"{PODS}/{name}")["metadata"]["uid"]
    rows = service.get("/api/decisions")
    return [row["outcome"] for row in rows if row["verb"] == verb and row["uid"] == uid]


def _chooses_cards(service: Service, node: str) -> bool:
    """Whether vc-scheduler's own plugin chooses the card of a new pod.

    It does not know the cards of nodes that it cached before its first session, until they change.
    """
    api = service.plane.api
    name = f"warm-{time.monotonic_ns()}"
    change(service, node)
    api.create(PODS, on(node, name, service.plane.scheduler(VOLCANO), {NUMBER: "1", MEMORY: "1"}))
    within(60, lambda: bool(node_of(api, name)))
    found = outcomes(service, name)
    api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    return found == ["adopted"]
