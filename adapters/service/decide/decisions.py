"""Records of decisions that every caller makes alike."""

from collections import Counter
from collections.abc import Iterable

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import DialectError
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.wire.kube import Pod, full_name
from core.feasibility.evaluation import Rejection
from core.requests.decision import group_summary, grouped
from core.requests.reason import Cause, Reason

Counted = Iterable[tuple[Rejection, int]]
"""Rejections, each with the number of its nodes."""


def refused(
    verb: str, pod_request: PodRequest, rejections: Counted, evaluated: int
) -> DecisionRecord:
    """No node fits.

    Args:
        verb: what was asked, such as ``filter``.
        pod_request: the pod.
        rejections: those of all nodes that were evaluated.
        evaluated: how many nodes that were.
    """
    reasons = [(each.reason, nodes) for each, nodes in rejections]
    return DecisionRecord(
        verb,
        Outcome.REFUSED,
        full_name(pod_request.pod),
        pod_request.pod.metadata.uid,
        pod_request.dialect.name,
        cause=main_cause(*reasons),
        text=group_summary(grouped(reasons)),
        nodes_evaluated=evaluated,
    )


def invalid(verb: str, pod: Pod, error: DialectError) -> DecisionRecord:
    """Return that the request of a pod is invalid."""
    uid = pod.metadata.uid
    return DecisionRecord(
        verb, Outcome.INVALID, full_name(pod), uid, cause="invalid", text=str(error)
    )


def main_cause(*reasons: tuple[Reason, int]) -> str:
    """Return the most frequent cause, in one word for a metric.

    Args:
        reasons: each with the number of its nodes.
    """
    causes: Counter[Cause | None] = Counter()
    for reason, nodes in reasons:
        first = reason.counts[0].cause if reason.counts else None
        causes[reason.cause or first] += nodes
    cause = causes.most_common(1)[0][0] if causes else None
    return cause.name.lower() if cause else "no_node"
