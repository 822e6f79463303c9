"""The decisions that are kept for people: bounded, with their times, and the latest refusals."""

import json
from datetime import UTC, datetime

import pytest

from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.observe import decision_log
from adapters.service.observe.decision_log import LONGEST, StructuredDecisionLog, logger
from adapters.service.observe.metrics import Metrics


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


def test_what_is_kept_of_a_decision_is_bounded_whatever_a_client_sends() -> None:
    log, long = a_log(), "x" * (1 << 20)

    log.record(
        DecisionRecord(
            "bind", Outcome.ERROR, long, long, node=long, text=long, consumers=(long, "n/a")
        )
    )

    (kept,) = log.latest()
    assert len(str(kept)) < 6 * LONGEST
    assert log.refusal(long[:LONGEST]) is kept
    assert kept["consumers"] == (long[:LONGEST], "n/a")


HOSTILE = "a\nfake=1\r\u2028\x1b]0;owned\x07\x1b[2J\u202e\x7f\x9b31m\x85é"


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_name_cannot_end_a_line_of_the_log_or_reach_the_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], form: str
) -> None:
    log = StructuredDecisionLog(logger("info", form), Metrics())

    log.record(DecisionRecord("bind", Outcome.ERROR, HOSTILE, HOSTILE, text=HOSTILE, node=HOSTILE))
    log.failed(HOSTILE, ValueError("a\x1b[2Jb"))

    written = capfdbinary.readouterr().err.decode()
    shown = [letter for letter in written if letter != "\n" and not letter.isprintable()]
    assert shown == []
    decision, *rest = written.splitlines()
    assert "fake=1" in decision
    assert all("fake=1" not in line for line in rest[1:])
    if form == "json":
        assert json.loads(decision)["pod"] == HOSTILE
        assert len(rest) == 1


def test_no_client_grows_the_metrics() -> None:
    metrics = Metrics()
    log = StructuredDecisionLog(logger("error", "json"), metrics)

    def series() -> int:
        for number in range(100):
            text = f"{number}-{HOSTILE}"
            log.record(DecisionRecord("bind", Outcome.ERROR, text, text, text=text, node=text))
            log.refused("malformed")
        return metrics.text().count(b"\n")

    assert series() == series()
