"""What one container requests: the rules of Koordinator's webhook and scheduler together.

Koordinator adds up the containers of a pod before it reads them; here each keeps its own share.
Source: koordinator-sh/koordinator pkg/webhook/pod/mutating/device_resource_spec.go:33-132 and
pkg/scheduler/plugins/deviceshare/{utils.go:39-320,devicehandler_gpu.go:53-96}.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from adapters.dialects.containers import PodContainer, stated_amount, whole_amount, whole_cards
from adapters.dialects.dialect import DialectError
from adapters.dialects.koordinator import keys
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest

MAX_CARDS = 1024
"""More cards than any node has."""

MAX_BYTES = 2**63 - 1
"""The largest quantity that Kubernetes stores exactly."""

_MAX_AMOUNTS = {
    **dict.fromkeys(keys.WHOLE_CARDS, MAX_CARDS),
    keys.GPU: MAX_CARDS * FULL,
    keys.CORE: MAX_CARDS * FULL,
    keys.MEMORY: MAX_BYTES,
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
        amount = _amount(member, name, MAX_BYTES)
        if amount is not None and amount.number:
            amount.reject("is not a GPU; Dragoman allocates GPUs only, remove it from this pod")


def _amounts(member: PodContainer) -> dict[str, _ContainerAmount]:
    """All amounts above 0, by the current name; Koordinator ignores amounts of 0 as well."""
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
