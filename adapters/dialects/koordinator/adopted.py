"""Adopts pods that another scheduler bound: its record counts, not what the pod requests.

``device-allocated`` is koord-scheduler's record. HAMi's scheduler allocates ``nvidia.com/gpu``
(whole cards here) too, and writes a record of its own.
"""

from adapters.dialects.containers import PodContainer, pod_containers, requests_any
from adapters.dialects.device_list import list_owners, listed_grant, read_device_lists
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation
from adapters.dialects.hami_record import NVIDIA_ALLOCATED, check_node
from adapters.dialects.koordinator import allocated, keys
from adapters.dialects.koordinator.annotation import annotation_path
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant
from core.requests.request import Phase

_GPUS = (keys.GPU, keys.CORE, keys.MEMORY, keys.RATIO, keys.SHARED, *keys.WHOLE_CARDS)
_REQUESTING = (*_GPUS, *(keys.DEPRECATED[name] for name in _GPUS if name in keys.DEPRECATED))


def read_adopted(pod: Pod, node: Node) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    Koordinator ignores amounts of 0, and allocates no GPU for its other devices (RDMA, FPGA).

    Raises:
        DialectError: the record cannot be parsed.
    """
    requesting = [member for member in pod_containers(pod) if requests_any(member, _REQUESTING)]
    if not requesting:
        return NO_ALLOCATION
    if keys.ALLOCATED in annotations(pod):
        return AdoptedAllocation(_of_koordinator(pod, node, requesting))
    grants = _of_hami(pod, node)
    return AdoptedAllocation(grants) if grants else None


def _of_koordinator(pod: Pod, node: Node, requesting: list[PodContainer]) -> tuple[Grant, ...]:
    """Grants of the pod; if only one container requests cards, grants of that container."""
    name, phase = ("", Phase.MAIN)
    if len(requesting) == 1:
        name, phase = requesting[0].container.name, requesting[0].phase
    return tuple(
        Grant(name, e.uuid, e.memory, e.compute, FULL in (e.ratio, e.compute), phase)
        for e in allocated.read_allocated(annotations(pod), node)
    )


def _of_hami(pod: Pod, node: Node) -> tuple[Grant, ...]:
    """Grants by HAMi's record.

    For a partitioned card the record names the slice by HAMi's own tables, which are not read:
    the grant then has no slice.
    """
    check_node(annotations(pod), node)
    place = annotation_path(NVIDIA_ALLOCATED)
    lists = read_device_lists(place, annotations(pod).get(NVIDIA_ALLOCATED, ""))
    containers = tuple(pod_containers(pod))
    whose = list_owners(lists, containers, (one for one in containers if one.phase is Phase.MAIN))
    return tuple(
        listed_grant(place, listed, owner, node, MIB)
        for owner, devices in zip(whose, lists, strict=True)
        for listed in devices
    )
