"""Records of decisions that every caller makes alike."""

from collections import Counter
from collections.abc import Mapping, Sequence

from adapters.dialects.dialect import DialectError
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.ports import DecisionRecord, Outcome
from adapters.wire.kube import Pod, full_name
from core.feasibility.results import Rejection
from core.requests.decision import Decision
from core.requests.reason import Reason


def refused(
    verb: str, pod_request: PodRequest, rejections: Mapping[str, Rejection], evaluated: int
) -> DecisionRecord:
    """No node fits.

    Args:
        verb: what was asked, such as ``filter``.
        pod_request: the pod.
        rejections: by node; of all that were evaluated.
        evaluated: how many nodes that were.
    """
    reasons = {name: each.reason for name, each in rejections.items()}
    return DecisionRecord(
        verb,
        Outcome.REFUSED,
        full_name(pod_request.pod),
        pod_request.pod.metadata.uid,
        pod_request.dialect.name,
        cause=main_cause([*reasons.values()]),
        text=Decision(None, reasons).summary(),
        nodes_evaluated=evaluated,
    )


def invalid(verb: str, pod: Pod, error: DialectError) -> DecisionRecord:
    """The request of a pod is invalid."""
    uid = pod.metadata.uid
    return DecisionRecord(
        verb, Outcome.INVALID, full_name(pod), uid, cause="invalid", text=str(error)
    )


def main_cause(reasons: Sequence[Reason]) -> str:
    """The most frequent cause, in one word for a metric."""
    causes = Counter(
        reason.cause or (reason.counts[0].cause if reason.counts else None) for reason in reasons
    )
    cause = causes.most_common(1)[0][0] if causes else None
    return cause.name.lower() if cause else "no_node"
