"""Adopts pods that HAMi's scheduler bound: its record counts, not what the pod requests."""

from adapters.dialects.adoption.foreign import read_hami
from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation
from adapters.dialects.hami.settings import HamiConfig
from adapters.wire.kube import Pod
from core.hardware.node import Node


def read_adopted(pod: Pod, node: Node, config: HamiConfig) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    HAMi allocates no card for a number of 0, and none for amounts without a number.

    Raises:
        DialectError: the record is for another node, or cannot be parsed.
    """
    requesting = [one for one in pod_containers(pod) if requests_any(one, (config.count,))]
    grants = read_hami(pod, node, requesting)
    if grants:
        return AdoptedAllocation(grants)
    return None if requesting else NO_ALLOCATION
