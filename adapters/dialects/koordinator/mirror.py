"""What a pod of another dialect has, as koord-scheduler's plugin ``DeviceShare`` counts it.

The plugin subtracts from each card what ``device-allocated`` states on any pod of a node, whatever
the pod requests. Source: koordinator-sh/koordinator v1.8.0
pkg/scheduler/plugins/deviceshare/eventhandler_pod.go ``updatePod``.
"""

from collections.abc import Sequence

from adapters.dialects.dialect import HeldShare
from adapters.dialects.formats.koordinator_allocated import (
    AllocatedCard,
    encode_allocated,
    read_beside,
)
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Pod, annotations
from core.hardware.quantity import FULL


def write_mirror(pod: Pod, shares: Sequence[HeldShare]) -> dict[str, str]:
    """Write the mirror; empty where Koordinator describes none of the cards.

    What koord-scheduler stated of other devices stays.

    Args:
        pod: bound, or about to be.
        shares: of cards of one node, each once.
    """
    cards = [_card(share) for share in shares if keys.NAME in share.card.dialects]
    if not cards:
        return {}
    return {keys.ALLOCATED: encode_allocated(cards, read_beside(annotations(pod)))}


def _card(share: HeldShare) -> AllocatedCard:
    ratio = min(-(-share.memory * FULL // max(share.card.memory, 1)), FULL)
    compute = min(share.compute, FULL)
    return AllocatedCard(share.card.index, share.card.uuid, share.memory, ratio, compute)
