"""Writes a request into a pod: the reverse of reading it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Request


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A request in the words of a dialect.

    Attributes:
        containers: the resources of each container of the request, in its order.
        annotations: of the pod, by key.
    """

    containers: tuple[Mapping[str, int | str], ...]
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """How requests are written in one dialect, by the default names of its resources.

    A writer expresses what its dialect can. The caller reads the pod again, with the reader of
    the dialect, to find what the dialect cannot express.

    Attributes:
        resources: of containers, that state a request of the dialect.
        annotations: of pods, that state a request of the dialect.
        labels: of pods, that state a request of the dialect.
        unread: those of ``resources`` whose amounts no request contains.
        write: takes a request and the bytes of a card, None where these are not known. It raises
            ``DialectError`` where the dialect needs the bytes of a card.
    """

    resources: frozenset[str]
    annotations: frozenset[str]
    labels: frozenset[str]
    unread: frozenset[str]
    write: Callable[[Request, int | None], WrittenRequest]


def mebibytes(memory: int) -> int:
    """Bytes as whole MiB, rounded up."""
    return -(-memory // MIB)


def words(annotations: Mapping[str, str | Sequence[str] | None]) -> dict[str, str]:
    """Annotations with lists as one text, separated by commas; empty ones are omitted."""
    return {
        key: value if isinstance(value, str) else ",".join(value)
        for key, value in annotations.items()
        if value
    }


def mode_word(modes: frozenset[Mode], shared: str, mig: str) -> str:
    """The word for the only mode that a request allows; empty where it allows both."""
    if Mode.MIG not in modes:
        return shared
    return "" if Mode.SHARED in modes else mig


def needs_exclusive_policy(
    request: Request, is_exclusive: Callable[[ContainerRequest], bool]
) -> bool:
    """Whether a policy of the whole pod has to state that its cards are exclusive.

    Args:
        request: what the pod requests.
        is_exclusive: whether a container's amounts make its cards exclusive in the dialect.
    """
    containers = request.containers
    return all(each.exclusive for each in containers) and not all(map(is_exclusive, containers))


@dataclass(frozen=True, slots=True)
class AmountKeys:
    """The resources by which HAMi and Volcano count cards, and what of each.

    Attributes:
        count: of the number of cards.
        memory: of MiB of each card.
        percent: of percent of each card's memory.
        cores: of percent of each card's compute.
    """

    count: str
    memory: str
    percent: str
    cores: str


def amounts(
    container: ContainerRequest, keys: AmountKeys, *, by_policy: bool
) -> dict[str, int | str]:
    """What a container requests; memory and compute are always written.

    Args:
        container: the request.
        keys: by which the dialect counts.
        by_policy: as in ``stated_compute``.
    """
    if container.memory is not None:
        memory = {keys.memory: mebibytes(container.memory)}
    else:
        memory = {keys.percent: container.memory_percent or FULL}
    compute = stated_compute(container, by_policy=by_policy)
    return {keys.count: container.count, **memory, keys.cores: compute}


def stated_compute(container: ContainerRequest, *, by_policy: bool) -> int:
    """The percent of compute to write: all of it where nothing else makes the cards exclusive.

    Args:
        container: the request.
        by_policy: another word makes the cards exclusive, or they need not be.
    """
    return FULL if container.exclusive and not by_policy else container.compute
