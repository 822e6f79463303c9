"""Counts of decisions, conflicts and requests."""

from adapters.sidecar.decide.ports import DecisionRecord, Outcome
from adapters.sidecar.observe.metrics import Metrics


def test_decisions_conflicts_and_calls_are_counted() -> None:
    metrics = Metrics()
    metrics.decided(
        DecisionRecord("filter", Outcome.REFUSED, "default/p", cause="memory", dialect="metax")
    )
    metrics.conflict()
    metrics.called("filter", 200, 0.003)
    metrics.watch("pods", lambda: 2.5)
    metrics.gauge("dragoman_holds", "Holds.", lambda: 4)

    text = metrics.text().decode()

    assert (
        'dragoman_decisions_total{dialect="metax",reason="memory",result="refused",verb="filter"} 1'
        in text
    )
    assert "dragoman_ledger_conflicts_total 1.0" in text
    assert 'dragoman_call_seconds_bucket{le="0.005",verb="filter"} 1.0' in text
    assert "dragoman_build_info{" in text
    assert "process_resident_memory_bytes" in text
    assert 'dragoman_watch_staleness_seconds{watch="pods"} 2.5' in text
    assert "dragoman_holds 4.0" in text
