"""What a pod holds that another scheduler has bound, whatever the pod asks for.

``device-allocated`` is koord-scheduler's record. Whole cards (``nvidia.com/gpu``) are HAMi's word
too, which keeps a record of its own.
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
_ASKING = (*_GPUS, *(keys.DEPRECATED[name] for name in _GPUS if name in keys.DEPRECATED))


def read_adopted(pod: Pod, node: Node) -> AdoptedAllocation | None:
    """What a pod holds; see ``Dialect``.

    Koordinator drops amounts of 0, and gives no GPU for its other devices (RDMA, FPGA).

    Raises:
        DialectError: the record cannot be understood.
    """
    asking = [member for member in pod_containers(pod) if requests_any(member, _ASKING)]
    if not asking:
        return NO_ALLOCATION
    if keys.ALLOCATED in annotations(pod):
        return AdoptedAllocation(_of_koordinator(pod, node, asking))
    grants = _of_hami(pod, node)
    return AdoptedAllocation(grants) if grants else None


def _of_koordinator(pod: Pod, node: Node, asking: list[PodContainer]) -> tuple[Grant, ...]:
    """The record tells of the pod; with one container that asks, it is that container's."""
    name, phase = ("", Phase.MAIN)
    if len(asking) == 1:
        name, phase = asking[0].container.name, asking[0].phase
    return tuple(
        Grant(name, e.uuid, e.memory, e.compute, FULL in (e.ratio, e.compute), phase)
        for e in allocated.read_allocated(annotations(pod), node)
    )


def _of_hami(pod: Pod, node: Node) -> tuple[Grant, ...]:
    """Of a card that is cut, the record says which part only in HAMi's own tables."""
    check_node(annotations(pod), node)
    place = annotation_path(NVIDIA_ALLOCATED)
    lists = read_device_lists(place, annotations(pod).get(NVIDIA_ALLOCATED, ""))
    everybody = tuple(pod_containers(pod))
    whose = list_owners(lists, everybody, (one for one in everybody if one.phase is Phase.MAIN))
    return tuple(
        listed_grant(place, listed, owner, node, MIB)
        for owner, devices in zip(whose, lists, strict=True)
        for listed in devices
    )
