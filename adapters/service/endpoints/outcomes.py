"""What each error of a decision means to the scheduler that asked: one table for all endpoints."""

from dataclasses import dataclass, replace
from typing import TypeVar

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import (
    BindError,
    DecisionLog,
    DecisionRecord,
    NodeLocked,
    Outcome,
)
from adapters.service.decide.service import AlreadyPlaced, Service, UnknownPod
from adapters.wire import admission
from adapters.wire.kube import Pod, full_name

FORBIDDEN = 403
CONFLICT = 409
UNAVAILABLE = 503

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error is reported.

    Attributes:
        cause: one word, the label of the decision in metrics.
        status: the HTTP status where the API server asked.
        text: of the answer to the scheduler; ``{}`` is replaced by the error.
    """

    outcome: Outcome
    cause: str
    status: int
    text: str = "{}"


_FAILURES: tuple[tuple[type[Exception], Failure], ...] = (
    (DialectError, Failure(Outcome.INVALID, "invalid", FORBIDDEN)),
    (NodeLocked, Failure(Outcome.REFUSED, "locked", CONFLICT)),
    (AlreadyPlaced, Failure(Outcome.REFUSED, "placed", CONFLICT)),
    (UnknownPod, Failure(Outcome.ERROR, "retry", CONFLICT, "try again: {}")),
    (LedgerContended, Failure(Outcome.ERROR, "retry", CONFLICT, "try again: {}")),
    (
        OSError,
        Failure(
            Outcome.ERROR,
            "store",
            UNAVAILABLE,
            "no answer from the ledger's store or the cluster: {}",
        ),
    ),
)

_REFUSED_BINDING = Failure(
    Outcome.ERROR, "binding", CONFLICT, "the API server refused the Binding: {}"
)
_UNCERTAIN_BINDING = Failure(
    Outcome.ERROR,
    "binding",
    UNAVAILABLE,
    "the API server did not confirm the Binding; the pod may be bound: {}",
)

ERRORS: tuple[type[Exception], ...] = (BindError, *(kind for kind, _ in _FAILURES))
"""The errors that an endpoint answers; any other is a fault of the service."""


def failed(decision: DecisionRecord, error: Exception) -> tuple[DecisionRecord, int]:
    """Return the decision as one of ``ERRORS`` ends it, and the HTTP status for the API server."""
    if isinstance(error, BindError):
        failure = _REFUSED_BINDING if error.definite else _UNCERTAIN_BINDING
    else:
        failure = next(failure for kind, failure in _FAILURES if isinstance(error, kind))
    text = failure.text.format(error)
    changed = replace(decision, outcome=failure.outcome, cause=failure.cause, text=text)
    return changed, failure.status


def deny(
    log: DecisionLog, review: str, status: int, decision: DecisionRecord, prefix: str = ""
) -> bytes:
    """Record a decision that denies an object, and return the answer to its review.

    The message is the text of the decision after a prefix; the status is HTTP's.
    """
    log.record(decision)
    return admission.denied(review, status, f"{prefix}{decision.text}")


def read_request(service: Service, verb: str, pod: Pod) -> PodRequest | DialectError | None:
    """Return what a pod requests, None where that is no share; an invalid request is recorded."""
    try:
        return service.pod_requests.read(pod)
    except DialectError as error:
        service.ports.decision_log.record(
            DecisionRecord(
                verb,
                Outcome.INVALID,
                full_name(pod),
                pod.metadata.uid,
                cause="invalid",
                text=str(error),
            )
        )
        return error
