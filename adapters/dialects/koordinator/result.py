"""Writes the record of a placement for Koordinator's node components; adopts and mirrors others.

A pod that another scheduler bound is adopted by its record, not by what the pod requests.
``device-allocated`` is koord-scheduler's record. HAMi's scheduler allocates ``nvidia.com/gpu``
(whole cards here) too, and writes a record of its own.

A mirror is what a pod of another dialect has, as koord-scheduler's plugin ``DeviceShare`` counts
it: the plugin subtracts from each card what ``device-allocated`` states on any pod of a node,
whatever the pod requests. Source: koordinator-sh/koordinator v1.8.0
pkg/scheduler/plugins/deviceshare/eventhandler_pod.go ``updatePod``.
"""

from collections.abc import Sequence

from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import NO_ALLOCATION, NO_RESULT, AdoptedAllocation, HeldShare, Result
from adapters.dialects.formats.hami_record import (
    BEST_EFFORT,
    METAX_ALLOCATED,
    METAX_QOS,
    QOS_POLICIES,
    bind_labels,
    encode_metax,
)
from adapters.dialects.formats.hami_result import read_hami
from adapters.dialects.formats.koordinator_record import (
    AllocatedCard,
    encode_allocated,
    read_beside,
    read_koordinator,
    write_record,
    write_whole_nvidia,
)
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant, Placement
from core.requests.request import Request, SharingTerms


def write_result(pod: Pod, request: Request, placement: Placement, node: Node, now: int) -> Result:
    """Write the record of a placement; none where a device plugin alone serves the pod.

    Whole NVIDIA cards get the record of the components that describe them. What koord-scheduler
    stated of other devices stays. For MetaX cards the result also has the annotation of MetaX's
    device plugin. HAMi's monitor finds the pods that it measures by a label.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        node: the node of the placement.
        now: nanoseconds since 1970.
    """
    if not placement.grants:
        return NO_RESULT
    if request.alternatives:
        return write_whole_nvidia(pod, request, placement, node, now)
    written = write_record(pod, request, placement, node)
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if any(grant.card in metax for grant in placement.grants):
        written[METAX_ALLOCATED] = encode_metax(_by_container(pod, request, placement.grants))
    measured = request.isolation == keys.HAMI_CORE
    return Result(written, bind_labels(node.name) if measured else {})


def _by_container(pod: Pod, request: Request, grants: Sequence[Grant]) -> list[list[Grant]]:
    """Return grants by container, for MetaX's plugin; Koordinator writes one list for all."""
    if len(request.containers) == 1:
        return [list(grants)]
    return [
        [grant for grant in grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]


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
        return AdoptedAllocation(grants, terms=SharingTerms(qos=_qos(pod, grants, node)))
    grants = read_hami(pod, node)
    return AdoptedAllocation(grants) if grants else None


def _qos(pod: Pod, grants: Sequence[Grant], node: Node) -> str | None:
    """Return the QoS policy that the pod gives a MetaX card by a part of its compute."""
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if not any(grant.card in metax and grant.compute < FULL for grant in grants):
        return None
    stated = annotations(pod).get(METAX_QOS, BEST_EFFORT)
    return stated if stated in QOS_POLICIES else BEST_EFFORT


def write_mirror(pod: Pod, shares: Sequence[HeldShare]) -> dict[str, str]:
    """Write the mirror; empty where Koordinator describes none of the cards.

    What koord-scheduler stated of other devices stays.

    Args:
        pod: bound, or about to be.
        shares: of cards of one node, each once.
    """
    cards = [
        AllocatedCard(
            share.card.index,
            share.card.uuid,
            share.memory,
            ratio=min(-(-share.memory * FULL // max(share.card.memory, 1)), FULL),
            compute=min(share.compute, FULL),
        )
        for share in shares
        if keys.NAME in share.card.dialects
    ]
    if not cards:
        return {}
    return {keys.ALLOCATED: encode_allocated(cards, read_beside(annotations(pod)))}
