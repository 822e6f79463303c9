"""What the NodeLedgers of a cluster of the test bed say."""

import http.client

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.names import LEDGERS
from e2e.harness.processes.waiting import within

FREED = 60
"""Seconds until the cards of a deleted pod are free, in every case.

By design it may take 40: a service keeps a reservation for ``HOLD`` (30 s), and where the leader
never saw the pod, the second turn of its scan of unbound allocations (5 s each) finds it.
"""


def ledger(plane: ControlPlane, node: str) -> Object:
    """What the NodeLedger of a node says, empty where there is none."""
    try:
        found: Object = plane.api.get(f"{LEDGERS}/{node}")["spec"]
    except ApiError as error:
        if error.status != http.client.NOT_FOUND:
            raise
        return {}
    return found


def ledgers_of(plane: ControlPlane, nodes: int) -> None:
    """Wait until ``nodes`` nodes have a ledger."""
    within(300, lambda: len(plane.api.get(LEDGERS)["items"]) >= nodes)


def held(plane: ControlPlane, node: str) -> dict[str, Object]:
    """What a NodeLedger says is held, by the name of the pod."""
    found = ledger(plane, node).get("allocations", ())
    return {row["pod"].partition("/")[2]: row for row in found}


def wait_until_free(plane: ControlPlane, *nodes: str) -> None:
    """Wait until no pod holds a card of these nodes."""
    within(FREED, lambda: not any(held(plane, node) for node in nodes))
