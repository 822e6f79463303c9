"""Pods whose init containers have finished: what only these had of a card is free.

So does HAMi's scheduler, for all of its vendors: pkg/scheduler/scheduler.go, onUpdatePod, with
AppContainersOnlyDeviceUsage of pkg/device/initContainer.go and AllInitContainersSucceeded of
pkg/util/util.go (HAMi v2.10). Those of Volcano and Koordinator count a pod's record until its end.

The kubelet runs the init containers again where the pod's sandbox ends, such as after a restart of
the node. HAMi then gives the memory twice. Here the agent starts none of them before the ledger
counts them again, which it does as soon as there is room.
"""

from collections.abc import Sequence
from dataclasses import replace

from adapters.accounting.repairs import Recount
from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import Pod
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.requests.request import Phase


def recounted(
    ledger: NodeLedger, pods: Sequence[Pod], dialects: Sequence[Dialect]
) -> tuple[Recount, ...]:
    """The allocations that count otherwise than the state of their init containers says.

    Args:
        ledger: of a node, after the other repairs.
        pods: that are bound to it.
        dialects: all dialects.
    """
    freeing = {dialect.name for dialect in dialects if dialect.frees_init_shares}
    changes: list[Recount] = []
    for pod in pods:
        allocation = ledger.allocations.get(pod.metadata.uid)
        if allocation is None or allocation.dialect not in freeing:
            continue
        if not any(grant.phase is Phase.INIT for grant in allocation.grants):
            continue
        changed = replace(allocation, initialized=is_initialized(pod))
        if changed != allocation and (changed.initialized or _has_room(ledger, changed)):
            ledger = ledger.adopt(changed)
            changes.append(Recount(changed))
    return tuple(changes)


def is_initialized(pod: Pod) -> bool:
    """Whether all init containers of a pod have succeeded; those that run to its end do not count.

    The kubelet writes the status, and no author can.
    """
    states = {status.name: status.state for status in pod.status.init_container_statuses or ()}
    ended = [
        state is not None and state.terminated is not None and state.terminated.exit_code == 0
        for member in pod_containers(pod)
        if member.phase is Phase.INIT
        for state in (states.get(member.container.name),)
    ]
    return bool(ended) and all(ended)


def _has_room(ledger: NodeLedger, allocation: Allocation) -> bool:
    try:
        ledger.release(allocation.uid).reserve(allocation)
    except LedgerError:
        return False
    return True
