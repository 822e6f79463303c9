"""Writes a request into a pod, the reverse of reading it, and compares it with the one before."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from adapters.dialects.dialect import Dialect
from adapters.wire.kube import Pod, annotations, labels
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB, format_bytes
from core.requests.request import ContainerRequest, PluginShare, Request


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
    """Return bytes as whole MiB, rounded up."""
    return -(-memory // MIB)


def words(annotations: Mapping[str, str | Sequence[str] | None]) -> dict[str, str]:
    """Return annotations with lists as one text, separated by commas; empty ones are omitted."""
    return {
        key: value if isinstance(value, str) else ",".join(value)
        for key, value in annotations.items()
        if value
    }


def mode_word(modes: frozenset[Mode], shared: str, mig: str) -> str:
    """Return the word for the only mode that a request allows; empty where it allows both."""
    if Mode.MIG not in modes:
        return shared
    return "" if Mode.SHARED in modes else mig


def needs_exclusive_policy(
    request: Request, is_exclusive: Callable[[ContainerRequest], bool]
) -> bool:
    """Return whether a policy of the whole pod has to state that its cards are exclusive.

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
    """Return what a container requests; memory and compute are always written."""
    if container.memory is not None:
        memory = {keys.memory: mebibytes(container.memory)}
    else:
        memory = {keys.percent: container.memory_percent or FULL}
    compute = stated_compute(container, by_policy=by_policy)
    return {keys.count: container.count, **memory, keys.cores: compute}


def stated_compute(container: ContainerRequest, *, by_policy: bool) -> int:
    """Return the percent of compute to write.

    All of it where nothing else makes the cards exclusive.

    Args:
        container: the request.
        by_policy: another word makes the cards exclusive, or they need not be.
    """
    return FULL if container.exclusive and not by_policy else container.compute


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the translation does not keep.

    Attributes:
        field: what it is, such as ``container main: compute`` or an annotation.
        before: in the pod as it was.
        after: in the translated pod.
    """

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What is known of the cards of the cluster.

    Attributes:
        memory: bytes of each card; None where not known.
        vendor: the one of all cards; None where not known.
    """

    memory: int | None = None
    vendor: str | None = None


_POLICIES: dict[str, Callable[[Request], object]] = {
    "ranking": lambda request: request.ranking,
    "topology": lambda request: request.topology,
    "links": lambda request: tuple(each.linked for each in request.containers),
    "modes": lambda request: request.modes,
}
"""What each dialect has its own defaults for: kept only where the pod states it."""


def losses(before: Request, after: Request, cards: CardFacts) -> Iterator[Loss]:
    """Yield the differences between two requests, in the order of the containers and the fields.

    Policies and topology do not count: a pod that states none has the default of its dialect.

    Args:
        before: the request; ``vendor`` is set if its dialect has only cards of one vendor.
        after: the same of the translated pod.
        cards: the amounts are compared on these.
    """
    for one, other in zip(before.containers, after.containers, strict=True):
        yield from _different(_amounts(one, cards), _amounts(other, cards))
    yield from _different(_constraints(before, cards), _constraints(after, cards))
    if before.plugin is PluginShare.DEVICE:
        yield Loss("devices that the kubelet chooses", "as the device plugin makes them", "cards")
    more = after.modes - before.modes
    if more:
        yield Loss(
            "modes", *(_listed(mode.value for mode in each.modes) for each in (before, after))
        )


def removed(
    pod: Pod, keys: Iterable[str], source: Dialect, before: Request, after: Request
) -> Iterator[Loss]:
    """Yield the annotations and labels that the translation drops, and their effect with them.

    Args:
        pod: as it was.
        keys: annotations and labels that the translated pod does not have.
        source: the dialect of ``pod``.
        before: what ``pod`` requests.
        after: what the translated pod requests.
    """
    for kind, texts in (("annotation", annotations(pod)), ("label", labels(pod))):
        for key in sorted(texts.keys() & set(keys)):
            without = msgspec.structs.replace(
                pod.metadata,
                annotations={name: text for name, text in annotations(pod).items() if name != key},
                labels={name: text for name, text in labels(pod).items() if name != key},
            )
            bare = source.read_request(msgspec.structs.replace(pod, metadata=without))
            if not _kept(bare, before, after):
                yield Loss(f"{kind} {key}", texts[key], "removed")


def _kept(bare: Request, before: Request, after: Request) -> bool:
    """Return whether what distinguishes the request from ``bare``, without a key, is kept.

    A key without any effect on the request is not kept: the request does not contain its meaning.
    """
    affected = [each for each in _POLICIES.values() if each(bare) != each(before)]
    if affected:
        return all(each(before) == each(after) for each in affected)
    unknown = CardFacts()
    return _constraints(bare, unknown) != _constraints(before, unknown) or any(
        one != other for one, other in zip(bare.containers, before.containers, strict=True)
    )


def _amounts(container: ContainerRequest, cards: CardFacts) -> dict[str, str]:
    place, percent = f"container {container.name}", container.memory_percent
    amount = container.memory_on(cards.memory or 0)
    memory = f"{amount} bytes" if amount % MIB else format_bytes(amount)
    if cards.memory is None and container.memory is None:
        memory = f"{percent} % of the card"
    return {
        f"{place}: cards": str(container.count),
        f"{place}: memory": memory,
        f"{place}: compute": f"{container.compute} %",
        f"{place}: exclusive": "yes" if container.exclusive else "no",
    }


def _constraints(request: Request, cards: CardFacts) -> dict[str, str]:
    return {
        "vendor": request.vendor or cards.vendor or "any",
        "allowed uuids": _listed(request.allow_uuids or ()),
        "denied uuids": _listed(request.deny_uuids),
        "allowed types": _listed(request.allow_types or ()),
        "denied types": _listed(request.deny_types),
        "isolation": request.isolation or "any",
        **request.terms.demands(),
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _different(before: dict[str, str], after: dict[str, str]) -> Iterator[Loss]:
    for name, text in before.items():
        if after[name] != text:
            yield Loss(name, text, after[name])


def unread_amounts(pod: Pod, writer: RequestWriter) -> list[Loss]:
    """Return the amounts of a pod that no request contains."""
    return [
        Loss(f"container {container.name}: {resource}", str(amounts[resource]), "removed")
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        for amounts in (
            {**(container.resources.requests or {}), **(container.resources.limits or {})},
        )
        for resource in sorted(writer.unread & amounts.keys())
    ]
