"""Dragoman's own record of an allocation, and what any record on a pod may say of it.

A dialect writes it beside the ecosystem's own annotation where that does not say which container
has which share. Where it exists, dialects read it instead of the ecosystem's annotation.

A record names which card and which slice, and no amount: annotations of a pod can be edited by its
author, so amounts always come from the validated request and from the geometry of the card.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from adapters.dialects.dialect import DialectError, Result, UnclearRecord
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod, annotations
from adapters.wire.records.allocation import GrantRecord, grant_record, read_grant
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.ledger.usage import concurrent_grants
from core.requests.grant import Grant
from core.requests.request import ContainerRequest, Request, required_memory

KEY = "dragoman.dev/allocation"

MARK = "DRAGOMAN_SHARE"
"""Admission sets this variable in each container that requests a share; any value will do."""

_decoder = Decoder(list[GrantRecord])


def encode(grants: tuple[Grant, ...]) -> str:
    """Write grants as compact JSON."""
    return msgspec.json.encode([grant_record(each) for each in grants]).decode()


def decode(text: str) -> tuple[Grant, ...]:
    """Read the grants of an encoded text.

    Raises:
        DialectError: the text is not such a record.
    """
    try:
        return tuple(map(read_grant, _decoder.decode(text)))
    except UnreadableError as error:
        raise DialectError(
            f"metadata.annotations[{KEY}]", text, f"cannot be parsed: {error}"
        ) from None


def update(pod: Pod, result: Result, grants: tuple[Grant, ...]) -> Result:
    """Return the result with a record of these grants, if it leaves a record that the pod has.

    An earlier record that stays on the pod would be read in place of the result.
    """
    if KEY not in annotations(pod) or KEY in result.annotations:
        return result
    return replace(result, annotations={**result.annotations, KEY: encode(grants)})


def read(text: str, request: Request, node: Node) -> tuple[Grant, ...]:
    """Return the cards and slices that a record names, with the amounts of the request.

    Raises:
        DialectError: the text is no such record, or the request or the node contradicts it.
        UnclearRecord: the node contradicts a slice only.
    """
    field, choice = f"metadata.annotations[{KEY}]", decode(text)
    try:
        return restate(request, choice, node)
    except SliceError as error:
        raise UnclearRecord(field, text, str(error), (each.card for each in choice)) from None
    except ChoiceError as error:
        raise DialectError(field, text, str(error)) from None


class ChoiceError(ValueError):
    """A choice of cards that the request or the node contradicts; the text says how."""


class SliceError(ChoiceError):
    """A choice of as many cards as requested, one of which does not have the slice named."""


def restate(request: Request, choice: Sequence[Grant], node: Node) -> tuple[Grant, ...]:
    """Return chosen cards and slices with the amounts that the request and the cards give.

    Args:
        request: of the pod.
        choice: which container has which card and slice; its amounts and phases are not used.
        node: where the cards are.

    Returns:
        In the order of the request's containers, and within one in the order of the choice.

    Raises:
        ChoiceError: a container, card or slice is unknown, a container has more or fewer cards
            than it requests or one twice, or two containers that run together share a slice.
        SliceError: only a slice is unknown.
    """
    cards = {card.uuid: card for card in node.cards}
    containers = {each.name for each in request.containers}
    for grant in choice:
        if grant.container not in containers:
            raise ChoiceError(f"names container {grant.container!r}, which requests no share")
    by_container = [
        (container, [grant for grant in choice if grant.container == container.name])
        for container in request.containers
    ]
    for container, own in by_container:
        parts = {
            (grant.card, grant.slice) if request.several_slices else grant.card for grant in own
        }
        if not len(own) == container.count == len(parts):
            raise ChoiceError(f"must name {container.count} different cards for {container.name}")
        for grant in own:
            if grant.card not in cards:
                raise ChoiceError(f"names card {grant.card!r}, which the node does not have")
    grants: list[Grant] = []
    for container, own in by_container:
        for grant in own:
            grants.append(_restated(request, container, grant, cards[grant.card], grants))
    return tuple(grants)


def at_least(request: Request, grants: Iterable[Grant], node: Node) -> tuple[Grant, ...]:
    """Return the grants of a running pod, none smaller than its request.

    The larger amount is in use.

    A grant for the whole pod (its container is empty) is raised to what its largest container
    requests. A grant of a card that is not on the node stays as it is.
    """
    cards = {card.uuid: card for card in node.cards}
    raised: list[Grant] = []
    for grant in grants:
        card = cards.get(grant.card) if grant.slice is None else None
        for container in request.containers if card else ():
            if card and grant.container in ("", container.name):
                grant = replace(
                    grant,
                    memory=max(grant.memory, required_memory(request, container, card)),
                    compute=max(grant.compute, container.compute),
                    exclusive=grant.exclusive or container.exclusive_on(card),
                )
        raised.append(grant)
    return tuple(raised)


def _restated(
    request: Request,
    container: ContainerRequest,
    grant: Grant,
    card: Card,
    earlier: Sequence[Grant],
) -> Grant:
    if card.mode is not Mode.MIG:
        if grant.slice is not None:
            raise ChoiceError(f"names a slice of {card.uuid}, which is not in MIG mode")
        return Grant(
            container.name,
            card.uuid,
            required_memory(request, container, card),
            container.compute,
            container.exclusive_on(card),
            container.phase,
        )
    named = grant.slice and (grant.slice.layout, grant.slice.profile, grant.slice.start)
    slots = (slot for layout in card.geometry.layouts for slot in layout.slices)
    found = next((s for s in slots if (s.layout, s.profile, s.start) == named), None)
    if found is None:
        raise SliceError(f"must name a slice of {card.uuid} as its layouts have it")
    together = concurrent_grants(
        [each for each in earlier if each.card == card.uuid], container.phase, container.name
    )
    if any(each.slice is not None and each.slice.overlaps(found) for each in together):
        raise ChoiceError(
            f"gives {found.profile} at {found.start} of {card.uuid} twice at the same time"
        )
    return Grant(
        container.name,
        card.uuid,
        found.memory,
        found.compute,
        container.exclusive_on(card),
        container.phase,
        found,
    )
