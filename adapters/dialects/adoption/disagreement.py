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
from core.hardware.node import Node
from core.hardware.quantity import format_gib
from core.requests.grant import Grant
from core.requests.request import Request


def disagreements(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> tuple[str, ...]:
    """Where the record of a bound pod differs from its request, in the terms of its own dialect.

    A record that names impossible cards, or other amounts than the request, was not written by a
    scheduler. What cannot be read at all is not compared, and neither is a record that names no
    containers, or cards that the node does not have.

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
    return tuple(
        f"its record gives {have.container} {_amounts(have)} of {have.card},"
        f" its request {_amounts(want)}"
        for have, want in zip(_ordered(recorded), _ordered(expected), strict=True)
        if (have.memory, have.compute) != (want.memory, want.compute)
    )


def _recorded(pod: Pod, request: Request, node: Node, dialect: Dialect) -> tuple[Grant, ...]:
    text = annotations(pod).get(allocation_record.KEY)
    return (
        dialect.read_result(pod, request, node) if text is None else allocation_record.decode(text)
    )


def _ordered(grants: Sequence[Grant]) -> list[Grant]:
    return sorted(grants, key=lambda grant: (grant.container, grant.card))


def _amounts(grant: Grant) -> str:
    compute = f" and {grant.compute}%" if grant.compute else ""
    return f"{format_gib(grant.memory)} GiB{compute}"
