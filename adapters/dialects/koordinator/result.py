"""What Koordinator's node components read of a placement, and what was written of one."""

from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects import record
from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.hami_record import METAX_ALLOCATED, NODE_KEY, encode_metax
from adapters.dialects.koordinator import allocated, keys
from adapters.dialects.koordinator.allocated import AllocatedCard
from adapters.dialects.koordinator.annotation import annotation_path
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, percent
from core.ledger.usage import shares_by_card
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Request

MAX_LABEL_LENGTH = 63
"""Characters in the value of a Kubernetes label."""


def write_result(pod: Pod, request: Request, placement: Placement, node: Node) -> Result:
    """The record of a placement.

    Several asking containers are told apart by Dragoman's own record; ``device-allocated`` then
    says what the pod has of each card at its peak. Cards of MetaX are told to MetaX's device plugin
    as well. HAMi's monitor finds the pods that it measures by a label.

    Args:
        pod: the pod.
        request: what was read from it.
        placement: what it gets.
        node: the node of the placement.
    """
    told = {keys.ALLOCATED: allocated.encode_allocated(_entries(request, placement.grants, node))}
    if len(request.containers) > 1:
        told[record.KEY] = record.encode(placement.grants)
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if any(grant.card in metax for grant in placement.grants):
        told[METAX_ALLOCATED] = encode_metax(_by_container(pod, request, placement.grants))
    measured = request.isolation == keys.HAMI_CORE and len(node.name) <= MAX_LABEL_LENGTH
    return Result(told, {NODE_KEY: node.name} if measured else {})


def read_result(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """What a pod was given.

    Where ``device-allocated`` alone is there and several containers ask, the shares are the pod's.

    Args:
        pod: the pod.
        request: what was read from it.
        node: where it runs.

    Raises:
        DialectError: the record cannot be understood, or Dragoman's own record says otherwise.
    """
    entries = allocated.read_allocated(annotations(pod), node)
    own = annotations(pod).get(record.KEY)
    if own is not None:
        grants = record.decode(own)
        if _peaks(request, grants) != {e.uuid: (e.memory, e.compute) for e in entries}:
            raise DialectError(
                annotation_path(record.KEY), own, f"must agree with {keys.ALLOCATED}"
            )
        return grants
    ask, *others = request.containers
    if others:
        return tuple(
            Grant("", e.uuid, e.memory, e.compute, exclusive=FULL in (e.ratio, e.compute))
            for e in entries
        )
    return tuple(
        Grant(ask.container, e.uuid, e.memory, e.compute, ask.exclusive, ask.phase) for e in entries
    )


def _entries(request: Request, grants: Sequence[Grant], node: Node) -> list[AllocatedCard]:
    cards = {card.uuid: card for card in node.cards}
    asks = {ask.container: ask for ask in request.containers}
    return [_entry(request, asks, cards[uuid], here) for uuid, here in _by_card(grants).items()]


def _entry(
    request: Request, asks: dict[str, ContainerRequest], card: Card, grants: Sequence[Grant]
) -> AllocatedCard:
    """What was asked for in percent is told as it was asked; the other member is derived."""
    held = shares_by_card(request, grants)
    ratio = percent(held.memory, card.memory)
    percents = [asks[g.container].memory_percent for g in grants if g.container in asks]
    stated = [value for value in percents if value is not None]
    if len(stated) == len(grants):
        shares = [replace(g, memory=p) for g, p in zip(grants, stated, strict=True)]
        ratio = shares_by_card(request, shares).memory
    return AllocatedCard(card.index, card.uuid, held.memory, min(ratio, FULL), held.compute)


def _by_card(grants: Sequence[Grant]) -> dict[str, list[Grant]]:
    cards: dict[str, list[Grant]] = {}
    for grant in grants:
        cards.setdefault(grant.card, []).append(grant)
    return cards


def _peaks(request: Request, grants: Sequence[Grant]) -> dict[str, tuple[int, int]]:
    held = {uuid: shares_by_card(request, here) for uuid, here in _by_card(grants).items()}
    return {uuid: (holder.memory, holder.compute) for uuid, holder in held.items()}


def _by_container(pod: Pod, request: Request, grants: Sequence[Grant]) -> list[list[Grant]]:
    """Koordinator itself writes one list; MetaX's plugin reads one for each container."""
    if len(request.containers) == 1:
        return [list(grants)]
    return [
        [grant for grant in grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
