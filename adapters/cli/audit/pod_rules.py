"""What is wrong with the record of one pod."""

from collections.abc import Iterator, Sequence

from adapters.cli.audit.finding import RULES, Finding
from adapters.dialects import registry
from adapters.dialects.adoption.disagreement import disagreements
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.node import Node


def has_record(pod: Pod) -> bool:
    """Whether a pod has any annotation by which some scheduler records cards."""
    return not registry.allocation_annotations().isdisjoint(annotations(pod))


def edited_record(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Compare a bound pod's record with its request; see ``disagreements``."""
    for text in disagreements(pod, node, dialects):
        yield Finding(RULES["edited-record"], text, node=node.name, pod=full_name(pod))


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
