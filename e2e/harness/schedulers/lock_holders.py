"""A node on which HAMi's or MetaX's device plugin would serve pods, by the lock of the node.

No kubelet starts its pods and kwok does not either: a test does what the plugin does.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledger
from e2e.harness.cluster.ready_cluster import turn
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, kube_like, start_service, with_decisions
from e2e.harness.workloads.inventory import DialectRecords, described

ANYWHERE = [{"operator": "Exists"}]
"""Tolerates that no kubelet reports the node's health."""


def unattended_node(name: str, records: DialectRecords) -> Object:
    """A node that is ready and on which no pod starts."""
    node = described(name, records).node
    del node["metadata"]["annotations"]["kwok.x-k8s.io/node"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    node["status"] |= {"conditions": [ready]}
    return node


@contextmanager
def locking_service(plane: ControlPlane, node: str) -> Iterator[Service]:
    """A service that holds locks of nodes, with kube-scheduler; the node's cards are known."""
    made = start_service(plane, nodeLock="auto")
    with_decisions(made, lambda: within(30, lambda: bool(ledger(plane, node))))
    configuration = kube_like(made, "kube-scheduler-config.yaml", "kube")
    with turn(partial(start_kube_scheduler, plane, configuration), plane):
        yield made
