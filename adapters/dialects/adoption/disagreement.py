"""Whether the record on a bound pod says what its request says.

Another scheduler, or a person, may write any record. What is in use is decided elsewhere; this only
finds what an operator should look at.
"""

from collections.abc import Sequence

from adapters.dialects import allocation_record
from adapters.dialects.choice_amounts import ChoiceError, restate
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, format_apart
from core.requests.grant import Grant
from core.requests.request import ContainerRequest, Request


def disagreements(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> tuple[str, ...]:
    """Where the record of a bound pod differs from its request, in the terms of its own dialect.

    A record that names impossible cards, or other amounts than the request, was not written by a
    scheduler. What cannot be read at all is not compared, and neither is a record that names no
    containers, or cards that the node does not have. A percentage of a card's memory is rounded
    down by the schedulers, and up where a component takes the ``Value`` of a Kubernetes quantity:
    both are right.

    Returns:
        sentences whose subject is the pod.
    """
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is None or not dialect.has_result(pod):
            return ()
        request = dialect.read_request(pod)
        recorded = _recorded(pod, request, node, dialect)
    except DialectError:
        return ()
    present = {card.uuid for card in node.cards}
    if any(not grant.container or grant.card not in present for grant in recorded):
        return ()
    try:
        expected = restate(request, recorded, node)
    except ChoiceError as error:
        return (f"its record {error}",)
    cards = {card.uuid: card for card in node.cards}
    containers = {each.name: each for each in request.containers}
    return tuple(
        _difference(have, want)
        for have, want in zip(_ordered(recorded), _ordered(expected), strict=True)
        if have.compute != want.compute
        or not _same_memory(have, want, containers[want.container], cards[want.card])
    )


def _recorded(pod: Pod, request: Request, node: Node, dialect: Dialect) -> tuple[Grant, ...]:
    text = annotations(pod).get(allocation_record.KEY)
    return (
        dialect.read_result(pod, request, node) if text is None else allocation_record.decode(text)
    )


def _ordered(grants: Sequence[Grant]) -> list[Grant]:
    def place(grant: Grant) -> tuple[str, str, int]:
        return grant.container, grant.card, -1 if grant.slice is None else grant.slice.start

    return sorted(grants, key=place)


def _same_memory(have: Grant, want: Grant, container: ContainerRequest, card: Card) -> bool:
    """Whether the record has the memory of the request, rounded down or up to the record's unit."""
    if have.memory == want.memory:
        return True
    if want.slice is not None or container.memory_percent is None:
        return False
    hundredths = card.memory * container.memory_percent
    return abs(have.memory * FULL - hundredths) < container.step * FULL


def _difference(have: Grant, want: Grant) -> str:
    memory, requested = format_apart(have.memory, want.memory)
    return (
        f"its record gives {have.container} {memory}{_compute(have)} of {have.card},"
        f" its request {requested}{_compute(want)}"
    )


def _compute(grant: Grant) -> str:
    return f" and {grant.compute}%" if grant.compute else ""
