"""Many claims through stock kube-scheduler, with the arbiter and without, on one cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.bulk import create_all, delete_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledgers_of
from e2e.harness.cluster.nodes import fake_node, is_ready
from e2e.harness.cluster.ready_cluster import PODS, cluster, turn
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.processes.yardstick import yardstick
from e2e.harness.rounds.round import Round
from e2e.harness.rounds.scale import CARDS, PATIENCE, bindings
from e2e.harness.schedulers.full_stack import prepare
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CLAIMS,
    DRIVER,
    GIB,
    RESOURCES,
    a_card,
    a_claim,
    a_class,
    a_pod,
    a_slice,
)

NODES = "/api/v1/nodes"
SCHEDULER = "scale"
EACH, COMPUTE = 10 * GIB, 10
"""Bytes and percent that a claim requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRound(Round):
    """How the pods of all claims, one each, were bound once.

    Attributes:
        asked: whether the arbiter was.
    """

    asked: bool


@contextmanager
def ground(nodes: int) -> Iterator[Service]:
    """A cluster of ``nodes`` nodes with eight cards, and a service that knows them.

    The API server does not ask it yet.
    """
    with cluster([]) as plane:
        plane = replace(plane, values={"dra": {"enabled": True, "arbiter": {"enabled": True}}})
        prepare(plane)
        names = [f"node-{number:05}" for number in range(nodes)]
        create_all(plane.api, NODES, [fake_node(name) for name in names])
        within(300, lambda: all(is_ready(each) for each in plane.api.get(NODES)["items"]))
        plane.api.create(f"{RESOURCES}/deviceclasses", a_class())
        slices = [
            a_slice(name, [a_card(card, f"GPU-{name}-{card}") for card in range(CARDS)])
            for name in names
        ]
        create_all(plane.api, f"{RESOURCES}/resourceslices", slices)
        quiet = {"level": "warning", "format": "json"}
        service = start_service(plane, log=quiet, dra={"claims": True, "arbiter": True})
        ledgers_of(plane, nodes)
        yield service
        service.stop()


def bind_all(service: Service, count: int, *, asked: bool) -> ClaimRound:
    """Have kube-scheduler bind pods that all wait for it, and delete them and their claims."""
    plane = service.plane
    names = [f"scale-{number}" for number in range(count)]
    create_all(plane.api, CLAIMS, [a_claim(name, EACH, COMPUTE) for name in names])
    create_all(plane.api, PODS, [a_pod(name, SCHEDULER, name) for name in names])
    with ExitStack() as stack:
        if asked:
            stack.enter_context(webhooks(service))
            within(60, lambda: _is_asked(plane.api))
        used = processor_seconds(plane.run)
        unit = stack.enter_context(yardstick())
        bound = stack.enter_context(bindings(plane.api))
        stack.enter_context(turn(lambda: _start(plane), plane))
        within(PATIENCE, lambda: len(bound) == count)
        spent = processor_seconds(plane.run)
    times = sorted(bound.values())
    for path in (PODS, CLAIMS):
        delete_all(plane.api, path, names)
    within(300, lambda: not plane.api.get(f"{CLAIMS}?limit=1")["items"])
    processor = {name: round(spent[name] - used.get(name, 0), 1) for name in spent}
    return ClaimRound(
        asked=asked,
        pods=count,
        seconds=times[-1] - times[0],
        processor=processor,
        yardstick=unit.seconds,
    )


def _start(plane: ControlPlane) -> None:
    connection = {
        "kubeconfig": str(plane.kubeconfig("kube-scheduler", "system:masters")),
        "qps": 2000,  # else its own limit of 50 requests a second is what is measured
        "burst": 2000,
    }
    profiles = [{"schedulerName": SCHEDULER}]
    start_kube_scheduler(plane, {"profiles": profiles, "clientConnection": connection})


def _is_asked(api: Api) -> bool:
    """Whether the API server asks the arbiter, which rejects a device that no slice describes."""
    claim = api.create(CLAIMS, a_claim("probe", GIB))
    result = {"request": "share", "driver": DRIVER, "pool": "none", "device": "none"}
    status = {"allocation": {"devices": {"results": [result]}}}
    try:
        api.replace(f"{CLAIMS}/probe/status", {**claim, "status": status})
    except ApiError:
        return True
    finally:
        with suppress(ApiError):
            api.delete(f"{CLAIMS}/probe")
    return False
