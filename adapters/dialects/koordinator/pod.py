"""Reads and writes what a pod requests of Koordinator.

The amounts follow the rules of Koordinator's webhook and scheduler together. Koordinator adds up
the containers of a pod before it reads them; here each keeps its own share.
Source: koordinator-sh/koordinator pkg/webhook/pod/mutating/device_resource_spec.go:33-132 and
pkg/scheduler/plugins/deviceshare/{utils.go:39-320,devicehandler_gpu.go:53-96}.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import msgspec

from adapters.dialects.containers import (
    LARGEST_QUANTITY,
    PodContainer,
    pod_containers,
    requests_any,
    stated_amount,
    whole_amount,
    whole_cards,
)
from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_record import BEST_EFFORT, HAMI, METAX_QOS, QOS_POLICIES
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.hints import read_hints
from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    needs_exclusive_policy,
    stated_compute,
    words,
)
from adapters.wire.kube import Pod, annotations, full_name, labels
from adapters.wire.quantity import format_binary
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB, format_bytes
from core.requests.request import ContainerRequest, PluginShare, Ranking, Request, SharingTerms

MAX_CARDS = 1024
"""More cards than any node has."""

_MAX_AMOUNTS = {
    **dict.fromkeys(keys.WHOLE_CARDS, LARGEST_QUANTITY),
    keys.GPU: MAX_CARDS * FULL,
    keys.CORE: MAX_CARDS * FULL,
    keys.MEMORY: LARGEST_QUANTITY,
    keys.RATIO: MAX_CARDS * FULL,
    keys.SHARED: MAX_CARDS,
}


@dataclass(frozen=True, slots=True)
class _ContainerAmount:
    place: str
    number: int

    def reject(self, problem: str) -> NoReturn:
        raise DialectError(self.place, self.number, problem)


_Amounts = Mapping[str, _ContainerAmount]


@dataclass(frozen=True, slots=True)
class ContainerAmounts:
    """What one container requests.

    Attributes:
        request: the shares.
        vendor: the only vendor whose cards the container can use; None for any.
    """

    request: ContainerRequest
    vendor: str | None = None


def read_container_amounts(member: PodContainer) -> ContainerAmounts | None:
    """Read what a container requests; None where it names no resource of this dialect.

    The number of cards is ``gpu.shared``; else a percentage that is a multiple of 100 and above
    100, divided by 100; else one. Each card gets an equal part of compute and memory, memory
    rounded down to the byte. A card is exclusive if the container requests 100 percent of its
    memory, or of its compute.

    Raises:
        DialectError: an invalid combination or amount, or a device that is not a GPU.
    """
    _reject_other_devices(member)
    amounts = _amounts(member)
    cards = [name for name in keys.WHOLE_CARDS if name in amounts]
    shares = [name for name in amounts if name not in keys.WHOLE_CARDS]
    if cards and (shares or len(cards) > 1):
        other = (shares or cards[1:])[0]
        amounts[other].reject(f"cannot be combined with {cards[0]}, which requests whole cards")
    if cards:
        return ContainerAmounts(
            whole_cards(member, amounts[cards[0]].number), keys.WHOLE_CARDS[cards[0]]
        )
    return ContainerAmounts(_share(member, _expand_gpu(amounts))) if shares else None


def _reject_other_devices(member: PodContainer) -> None:
    for name in keys.OUT_OF_SCOPE:
        amount = _amount(member, name, LARGEST_QUANTITY)
        if amount is not None and amount.number:
            amount.reject("is not a GPU; Dragoman allocates GPUs only, remove it from this pod")


def _amounts(member: PodContainer) -> dict[str, _ContainerAmount]:
    """Return all amounts above 0, by the current name; Koordinator ignores amounts of 0 as well."""
    found = {name: _amount(member, name, high) for name, high in _MAX_AMOUNTS.items()}
    named = {name: amount for name, amount in found.items() if amount is not None}
    above = {name: amount for name, amount in named.items() if amount.number}
    for name, amount in named.items():
        if not above and name not in keys.WHOLE_CARDS:
            amount.reject("requests nothing; must be 1 or more, or be omitted")
    return above


def _amount(member: PodContainer, name: str, high: int) -> _ContainerAmount | None:
    for spelling in (name, keys.DEPRECATED.get(name, name)):
        found = stated_amount(member, spelling)
        if found is not None:
            return _ContainerAmount(found[0], whole_amount(member, spelling, 0, high) or 0)
    return None


def _expand_gpu(amounts: _Amounts) -> _Amounts:
    """Replace ``gpu`` by the two resources that it abbreviates."""
    if keys.GPU not in amounts:
        return amounts
    for name in (keys.CORE, keys.MEMORY, keys.RATIO):
        if name in amounts:
            amounts[name].reject(f"cannot be combined with {keys.GPU}, which includes it")
    both = amounts[keys.GPU]
    return {**amounts, keys.CORE: both, keys.RATIO: both}


def _share(member: PodContainer, amounts: _Amounts) -> ContainerRequest:
    if keys.MEMORY in amounts and keys.RATIO in amounts:
        amounts[keys.MEMORY].reject(f"cannot be combined with {keys.RATIO}; remove one of them")
    if keys.MEMORY not in amounts and keys.RATIO not in amounts:
        first = amounts.get(keys.CORE) or amounts[keys.SHARED]
        first.reject(f"needs {keys.MEMORY} or {keys.RATIO} beside it")
    cards = _cards(amounts)
    compute = _per_card(amounts, keys.CORE, cards) or 0
    ratio = _per_card(amounts, keys.RATIO, cards)
    return ContainerRequest(
        member.container.name,
        cards,
        memory=None if ratio else _bytes_per_card(amounts[keys.MEMORY], cards),
        memory_percent=ratio,
        compute=compute,
        exclusive=FULL in (ratio, compute),
        linked=True,
        phase=member.phase,
    )


def _cards(amounts: _Amounts) -> int:
    if keys.SHARED in amounts:
        return amounts[keys.SHARED].number
    counting = amounts.get(keys.RATIO) or amounts.get(keys.CORE)
    if counting is None or counting.number <= FULL or counting.number % FULL:
        return 1
    return counting.number // FULL


def _per_card(amounts: _Amounts, name: str, cards: int) -> int | None:
    if name not in amounts:
        return None
    amount = amounts[name]
    for_cards = "for 1 card" if cards == 1 else f"for {cards} cards"
    if amount.number % cards:
        amount.reject(f"must be a multiple of {cards} {for_cards}")
    if amount.number > cards * FULL:
        instead = "" if keys.SHARED in amounts else "; whole cards are a multiple of 100"
        amount.reject(f"must be at most {cards * FULL} {for_cards}{instead}")
    return amount.number // cards


def _bytes_per_card(amount: _ContainerAmount, cards: int) -> int:
    if amount.number < cards:
        amount.reject(f"must be at least {cards}, one byte for each card")
    return amount.number // cards


def read_pod_request(pod: Pod, ranking: Ranking) -> Request:
    """Read what a pod requests.

    Raises:
        DialectError: the request is invalid, or out of scope.
    """
    found = [(member, read_container_amounts(member)) for member in pod_containers(pod)]
    requests = tuple(amounts.request for _, amounts in found if amounts is not None)
    if not requests:
        raise DialectError("spec.containers[*].resources", "", "requests no GPU")
    vendors = [(member.path, _vendor(member, amounts)) for member, amounts in found]
    vendor = _only({path: vendor for path, vendor in vendors if vendor is not None})
    hints = read_hints(pod, requests)
    whole = all(amounts.vendor for _, amounts in found if amounts is not None)
    # Whole NVIDIA cards alone: by the name that HAMi has too.
    by_hamis_name = {each.vendor for _, each in found if each is not None} == {keys.NVIDIA}
    divided = any(request.memory_percent != FULL for request in requests)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        alternatives=frozenset({HAMI}) if by_hamis_name else frozenset(),
        containers=tuple(
            replace(request, exclusive=request.exclusive or hints.exclusive) for request in requests
        ),
        modes=frozenset({Mode.SHARED}) if divided else frozenset({Mode.SHARED, Mode.WHOLE}),
        vendor=vendor,
        terms=SharingTerms(qos=_qos(pod, requests) if vendor == keys.METAX else None),
        isolation=labels(pod).get(keys.ISOLATION) or None if divided else None,
        ranking=ranking,
        topology=hints.topology,
        priority=pod.spec.priority or 0,
        notes=(*hints.notes, *_beside(pod)),
        plugin=PluginShare.CARD if whole else None,
    )


def _beside(pod: Pod) -> Iterator[str]:
    """Yield what Dragoman leaves to koord-scheduler: devices that are no cards."""
    for member in pod_containers(pod):
        for name in sorted(keys.BESIDE):
            if requests_any(member, (name,)):
                yield (
                    f"{member.path}.resources[{name}]: only koord-scheduler with its plugin"
                    " DeviceShare allocates it; Dragoman allocates the cards"
                )


def _vendor(member: PodContainer, amounts: ContainerAmounts | None) -> str | None:
    """Return the only vendor whose cards a container can use; checks a MetaX trigger too."""
    cards = whole_amount(member, keys.METAX_TRIGGER, 1, MAX_CARDS)
    if cards is None:
        return None if amounts is None else amounts.vendor
    place = f"{member.path}.resources[{keys.METAX_TRIGGER}]"
    if amounts is None or amounts.vendor is not None:
        raise DialectError(place, cards, f"needs {keys.RATIO} or {keys.MEMORY} in its container")
    request = amounts.request
    if cards != request.count:
        raise DialectError(place, cards, f"must be {request.count}, the number of requested cards")
    if request.memory is not None and request.memory < MIB:
        raise DialectError(
            f"{member.path}.resources[{keys.MEMORY}]",
            request.memory,
            f"must be at least {format_bytes(MIB)} of each card: MetaX counts in MiB",
        )
    return keys.METAX


def _qos(pod: Pod, requests: Sequence[ContainerRequest]) -> str | None:
    """Return the QoS policy under which a pod has a part of a MetaX card's compute, as in HAMi.

    Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:107-126,529-555.
    """
    stated = annotations(pod).get(METAX_QOS, BEST_EFFORT)
    if stated not in QOS_POLICIES:
        problem = f"must be one of {', '.join(QOS_POLICIES)}"
        raise DialectError(f"metadata.annotations[{METAX_QOS}]", stated, problem)
    return stated if any(request.compute < FULL for request in requests) else None


def _only(vendors: Mapping[str, str]) -> str | None:
    """Return the one vendor of all containers that need a vendor."""
    if len(set(vendors.values())) > 1:
        found = ", ".join(f"{path}: {vendor}" for path, vendor in vendors.items())
        raise DialectError(
            "spec.containers[*].resources", found, "a pod's cards must be of one vendor"
        )
    return next(iter(vendors.values()), None)


_WHOLE = {
    vendor: resource
    for resource, vendor in keys.WHOLE_CARDS.items()
    if resource != GPU  # without another, it does not mean Koordinator
}
_EXCLUSIVE = msgspec.json.encode({"gpu": {"exclusivePolicy": "DeviceLevel"}}).decode()


def write(request: Request, card_memory: int | None) -> WrittenRequest:
    """Write a request.

    All of a card's memory in percent makes the card exclusive here. Where the request differs, it
    is written in bytes, if the bytes of a card are known.
    """
    by_policy = needs_exclusive_policy(request, _is_exclusive)
    return WrittenRequest(
        tuple(
            _resources(container, request.vendor, card_memory, by_policy=by_policy)
            for container in request.containers
        ),
        words(
            {
                keys.ALLOCATE_HINT: _EXCLUSIVE if by_policy else "",
                METAX_QOS: (request.terms.qos or "") if request.vendor == keys.METAX else "",
            }
        ),
    )


def _is_exclusive(container: ContainerRequest) -> bool:
    return FULL in (container.memory_percent, container.compute)


def _resources(
    container: ContainerRequest, vendor: str | None, card_memory: int | None, *, by_policy: bool
) -> dict[str, int | str]:
    count = container.count
    whole = container.exclusive and container.memory_percent == FULL == container.compute
    if whole and vendor in _WHOLE:
        return {_WHOLE[vendor]: count}
    resources: dict[str, int | str] = {keys.SHARED: count} if count > 1 else {}
    compute = stated_compute(container, by_policy=by_policy or _is_exclusive(container))
    if compute:
        resources[keys.CORE] = compute * count
    ratio = _ratio(container, card_memory)
    if ratio is None:
        resources[keys.MEMORY] = format_binary(container.memory_on(card_memory or 0) * count)
    else:
        resources[keys.RATIO] = ratio * count
    if vendor == keys.METAX:
        resources[keys.METAX_TRIGGER] = count
    return resources


def _ratio(container: ContainerRequest, card_memory: int | None) -> int | None:
    """Return the percent to write; None where bytes express the request better."""
    percent = container.memory_percent
    if percent is None or card_memory is None:
        return percent
    same = max(card_memory * percent // FULL, 1) == container.memory_on(card_memory)
    return percent if same and (percent < FULL or container.exclusive) else None


WRITER = RequestWriter(
    resources=keys.OWN | keys.WHOLE_CARDS.keys() | {keys.METAX_TRIGGER},
    annotations=frozenset(
        {
            *(keys.ALLOCATE_HINT, keys.JOINT_ALLOCATE, keys.PARTITION_SPEC, keys.NUMA_SPEC),
            *(*keys.SCHEDULING_HINTS, METAX_QOS),
        }
    ),
    labels=frozenset({keys.ISOLATION}),
    unread=frozenset(),
    write=write,
)
