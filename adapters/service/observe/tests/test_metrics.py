"""Counts of decisions, conflicts and requests."""

from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.service.observe.metrics import Metrics, QuotaMetrics
from adapters.stores.store import StoredQuota
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaAmounts, QuotaLimits
from core.quota.quota import Quota, QuotaHold


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


def test_limits_and_use_of_quotas_are_exported_in_their_units() -> None:
    quotas = Quotas(LedgerCache())
    hold = QuotaHold("u", "ml/p", "n", QuotaAmounts(1500, GIB, 50), 1)
    quota = Quota("ml", QuotaLimits(cards=2000), {hold.key: hold}, 1, counted=True)
    quotas.put(StoredQuota(quota, "1"))
    metrics = Metrics()
    metrics.registry.register(QuotaMetrics(quotas))

    text = metrics.text().decode()

    assert 'dragoman_quota_limit{namespace="ml",resource="cards"} 2.0' in text
    assert 'dragoman_quota_limit{namespace="ml",resource="memory"}' not in text
    assert 'dragoman_quota_used{namespace="ml",resource="cards"} 1.5' in text
    assert 'dragoman_quota_used{namespace="ml",resource="compute"} 50.0' in text
