"""Adopts pods that another scheduler bound: its record counts, not what the pod requests.

``device-allocated`` is koord-scheduler's record. HAMi's scheduler allocates ``nvidia.com/gpu``
(whole cards here) too, and writes a record of its own.
"""

from collections.abc import Sequence

from adapters.dialects.adoption.foreign import read_hami, read_koordinator
from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation
from adapters.dialects.formats.hami_record import BEST_EFFORT, METAX_QOS, QOS_POLICIES
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant

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
        grants = read_koordinator(pod, node, requesting)
        return AdoptedAllocation(grants, qos=_qos(pod, grants, node))
    grants = read_hami(pod, node)
    return AdoptedAllocation(grants) if grants else None


def _qos(pod: Pod, grants: Sequence[Grant], node: Node) -> str | None:
    """The QoS policy that the pod gives a MetaX card, of which it has a part of the compute."""
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if not any(grant.card in metax and grant.compute < FULL for grant in grants):
        return None
    stated = annotations(pod).get(METAX_QOS, BEST_EFFORT)
    return stated if stated in QOS_POLICIES else BEST_EFFORT
