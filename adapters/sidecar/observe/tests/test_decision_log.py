"""The decisions that are kept for people: bounded, with their times, and the latest refusals."""

from datetime import UTC, datetime

import pytest

from adapters.sidecar.decide.ports import DecisionRecord, Outcome
from adapters.sidecar.observe import decision_log
from adapters.sidecar.observe.decision_log import StructuredDecisionLog, logger
from adapters.sidecar.observe.metrics import Metrics


def a_log() -> StructuredDecisionLog:
    return StructuredDecisionLog(logger("error", "json"), Metrics())


def decided(outcome: Outcome, uid: str = "u", text: str = "") -> DecisionRecord:
    return DecisionRecord("filter", outcome, f"default/{uid}", uid, text=text)


def test_a_decision_has_its_time_in_utc() -> None:
    log = a_log()
    before = datetime.now(UTC)

    log.record(decided(Outcome.FITS))

    (kept,) = log.latest()
    made = datetime.fromisoformat(str(kept["time"]))
    assert made.tzinfo is not None
    assert abs((made - before).total_seconds()) < 60


def test_the_kept_decisions_are_bounded_and_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "KEPT", 3)
    monkeypatch.setattr(decision_log, "LATEST", 2)
    log = a_log()

    for number in range(5):
        log.record(decided(Outcome.FITS, f"u{number}"))

    assert [each["uid"] for each in log.history()] == ["u4", "u3", "u2"]
    assert [each["uid"] for each in log.latest()] == ["u4", "u3"]
    assert log.recorded == 5


def test_the_refusal_of_a_pod_is_kept_until_another_decision_about_it() -> None:
    log = a_log()

    log.record(decided(Outcome.REFUSED, text="no room"))
    log.record(decided(Outcome.BOUND, "other"))
    refusal = log.refusal("u")
    log.record(decided(Outcome.FITS))

    assert refusal is not None
    assert refusal["text"] == "no room"
    assert log.refusal("u") is None
    assert log.refusal("unknown") is None


def test_the_pods_with_a_refusal_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "REFUSED_PODS", 2)
    log = a_log()

    for uid in ("a", "b", "c"):
        log.record(decided(Outcome.INVALID, uid))

    assert log.refusal("a") is None
    assert log.refusal("c") is not None
