"""Writes and reads ``device-allocated``, and Dragoman's own record where it is not enough."""

from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects import allocation_record
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.formats import koordinator_words as words
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.formats.hami_record import HAMI
from adapters.dialects.formats.hami_result import write_nvidia
from adapters.dialects.formats.koordinator_allocated import (
    AllocatedCard,
    encode_allocated,
    read_allocated,
    read_beside,
)
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, percent
from core.ledger.usage import shares_by_card
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Request


def write_record(pod: Pod, request: Request, placement: Placement, node: Node) -> dict[str, str]:
    """The annotations of a placement.

    If several containers request cards, Dragoman's own record distinguishes them, and
    ``device-allocated`` states the pod's peak use of each card. What koord-scheduler stated there
    of other devices stays.

    Args:
        pod: the pod.
        request: what the pod requests.
        placement: the cards that it gets.
        node: the node of the placement.
    """
    entries = _entries(request, placement.grants, node)
    written = {words.ALLOCATED: encode_allocated(entries, read_beside(annotations(pod)))}
    if len(request.containers) > 1:
        written[allocation_record.KEY] = allocation_record.encode(placement.grants)
    return written


def write_whole_nvidia(
    pod: Pod, request: Request, placement: Placement, node: Node, now: int
) -> Result:
    """Write the record of whole NVIDIA cards, for the components that describe them.

    Cards that HAMi describes get HAMi's record, for its device plugin; Koordinator's too where it
    describes all of them as well. Other cards get only Koordinator's.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        node: the node of the placement.
        now: nanoseconds since 1970.
    """
    chosen = {grant.card for grant in placement.grants}
    cards = [card for card in node.cards if card.uuid in chosen]
    if not any(HAMI in card.dialects for card in cards):
        return Result(write_record(pod, request, placement, node), {})
    of_hami = write_nvidia(pod, placement, now)
    if not all(words.NAME in card.dialects for card in cards):
        return of_hami
    own = write_record(pod, request, placement, node)
    return Result({**own, **of_hami.annotations}, of_hami.labels)


def read_record(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """Read the record of an allocation.

    Without Dragoman's own record, and if several containers request cards, the grants are the
    pod's and name no container.

    Args:
        pod: the pod.
        request: what it requests.
        node: where it runs.

    Raises:
        DialectError: the record cannot be parsed, or differs from Dragoman's own record.
    """
    entries = read_allocated(annotations(pod), node)
    own = annotations(pod).get(allocation_record.KEY)
    if own is not None:
        grants = allocation_record.read(own, request, node)
        if _peaks(request, grants) != {e.uuid: (e.memory, e.compute) for e in entries}:
            raise DialectError(
                annotation_path(allocation_record.KEY), own, f"must agree with {words.ALLOCATED}"
            )
        return grants
    wanted, *others = request.containers
    if others:
        return tuple(
            Grant("", e.uuid, e.memory, e.compute, exclusive=FULL in (e.ratio, e.compute))
            for e in entries
        )
    return tuple(
        Grant(wanted.name, e.uuid, e.memory, e.compute, wanted.exclusive, wanted.phase)
        for e in entries
    )


def _entries(request: Request, grants: Sequence[Grant], node: Node) -> list[AllocatedCard]:
    cards = {card.uuid: card for card in node.cards}
    by_container = {wanted.name: wanted for wanted in request.containers}
    return [
        _entry(request, by_container, cards[uuid], here) for uuid, here in _by_card(grants).items()
    ]


def _entry(
    request: Request, by_container: dict[str, ContainerRequest], card: Card, grants: Sequence[Grant]
) -> AllocatedCard:
    """A share requested in percent keeps its percentage; otherwise it follows from the bytes."""
    share = shares_by_card(request, grants)
    ratio = percent(share.memory, card.memory)
    percents = [
        by_container[g.container].memory_percent for g in grants if g.container in by_container
    ]
    stated = [value for value in percents if value is not None]
    if len(stated) == len(grants):
        shares = [replace(g, memory=p) for g, p in zip(grants, stated, strict=True)]
        ratio = shares_by_card(request, shares).memory
    return AllocatedCard(card.index, card.uuid, share.memory, min(ratio, FULL), share.compute)


def _by_card(grants: Sequence[Grant]) -> dict[str, list[Grant]]:
    cards: dict[str, list[Grant]] = {}
    for grant in grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards


def _peaks(request: Request, grants: Sequence[Grant]) -> dict[str, tuple[int, int]]:
    shares = {uuid: shares_by_card(request, here) for uuid, here in _by_card(grants).items()}
    return {uuid: (share.memory, share.compute) for uuid, share in shares.items()}
