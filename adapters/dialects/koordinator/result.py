"""Writes the record of a placement, as Koordinator's node components expect it."""

from collections.abc import Sequence

from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import NO_RESULT, Result
from adapters.dialects.formats.hami_record import METAX_ALLOCATED, bind_labels, encode_metax
from adapters.dialects.formats.koordinator_result import write_record, write_whole_nvidia
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Pod
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import Request


def write_result(pod: Pod, request: Request, placement: Placement, node: Node, now: int) -> Result:
    """Write the record of a placement; none where a device plugin alone serves the pod.

    Whole NVIDIA cards get the record of the components that describe them. For MetaX cards the
    result also has the annotation of MetaX's device plugin. HAMi's monitor finds the pods that it
    measures by a label.

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
    written = write_record(request, placement, node)
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if any(grant.card in metax for grant in placement.grants):
        written[METAX_ALLOCATED] = encode_metax(_by_container(pod, request, placement.grants))
    measured = request.isolation == keys.HAMI_CORE
    return Result(written, bind_labels(node.name) if measured else {})


def _by_container(pod: Pod, request: Request, grants: Sequence[Grant]) -> list[list[Grant]]:
    """Grants by container: MetaX's plugin reads a list for each, Koordinator writes only one."""
    if len(request.containers) == 1:
        return [list(grants)]
    return [
        [grant for grant in grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
