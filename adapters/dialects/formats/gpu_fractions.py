"""Cards of pods whose fractions others allocate: NVIDIA's annotations, and KAI's reservation pods.

Such pods request no resource of a dialect. They are read, so that no other pod gets what they have;
they are never scheduled. KAI binds a pod of its own with ``nvidia.com/gpu: 1`` for each card that
it shares out, and writes there which card the kubelet gave it.
Sources: kai-scheduler/gpu-fractioning; kai-scheduler/KAI-Scheduler
pkg/resourcereservation/patcher/pod_patcher.go, pkg/binder/binding/resourcereservation
resource_reservation.go, docs/gpu-sharing.
"""

import re
from collections.abc import Mapping
from math import ceil

from adapters.wire.kube import Pod, annotations
from adapters.wire.quantity import QuantityError, parse
from core.hardware.quantity import MAX_MEMORY, MIB
from core.requests.grant import Grant

NAMESPACES = frozenset({"kai-resource-reservation", "runai-reservation"})
"""Namespaces of reservation pods. In another one the annotation is text of a pod's author."""

RESERVED = "run.ai/reserve_for_gpu_index"
"""The uuid of a reservation pod's card, in spite of its name."""

RESERVES = "shares of its card are given by KAI"
"""Why the part of a reservation pod is not known."""

UNKNOWN_PART = "no annotation says which part of its cards it has"
"""Why that of another pod is not known."""

_DEVICES = re.compile(r"nvidia\.com/container\.(.+)\.gpus\.devices")
_MEMORY = "nvidia.com/container.{}.gpu-memory.{}"

# KAI's of the whole pod: MiB, and a part of a card up to 1.
_PODS_MEMORY = "gpu-memory"
_PODS_FRACTION = "gpu-fraction"


def names_fraction(pod: Pod) -> bool:
    """Return whether an annotation names the cards of one of a pod's containers."""
    return any(map(_DEVICES.fullmatch, annotations(pod)))


def reserved_card(pod: Pod) -> str | None:
    """Return what a reservation pod says that its card is; None for another, or before it does."""
    return annotations(pod).get(RESERVED) if pod.metadata.namespace in NAMESPACES else None


def read_fractions(pod: Pod, memory: Mapping[str, int]) -> tuple[tuple[Grant, ...], frozenset[str]]:
    """Return what a pod's annotations give it, and the cards of which they give an unknown part.

    What it is given for certain counts: the request, else the limit. Cards that the node does not
    have are left out.

    Args:
        pod: any pod.
        memory: bytes of the node's cards, by uuid.
    """
    texts = annotations(pod)
    grants: list[Grant] = []
    unclear: set[str] = set()
    for match in filter(None, map(_DEVICES.fullmatch, texts)):
        container = match[1]
        stated = (texts.get(_MEMORY.format(container, each)) for each in ("request", "limit"))
        amount = next((text for text in stated if text is not None), None)
        for card in map(str.strip, texts[match[0]].split(",")):
            if card not in memory:
                continue
            try:
                if amount is not None:
                    part = parse(amount)
                elif _PODS_MEMORY in texts:
                    part = parse(texts[_PODS_MEMORY]) * MIB
                else:
                    part = parse(texts.get(_PODS_FRACTION, "")) * memory[card]
            except QuantityError:
                part = parse("0")
            if 0 < part <= MAX_MEMORY:
                grants.append(Grant(container, card, ceil(part), 0))
            else:
                unclear.add(card)
    return tuple(grants), frozenset(unclear)
