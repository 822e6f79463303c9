"""The set-up of tests of the whole: nodes, definitions, the service, all three schedulers."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledger
from e2e.harness.cluster.nodes import start_kwok
from e2e.harness.cluster.ready_cluster import wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import (
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
    start_volcano_controllers,
    start_volcano_scheduler,
)
from e2e.harness.schedulers.service import Service, install, kube_like, volcano_like
from e2e.harness.workloads.inventory import Described, add_inventory
from e2e.testbed import cache

VOLCANO, KOORD, KUBE = "volcano", "koord-scheduler", "default-scheduler"
"""The schedulers, by the names that the files of ``configs`` give them."""

Planes = Callable[[], AbstractContextManager[ControlPlane]]
"""Makes control planes, or guests in the cluster that ``--cluster`` names."""


def prepare(plane: ControlPlane) -> None:
    """What Koordinator's scheduler, the service and the agents need of a cluster.

    Raises:
        NotBuiltError: a part is not built.
    """
    define(plane, cache.asset("koordinator", "crd"))
    install(plane)


def add_ready_nodes(plane: ControlPlane, nodes: Iterable[Described]) -> None:
    """Add nodes, kept ready by kwok, to a cluster that is prepared; wait until they are.

    Raises:
        NotBuiltError: kwok is not built.
    """
    rows = tuple(nodes)
    start_kwok(plane)
    add_inventory(plane.api, rows)
    wait_for_nodes(plane.api, [row.node["metadata"]["name"] for row in rows])


def wait_for_cards(plane: ControlPlane, nodes: Collection[str]) -> None:
    """Wait until the ledgers list the cards of these nodes."""
    within(30, lambda: all("cards" in ledger(plane, name) for name in nodes))


def starter(service: Service, usual: str, *, name: str = "", file: str = "") -> Callable[[], None]:
    """A function that starts one of the schedulers, as configured for a service.

    Args:
        service: that it asks.
        usual: which one.
        name: by which pods name it, if not the one that it has on this cluster.
        file: of ``configs``, if not the scheduler's usual one.
    """
    plane = service.plane
    called = name or plane.scheduler(usual)
    if usual == VOLCANO:
        configuration = volcano_like(service, file or "volcano-scheduler-configmap.yaml")
        return partial(start_volcano_scheduler, plane, configuration, called)
    if usual == KOORD:
        configuration = kube_like(service, file or "koord-scheduler-config.yaml", called)
        return partial(start_koord_scheduler_alone, plane, configuration)
    configuration = kube_like(service, file or "kube-scheduler-config.yaml", called)
    return partial(start_kube_scheduler, plane, configuration)


def start_schedulers(service: Service) -> None:
    """Start all three, and Volcano's controllers."""
    start_volcano_controllers(service.plane, service.plane.scheduler(VOLCANO))
    for usual in (VOLCANO, KUBE, KOORD):
        starter(service, usual)()
