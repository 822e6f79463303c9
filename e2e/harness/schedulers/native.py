"""Schedulers in native mode: their own plugins choose cards, and the service is the arbiter."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.ready_cluster import PODS, node_of, turn
from e2e.harness.names import DEVICES
from e2e.harness.processes.repeating import repeating
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KOORD, VOLCANO, starter
from e2e.harness.schedulers.service import Service
from e2e.harness.schedulers.stock_sharing import HANDSHAKE, on
from e2e.harness.schedulers.volcano import MEMORY, NUMBER, add_group
from e2e.harness.workloads.inventory import Described, DialectRecords, described

VOLCANO_FILE = "volcano-scheduler-configmap-native.yaml"
KOORD_FILE = "koord-scheduler-config-with-deviceshare.yaml"

ALL_NODES = "/api/v1/nodes"
DESCRIBED = (ALL_NODES, DEVICES)
"""What the components of nodes change all the time."""

GROUP = "scheduling.k8s.io/group-name"
GANG = "gang.scheduling.koordinator.sh"
_NUMBERS = count()

_RESULT = re.compile(
    r'^dragoman_decisions_total\{.*result="(\w+)",verb="binding"\} (\S+)$', re.MULTILINE
)


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


def change(api: Api, *nodes: str, kinds: Sequence[str] = (ALL_NODES,)) -> None:
    """Change nodes as the handshake of Volcano's device plugin does every 30 s.

    vc-scheduler 1.14.1 counts cards that its plugin chose, for a Binding that was rejected or a
    gang that was not bound, until it sees the node change.

    Args:
        api: of their cluster.
        nodes: their names.
        kinds: collections with an object of each node; ``DESCRIBED`` has the Devices too.
    """
    labels = {"changed": f"{time.monotonic_ns()}"}
    for node in nodes:
        for kind in kinds:
            api.merge(f"{kind}/{node}", {"metadata": {"labels": labels}})


@contextmanager
def changing(
    api: Api, *nodes: str, kinds: Sequence[str] = (ALL_NODES,), seconds: float = 2
) -> Iterator[None]:
    """Change nodes again and again, for a block; arguments as of ``change``."""
    with repeating(partial(change, api, *nodes, kinds=kinds), seconds):
        yield


def add_gang(
    service: Service, scheduler: str, size: int, node: str, share: dict[str, str]
) -> list[str]:
    """Pods for one node, all of which start or none; their names.

    No two gangs have a name in common: koord-scheduler remembers by name that a gang had its room
    once, and what a pod has, where both are made again at once.
    """
    api, gang = service.plane.api, f"gang-{next(_NUMBERS)}"
    names = [f"{gang}-{number}" for number in range(size)]
    texts = {GROUP: gang}
    if scheduler == VOLCANO:
        add_group(api, gang, size)
    else:
        texts = {f"{GANG}/name": gang, f"{GANG}/min-available": str(size)}
    for name in names:
        made = on(node, name, service.plane.scheduler(scheduler), share)
        made["metadata"]["annotations"] |= texts
        api.create(PODS, made)
    return names


def results(service: Service) -> Counter[str]:
    """How the reviews of Bindings ended so far, such as ``refused`` and ``corrected``."""
    found: Counter[str] = Counter()
    for result, amount in _RESULT.findall(service.metrics()):
        found[result] += int(float(amount))
    return found


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
    change(api, node)
    api.create(PODS, on(node, name, service.plane.scheduler(VOLCANO), {NUMBER: "1", MEMORY: "1"}))
    within(60, lambda: bool(node_of(api, name)))
    found = outcomes(service, name)
    api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    return found == ["adopted"]
