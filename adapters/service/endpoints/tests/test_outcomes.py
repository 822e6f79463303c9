"""Each error of a decision has one outcome at all endpoints."""

import pytest

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import BindError, DecisionRecord, NodeLocked, Outcome
from adapters.service.decide.service import UnknownPod
from adapters.service.endpoints.outcomes import ERRORS, failed, read_request
from adapters.service.tests.builders import a_pod, a_service, read_pod, run
from adapters.stores.store import StoreError

DECISION = DecisionRecord("bind", Outcome.ERROR, "default/p", "uid-p", "volcano", "n1")


@pytest.mark.parametrize(
    ("error", "outcome", "cause", "status", "text"),
    [
        (DialectError("a", "1", "must be 2"), Outcome.INVALID, "invalid", 403, "must be 2"),
        (NodeLocked("serves p"), Outcome.REFUSED, "locked", 409, "serves p"),
        (UnknownPod("no p"), Outcome.ERROR, "retry", 409, "try again: no p"),
        (LedgerContended("n1"), Outcome.ERROR, "retry", 409, "try again: n1"),
        (BindError(403, "no"), Outcome.ERROR, "binding", 409, "refused the Binding: 403: no"),
        (BindError(0, "cut"), Outcome.ERROR, "binding", 503, "may be bound: cut"),
        (StoreError("gone"), Outcome.ERROR, "store", 503, "no answer from the ledger"),
    ],
)
def test_an_error_has_an_outcome_a_cause_a_status_and_a_text(
    error: Exception, outcome: Outcome, cause: str, status: int, text: str
) -> None:
    assert isinstance(error, ERRORS)

    decision, found = failed(DECISION, error)

    assert (decision.outcome, decision.cause, found) == (outcome, cause, status)
    assert text in decision.text
    assert (decision.pod, decision.node, decision.dialect) == ("default/p", "n1", "volcano")


def test_a_fault_of_the_service_is_none_of_these_errors() -> None:
    assert not isinstance(ZeroDivisionError(), ERRORS)


def test_an_invalid_request_is_recorded_once_and_its_error_returned() -> None:
    bench, pod = run(a_service()), read_pod(a_pod(memory="x"))

    found = read_request(bench.service, "filter", pod)

    assert isinstance(found, DialectError)
    assert [(each.verb, each.outcome, each.text) for each in bench.decision_log.decisions] == [
        ("filter", Outcome.INVALID, str(found))
    ]


def test_a_valid_request_is_returned_and_not_recorded() -> None:
    bench = run(a_service())

    found = read_request(bench.service, "filter", read_pod(a_pod()))

    assert isinstance(found, PodRequest)
    assert bench.decision_log.decisions == []
