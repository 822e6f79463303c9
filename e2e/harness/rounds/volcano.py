"""Equal pods through vc-scheduler, with the service as its extender and without it."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import yaml

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, pod, turn
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_volcano_scheduler
from e2e.harness.schedulers.service import Service, volcano_like, webhooks
from e2e.harness.schedulers.volcano import GROUPS
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano

SHARE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000"}
CHOSEN = "volcano.sh/vgpu-ids-new"
"""Annotation: the cards of a pod, whichever component chose them."""

# A node that the controllers have not seen yet is tainted.
_ANY = [{"operator": "Exists"}]
_VERB = re.compile(r'^dragoman_(call_bytes_total|call_seconds_count)\{verb="(\w+)"\} (\S+)$', re.M)


@dataclass(frozen=True, slots=True)
class Round:
    """How some pods were bound.

    Attributes:
        pods: how many.
        seconds: until all were.
        processor: seconds of each component meanwhile.
        calls: of the service, by verb.
        sizes: bytes of the bodies of these calls, by verb.
    """

    pods: int
    seconds: float
    processor: Mapping[str, float]
    calls: Mapping[str, int]
    sizes: Mapping[str, int]


def grow(plane: ControlPlane, size: int) -> None:
    """Grow to ``size`` nodes with eight cards, ready from the start."""
    there = {node["metadata"]["name"] for node in plane.api.get("/api/v1/nodes")["items"]}
    names = [f"node-{number:05}" for number in range(size)]
    rows = [described(name, volcano(gpus(name, 8))) for name in names if name not in there]
    for row in rows:
        row.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    add_inventory(plane.api, rows)


def with_service(plane: ControlPlane, service: Service, pods: int) -> Round:
    """The scheduler asks the service."""
    start = partial(start_volcano_scheduler, plane, volcano_like(service))
    with webhooks(service), turn(start, plane):
        return _bound(plane, pods, service)


def alone(plane: ControlPlane, service: Service, pods: int) -> Round:
    """The scheduler has no extender and counts the amounts that nodes state; it chooses no cards.

    Its own ``deviceshare`` cannot stand here: its client works only in a pod. Source: volcano
    v1.14.1 pkg/scheduler/api/devices/util.go, NewClient.
    """
    text = json.dumps(_without_extender(volcano_like(service)))
    with turn(partial(start_volcano_scheduler, plane, text), plane):
        return _bound(plane, pods, service, chosen=False)


def _without_extender(text: str) -> Object:
    found: Object = yaml.safe_load(text)
    for tier in found["tiers"]:
        tier["plugins"] = [row for row in tier["plugins"] if row["name"] != "extender"]
    return found


def _bound(plane: ControlPlane, pods: int, service: Service, *, chosen: bool = True) -> Round:
    """Bind one pod, so that all nodes are known; then those that count, all at once."""
    plane.api.create(PODS, _pod("first"))
    within(120, lambda: _count(plane.api, chosen) == 1)
    calls, sizes, used = *_calls(service), processor_seconds(plane.run)
    started = time.monotonic()
    create_all(plane.api, PODS, [_pod(f"volcano-{number}") for number in range(pods)])
    within(300, lambda: _count(plane.api, chosen) == pods + 1)
    seconds, spent = time.monotonic() - started, processor_seconds(plane.run)
    later, larger = _calls(service)
    for path in (PODS, GROUPS):
        plane.api.delete(f"{path}?gracePeriodSeconds=0")
    within(60, lambda: not plane.api.get(PODS)["items"])
    return Round(
        pods,
        seconds,
        {name: round(spent[name] - used.get(name, 0), 2) for name in spent},
        {verb: count - calls.get(verb, 0) for verb, count in later.items()},
        {verb: size - sizes.get(verb, 0) for verb, size in larger.items()},
    )


def _pod(name: str) -> Object:
    return pod(name, "volcano", dict(SHARE), tolerations=_ANY)


def _count(api: Api, chosen: bool) -> int:  # noqa: FBT001 (which pods count)
    """Pods that are bound and, where cards are chosen, say which."""
    return sum(
        bool(row["spec"].get("nodeName"))
        and (not chosen or CHOSEN in row["metadata"].get("annotations", {}))
        for row in api.get(PODS)["items"]
    )


def _calls(service: Service) -> tuple[dict[str, int], dict[str, int]]:
    """Calls so far, and their bytes."""
    found: dict[str, dict[str, int]] = {"call_seconds_count": {}, "call_bytes_total": {}}
    for kind, verb, count in _VERB.findall(service.metrics()):
        found[kind][verb] = int(float(count))
    return found["call_seconds_count"], found["call_bytes_total"]
