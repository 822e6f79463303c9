"""What is wrong with the record of one pod."""

from collections.abc import Iterator, Sequence

from adapters.cli.audit.finding import RULES, Finding
from adapters.dialects import record, registry
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.dialects.restate import ChoiceError, restate
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.node import Node
from core.hardware.quantity import format_gib
from core.requests.grant import Grant
from core.requests.request import Request


def has_record(pod: Pod) -> bool:
    """Whether a pod has any annotation by which some scheduler records cards."""
    return not registry.allocation_annotations().isdisjoint(annotations(pod))


def edited_record(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Compare a bound pod's record with its request, in the terms of its own dialect.

    A record that names impossible cards, or other amounts than the request, was not written by a
    scheduler. What cannot be read at all is not compared, and neither is a record that names no
    containers, or cards that the node does not have.
    """
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is None or not dialect.has_result(pod):
            return
        request = dialect.read_request(pod)
        recorded = _recorded(pod, request, node, dialect)
    except DialectError:
        return
    present = {card.uuid for card in node.cards}
    if any(not grant.container or grant.card not in present for grant in recorded):
        return
    try:
        expected = restate(request, recorded, node)
    except ChoiceError as error:
        yield _finding(pod, node, f"its record {error}")
        return
    for have, want in zip(_ordered(recorded), _ordered(expected), strict=True):
        if (have.memory, have.compute) != (want.memory, want.compute):
            yield _finding(
                pod,
                node,
                f"its record gives {have.container} {_amounts(have)} of {have.card},"
                f" its request {_amounts(want)}",
            )


def record_without_request(pod: Pod, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """A pod that no dialect takes for its own, and that has a record of one of them."""
    try:
        if not has_record(pod) or dialect_of(pod, dialects) is not None:
            return
    except DialectError:
        return
    keys = sorted(registry.allocation_annotations() & annotations(pod).keys())
    yield Finding(
        RULES["record-without-request"],
        f"has {', '.join(keys)} and requests no share",
        node=pod.spec.node_name or "",
        pod=full_name(pod),
    )


def _recorded(pod: Pod, request: Request, node: Node, dialect: Dialect) -> tuple[Grant, ...]:
    text = annotations(pod).get(record.KEY)
    return dialect.read_result(pod, request, node) if text is None else record.decode(text)


def _ordered(grants: Sequence[Grant]) -> list[Grant]:
    return sorted(grants, key=lambda grant: (grant.container, grant.card))


def _amounts(grant: Grant) -> str:
    compute = f" and {grant.compute}%" if grant.compute else ""
    return f"{format_gib(grant.memory)} GiB{compute}"


def _finding(pod: Pod, node: Node, text: str) -> Finding:
    return Finding(RULES["edited-record"], text, node=node.name, pod=full_name(pod))
