"""Counts of decisions, conflicts and requests."""

import pytest

from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.service.observe.decision_log import logger
from adapters.service.observe.metrics import Metrics, QuotaMetrics
from adapters.service.runtime import Cluster, ServiceRuntime
from adapters.service.settings.settings import Settings
from adapters.service.standalone import LocalCluster
from adapters.stores.memory import MemoryStore
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


@pytest.mark.parametrize("peers", [True, False])
def test_hamis_names_of_quotas_and_of_its_build_are_there_with_the_other_peers(
    peers: bool,
) -> None:
    table = LocalCluster()
    runtime = ServiceRuntime(
        Settings(peer_metrics=peers),
        {},
        MemoryStore(),
        Cluster(binder=table, pods=table, events=table),
        logger("error", "json"),
    )
    hold = QuotaHold("u", "ml/p", "n", QuotaAmounts(1500, GIB, 50), 1)
    limits = QuotaLimits(cards=2000, memory=4 * GIB)
    quota = Quota("ml", limits, {hold.key: hold}, 1, counted=True)
    runtime.service.quotas.put(StoredQuota(quota, "1"))

    text = runtime.metrics.text().decode()

    labels = 'namespace="ml",quota_name="nvidia.com/gpumem",zone="vGPU"'
    for line in (
        "hami_build_info{version=",
        f"hami_resource_quota_limit{{{labels}}} 4096.0",
        f'hami_resource_quota_used{{limit="4096",{labels}}} 1024.0',
    ):
        assert (line in text) is peers
    assert "gpucores" not in text
