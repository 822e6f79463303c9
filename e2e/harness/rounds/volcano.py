"""Equal pods through vc-scheduler: the service, its own plugin, or nothing chooses the cards."""

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
from e2e.harness.schedulers.configured import CONFIGS, configured
from e2e.harness.schedulers.native import change, known_to_peers
from e2e.harness.schedulers.schedulers import start_volcano_scheduler
from e2e.harness.schedulers.service import Service, volcano_like, webhooks
from e2e.harness.schedulers.volcano import GROUPS
from e2e.harness.workloads.inventory import add_inventory, gpus, volcano

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
        calls: of the service, by verb; none without it.
        sizes: bytes of the bodies of these calls, by verb.
    """

    pods: int
    seconds: float
    processor: Mapping[str, float]
    calls: Mapping[str, int]
    sizes: Mapping[str, int]

    @property
    def rate(self) -> float:
        """Pods in a second."""
        return self.pods / self.seconds


def grow(plane: ControlPlane, size: int) -> None:
    """Grow to ``size`` nodes with eight cards that Volcano's plugin reads too, ready at once."""
    there = {node["metadata"]["name"] for node in plane.api.get("/api/v1/nodes")["items"]}
    names = [f"node-{number:05}" for number in range(size)]
    rows = [known_to_peers(name, volcano(gpus(name, 8))) for name in names if name not in there]
    for row in rows:
        row.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    add_inventory(plane.api, rows)


def with_service(plane: ControlPlane, service: Service, pods: int, percent: int = 0) -> Round:
    """The scheduler asks the service.

    Args:
        plane: the cluster.
        service: that is asked.
        pods: to bind.
        percent: of the nodes, as many as the scheduler looks for; 0 for its default.
    """
    start = partial(start_volcano_scheduler, plane, volcano_like(service), percent=percent)
    with webhooks(service), turn(start, plane):
        return _bound(plane, pods, service)


def with_own_plugin(plane: ControlPlane, pods: int, percent: int = 0) -> Round:
    """Volcano's own ``deviceshare`` chooses the cards; the service must not run beside it.

    Args:
        plane: the cluster.
        pods: to bind.
        percent: as for ``with_service``.
    """
    found = _bare()
    share = {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}
    found["tiers"][-1]["plugins"].append(share)
    start = partial(start_volcano_scheduler, plane, json.dumps(found), percent=percent)
    with turn(start, plane):
        _touch_nodes(plane)
        return _bound(plane, pods)


def alone(plane: ControlPlane, pods: int, percent: int = 0) -> Round:
    """The scheduler counts the amounts that nodes state, and chooses no cards.

    Args:
        plane: the cluster; the service does not run.
        pods: to bind.
        percent: as for ``with_service``.
    """
    text = json.dumps(_bare())
    with turn(partial(start_volcano_scheduler, plane, text, percent=percent), plane):
        return _bound(plane, pods, chosen=False)


def _bare() -> Object:
    """Our configuration but for the extender: all kinds of rounds have the same other plugins."""
    return without_extender(
        configured("vc-scheduler", CONFIGS / "volcano-scheduler-configmap.yaml")
    )


def without_extender(text: str) -> Object:
    """A configuration of vc-scheduler, without the plugin that asks an extender."""
    found: Object = yaml.safe_load(text)
    for tier in found["tiers"]:
        tier["plugins"] = [row for row in tier["plugins"] if row["name"] != "extender"]
    return found


def _touch_nodes(plane: ControlPlane) -> None:
    """Change every node once after the scheduler's first session, and wait until it has seen all.

    deviceshare knows no cards of a node that the scheduler cached before its first session; it
    reads them when it sees the node change (volcano v1.14.1 pkg/scheduler/api/node_info.go,
    setNodeOthersResource).
    """
    api = plane.api
    names = sorted(node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"])
    api.create(PODS, _pod("first-session"))
    within(120, lambda: _count(api, chosen=False) == 1)
    change(api, *names)
    _clear(plane)
    last = {"kubernetes.io/hostname": names[-1]}  # it is seen after all others
    within(120, lambda: _gives_cards(plane, last))


def _gives_cards(plane: ControlPlane, labels: Mapping[str, str]) -> bool:
    """Whether a pod for a node gets cards, or is bound without."""
    plane.api.create(PODS, _pod("warm", labels))
    within(120, lambda: _count(plane.api, chosen=False) == 1)
    found = _count(plane.api, chosen=True) == 1
    _clear(plane)
    return found


def _bound(
    plane: ControlPlane, pods: int, service: Service | None = None, *, chosen: bool = True
) -> Round:
    """Bind one pod, so that all nodes are known; then those that count, all at once."""
    plane.api.create(PODS, _pod("first"))
    within(120, lambda: _count(plane.api, chosen=chosen) == 1)
    calls, sizes, used = *_calls(service), processor_seconds(plane.run)
    started = time.monotonic()
    create_all(plane.api, PODS, [_pod(f"volcano-{number}") for number in range(pods)])
    within(300, lambda: _count(plane.api, chosen=chosen) == pods + 1)
    seconds, spent = time.monotonic() - started, processor_seconds(plane.run)
    later, larger = _calls(service)
    _clear(plane)
    return Round(
        pods,
        seconds,
        {name: round(spent[name] - used.get(name, 0), 2) for name in spent},
        {verb: count - calls.get(verb, 0) for verb, count in later.items()},
        {verb: size - sizes.get(verb, 0) for verb, size in larger.items()},
    )


def _clear(plane: ControlPlane) -> None:
    for path in (PODS, GROUPS):
        plane.api.delete(f"{path}?gracePeriodSeconds=0")
    within(60, lambda: not plane.api.get(PODS)["items"])


def _pod(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A pod that takes a share; with labels of the nodes to which it may go."""
    return pod(name, "volcano", dict(SHARE), tolerations=_ANY, nodeSelector=labels or {})


def _count(api: Api, *, chosen: bool) -> int:
    """Pods that are bound and, where cards are chosen, say which."""
    return sum(
        bool(row["spec"].get("nodeName"))
        and (not chosen or CHOSEN in row["metadata"].get("annotations", {}))
        for row in api.get(PODS)["items"]
    )


def _calls(service: Service | None) -> tuple[dict[str, int], dict[str, int]]:
    """Calls so far, and their bytes."""
    found: dict[str, dict[str, int]] = {"call_seconds_count": {}, "call_bytes_total": {}}
    for kind, verb, count in _VERB.findall("" if service is None else service.metrics()):
        found[kind][verb] = int(float(count))
    return found["call_seconds_count"], found["call_bytes_total"]
