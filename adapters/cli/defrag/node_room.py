"""What nodes have free beside cards, and what pods need of it.

Source: k8s.io/component-helpers/resource/helpers.go, PodRequests.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from adapters.dialects.adoption import may_use_cards
from adapters.wire.kube import Amount, Container, KubeNode, Pod, Resources
from adapters.wire.quantity import QuantityError, parse

UNITS = {"cpu": 1000, "memory": 1, "ephemeral-storage": 1}
"""The resources that count, with the factor to whole numbers: thousandths of a CPU, and bytes."""

OF_POD = ("cpu", "memory")
"""What a pod may request for all its containers together, in place of what they request.
Source: k8s.io/component-helpers/resource/helpers.go, supportedPodLevelResources."""

PODS = "pods"
"""How many pods a node may have."""


def needs(pod: Pod) -> dict[str, int]:
    """Return what a pod needs of its node at its peak; nothing of what it does not request."""
    running = dict.fromkeys(UNITS, 0)
    peak = dict.fromkeys(UNITS, 0)
    for container in pod.spec.init_containers or ():
        own = _requests(container)
        for name in UNITS:
            together = running[name] + own[name]
            peak[name] = max(peak[name], together)
            if container.restart_policy == "Always":
                running[name] = together
    for container in pod.spec.containers:
        own = _requests(container)
        for name in UNITS:
            running[name] += own[name]
    most = {name: max(peak[name], running[name]) for name in UNITS}
    stated = pod.spec.resources or Resources()
    own, limits = _stated(stated.requests), _stated(stated.limits)
    for name in OF_POD:
        most[name] = own.get(name, most[name] or limits.get(name, 0))
    return {**{name: amount for name, amount in most.items() if amount}, PODS: 1}


def room(nodes: Mapping[str, KubeNode], pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """By node, what its allocatable resources leave beside its pods; without what it lacks."""
    free = {name: _allocatable(node) for name, node in nodes.items()}
    for pod in pods:
        left = free.get(pod.spec.node_name or "")
        if left and may_use_cards(pod):
            for name, amount in needs(pod).items():
                if name in left:
                    left[name] -= amount
    return free


def _allocatable(node: KubeNode) -> dict[str, int]:
    stated = node.status.allocatable or {}
    units = {**UNITS, PODS: 1}
    return {
        name: int(amount * units[name])
        for name, amount in ((name, _amount(stated[name])) for name in units if name in stated)
        if amount is not None
    }


def _requests(container: Container) -> dict[str, int]:
    """Return what a container requests; a limit stands for a request that is missing."""
    own = container.resources
    stated = _stated({**(own.limits or {}), **(own.requests or {})})
    return {name: stated.get(name, 0) for name in UNITS}


def _stated(amounts: Mapping[str, Amount] | None) -> dict[str, int]:
    """Return how much is stated of each resource that counts."""
    stated = amounts or {}
    return {
        name: ceil((_amount(stated[name]) or 0) * unit)
        for name, unit in UNITS.items()
        if name in stated
    }


def _amount(stated: Amount) -> Fraction | None:
    try:
        return parse(str(stated))
    except QuantityError:  # the API server accepts no such amount
        return None
