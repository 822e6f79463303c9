"""Allocates cards to pods that were bound while no replica answered.

The webhook for Bindings lets them pass then, so that no other pod waits for us. Their containers do
not start: admission marked them, and the node's agent creates no marked container without an
allocation. So such a pod has no card yet, and gets one here, if its node has room.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adapters.accounting.pod_requests import PodRequest, read
from adapters.dialects import allocation_record, registry
from adapters.dialects.containers import pod_containers, resource_names
from adapters.dialects.dialect import Dialect, DialectError
from adapters.wire.kube import Pod, annotations, full_name, has_variable
from adapters.wire.records.hardware import is_reported
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.ledger.problem import Problem, ProblemKind
from core.requests.grant import Allocation, Placement


@dataclass(frozen=True, slots=True)
class LateAllocations:
    """What came of the late pods of a node.

    Attributes:
        allocations: for the pods for which there is room.
        waiting: by uid, why there is no room for a pod, on its node or in its quota.
    """

    allocations: tuple[Allocation, ...]
    waiting: Mapping[str, str]


def late_pods(
    pods: Sequence[Pod], ledger: NodeLedger, dialects: Sequence[Dialect]
) -> dict[str, PodRequest]:
    """Return the pods of a node with an agent that have no cards yet, by uid.

    No scheduler has written a record on such a pod, no device plugin chooses its cards, admission
    marked every container that requests a share, and none of these was ever created.

    Args:
        pods: bound to the node.
        ledger: of the node. A pod with a readable allocation has its cards.
        dialects: all dialects.
    """
    found: dict[str, PodRequest] = {}
    for pod in pods:
        earlier = ledger.allocations.get(pod.metadata.uid)
        if earlier is not None and earlier.unread is None:
            continue
        if pod.status.phase not in (None, "Pending") or any(map(is_reported, resource_names(pod))):
            continue
        try:
            late = read(pod, dialects)
        except DialectError:
            continue
        if late is None or registry.own_records(annotations(pod).keys(), late.dialect.name):
            continue
        asking = {container.name for container in late.request.containers}
        marked = {
            member.container.name
            for member in pod_containers(pod)
            if has_variable(member.container, allocation_record.MARK)
        }
        status = pod.status
        statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        created = {each.name for each in statuses if each.container_id}
        if asking <= marked and not asking & created:
            found[pod.metadata.uid] = late
    return found


def allocate_late(
    ledger: NodeLedger, pods: Collection[PodRequest], refused: Mapping[str, str]
) -> LateAllocations:
    """Allocate cards to late pods as far as the node has room: by priority, then by uid.

    They get nothing of a place that a plan of moves keeps, until the plan ends.

    Args:
        ledger: of their node, with everything else that is in use there.
        pods: late pods; what the ledger has for them counts as free.
        refused: by uid, why the quota of a pod's namespace has no room for it.
    """
    ledger = ledger.with_holds()
    for late in pods:
        ledger = ledger.release(late.request.uid)
    allocations: list[Allocation] = []
    waiting: dict[str, str] = {}
    for late in sorted(pods, key=lambda each: (-each.request.priority, each.request.uid)):
        uid = late.request.uid
        if uid in refused:
            waiting[uid] = refused[uid]
            continue
        found = fit(late.request, ledger)
        if isinstance(found, Placement):
            allocations.append(Allocation.of(late.request, found))
            ledger = ledger.adopt(allocations[-1])
        else:
            waiting[uid] = found.text()
    return LateAllocations(tuple(allocations), waiting)


def waiting_pods(
    pods: Sequence[Pod],
    ledger: NodeLedger,
    dialects: Sequence[Dialect],
    refused: Mapping[str, str],
) -> Iterator[Problem]:
    """Return a problem for each pod that the ledger lacks because there is no room for it."""
    late = late_pods(
        [pod for pod in pods if pod.metadata.uid not in ledger.allocations], ledger, dialects
    )
    for uid, why in allocate_late(ledger, late.values(), refused).waiting.items():
        text = f"was bound while no replica answered, and waits for its GPUs: {why}"
        yield Problem(full_name(late[uid].pod), text, ProblemKind.WAITING)
