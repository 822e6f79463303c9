"""Which single change of a request would make it fit: the smallest one of each kind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Request, TopologyConstraint

Fits = Callable[[Request], bool]
"""Whether a request fits any of the nodes in question."""


class ChangeKind(Enum):
    """What changes; the value is the name of the amount or constraint."""

    MEMORY = "memory"
    COMPUTE = "compute"
    COUNT = "number of cards"
    EXCLUSIVE = "exclusive use"
    TYPES = "card types"
    UUIDS = "card uuids"
    ISOLATION = "isolation provider"
    QOS = "QoS policy"
    SHARING = "rules about other pods on the card"
    TOPOLOGY = "topology"


@dataclass(frozen=True, slots=True)
class RequestChange:
    """A change of one amount of one container, or the removal of one constraint.

    Attributes:
        container: of the amount; empty for a constraint of the pod.
    """

    kind: ChangeKind
    container: str
    request: Request


def smallest_changes(request: Request, fits: Fits) -> Iterator[RequestChange]:
    """Return the smallest change of each kind that makes a request fit.

    Kinds that do not help are absent.

    Amounts are lowered for one container at a time: memory by whole MiB or percent, compute by
    percent, cards one by one.

    Args:
        request: the request that does not fit.
        fits: must allow each request that asks for less than one that it allows.
    """
    for position, container in enumerate(request.containers):
        for kind, most, lowered in _lowered(container):
            low, high = 0, most
            while low < high:  # the largest amount that fits; 0 where none does
                middle = (low + high + 1) // 2
                if fits(_with(request, position, lowered(middle))):
                    low = middle
                else:
                    high = middle - 1
            if low:
                yield RequestChange(kind, container.name, _with(request, position, lowered(low)))
    apart = tuple(replace(container, linked=False) for container in request.containers)
    for kind, free in (
        (ChangeKind.TYPES, replace(request, allow_types=None, deny_types=())),
        (ChangeKind.UUIDS, replace(request, allow_uuids=None, deny_uuids=frozenset())),
        (ChangeKind.ISOLATION, replace(request, isolation=None)),
        (ChangeKind.QOS, replace(request, terms=replace(request.terms, qos=None))),
        (ChangeKind.SHARING, replace(request, terms=request.terms.without_rules)),
        (ChangeKind.TOPOLOGY, replace(request, topology=TopologyConstraint(), containers=apart)),
    ):
        if free != request and fits(free):
            yield RequestChange(kind, "", free)


def _lowered(
    container: ContainerRequest,
) -> Iterator[tuple[ChangeKind, int, Callable[[int], ContainerRequest]]]:
    """Kinds, each with its number of smaller amounts, and the container with the nth, ascending."""
    if container.memory is None:
        most = (container.memory_percent or 1) - 1
        yield ChangeKind.MEMORY, most, lambda n: _shared(replace(container, memory_percent=n))
    else:
        most = (container.memory - 1) // MIB
        yield ChangeKind.MEMORY, most, lambda n: replace(container, memory=n * MIB)
    yield (
        ChangeKind.COMPUTE,
        container.compute,
        lambda n: _shared(replace(container, compute=n - 1)),
    )
    yield ChangeKind.COUNT, container.count - 1, lambda n: replace(container, count=n)
    if container.exclusive:
        yield ChangeKind.EXCLUSIVE, 1, lambda _: replace(container, exclusive=False)


def _shared(container: ContainerRequest) -> ContainerRequest:
    """Return a container that has got less, without what followed from having all of a card."""
    if not container.exclusive_by_amount or FULL in (container.compute, container.memory_percent):
        return container
    return replace(
        container, exclusive=False, exclusive_by_compute=False, exclusive_by_amount=False
    )


def _with(request: Request, position: int, container: ContainerRequest) -> Request:
    containers = list(request.containers)
    containers[position] = container
    return replace(request, containers=tuple(containers))
