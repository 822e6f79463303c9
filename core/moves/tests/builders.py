"""Pods that wait or move, and the nodes that they are on."""

from collections.abc import Sequence

from core.feasibility.inventory import Inventory
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.moves.places import Places
from core.moves.situation import NONE, PlannedPod, Situation
from core.tests.builders import a_container, a_grant, a_request, held


def a_pod(
    uid: str, gib: int, nodes: Sequence[str], weight: int = 1, count: int = 1, cpu: int = 0
) -> PlannedPod:
    request = a_request(a_container(gib * GIB, count), uid=uid)
    return PlannedPod(request, frozenset(nodes), {"cpu": cpu} if cpu else NONE, weight)


def on(ledger: NodeLedger, pod: PlannedPod, *cards: str) -> NodeLedger:
    (container,) = pod.request.containers
    grants = [a_grant(card, container.memory_on(0)) for card in cards]
    return ledger.reserve(held(*grants, uid=pod.request.uid, node=ledger.node.name))


def places(
    *ledgers: NodeLedger, movable: Sequence[PlannedPod], cpu: dict[str, int] | None = None
) -> Places:
    room = {name: {"cpu": free} for name, free in (cpu or {}).items()}
    uids = {pod.request.uid: pod for pod in movable}
    return Places(Situation(Inventory(ledgers), uids, room))
