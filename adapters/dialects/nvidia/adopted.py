"""Adopts pods of NVIDIA's device plugin that another scheduler bound."""

from adapters.dialects.adoption.foreign import read_hami, read_koordinator
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation
from adapters.dialects.formats.koordinator_words import ALLOCATED
from adapters.dialects.nvidia.pod import requesting, requests_devices
from adapters.wire.kube import Pod, annotations
from core.hardware.node import Node


def read_adopted(pod: Pod, node: Node) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    koord-scheduler and HAMi's scheduler write a record of whole cards. None is of shared cards or
    MIG devices: what such a pod has as an annotation is text of its author.

    Raises:
        DialectError: the record cannot be parsed.
    """
    members = requesting(pod)
    if not members:
        return NO_ALLOCATION
    if requests_devices(pod):
        return None
    if ALLOCATED in annotations(pod):
        return AdoptedAllocation(read_koordinator(pod, node, members))
    grants = read_hami(pod, node)
    return AdoptedAllocation(grants) if grants else None
