"""Writes and reads the record of a placement, as Koordinator's node components expect it."""

from collections.abc import Sequence
from dataclasses import replace

from adapters.dialects import record
from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import DialectError, Result
from adapters.dialects.formats.hami_record import METAX_ALLOCATED, bind_labels, encode_metax
from adapters.dialects.formats.hami_result import write_nvidia
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


def write_result(pod: Pod, request: Request, placement: Placement, node: Node, now: int) -> Result:
    """Write the record of a placement.

    Whole cards that HAMi describes get HAMi's record, for its device plugin; Koordinator's too
    where it describes them as well.

    If several containers request cards, Dragoman's own record distinguishes them, and
    ``device-allocated`` states the pod's peak use of each card. What koord-scheduler stated there
    of other devices stays. For MetaX cards the result also
    has the annotation of MetaX's device plugin. HAMi's monitor finds the pods that it measures by
    a label.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        node: the node of the placement.
        now: nanoseconds since 1970.
    """
    cards = [card for card in node.cards if card.uuid in {g.card for g in placement.grants}]
    if not any(request.alternatives & card.dialects for card in cards):
        return _own_record(pod, request, placement, node)
    of_hami = write_nvidia(pod, placement, now)
    if not all(keys.NAME in card.dialects for card in cards):
        return of_hami
    own = _own_record(pod, request, placement, node)
    return Result({**own.annotations, **of_hami.annotations}, {**own.labels, **of_hami.labels})


def _own_record(pod: Pod, request: Request, placement: Placement, node: Node) -> Result:
    written = {
        keys.ALLOCATED: allocated.encode_allocated(
            _entries(request, placement.grants, node), allocated.read_beside(annotations(pod))
        )
    }
    if len(request.containers) > 1:
        written[record.KEY] = record.encode(placement.grants)
    metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
    if any(grant.card in metax for grant in placement.grants):
        written[METAX_ALLOCATED] = encode_metax(_by_container(pod, request, placement.grants))
    measured = request.isolation == keys.HAMI_CORE
    return Result(written, bind_labels(node.name) if measured else {})


def read_result(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
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
    entries = allocated.read_allocated(annotations(pod), node)
    own = annotations(pod).get(record.KEY)
    if own is not None:
        grants = record.read(own, request, node)
        if _peaks(request, grants) != {e.uuid: (e.memory, e.compute) for e in entries}:
            raise DialectError(
                annotation_path(record.KEY), own, f"must agree with {keys.ALLOCATED}"
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


def _by_container(pod: Pod, request: Request, grants: Sequence[Grant]) -> list[list[Grant]]:
    """Grants by container: MetaX's plugin reads a list for each, Koordinator writes only one."""
    if len(request.containers) == 1:
        return [list(grants)]
    return [
        [grant for grant in grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
