"""Metrics of the quotas of namespaces: limits, and what counts against them."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from adapters.service.decide.state.quotas import Quotas
from core.quota.amounts import CARD

_LABELS = ("namespace", "resource")


class QuotaMetrics(Collector):
    """Two gauges for each namespace with a quota; cards in cards, memory in bytes."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges as of now."""
        limits = GaugeMetricFamily(
            "dragoman_quota_limit",
            "Limit of a namespace: cards, memory in bytes, compute in percent of one card.",
            labels=_LABELS,
        )
        used = GaugeMetricFamily(
            "dragoman_quota_used",
            "What the pods of a namespace with a quota count, in the units of the limit.",
            labels=_LABELS,
        )
        for namespace, stored in sorted(self._quotas.all().items()):
            quota = stored.quota
            for name, limit, amount in quota.bounds.with_amounts(quota.used()):
                unit = CARD if name == "cards" else 1
                if limit is not None:
                    limits.add_metric((namespace, name), limit / unit)
                used.add_metric((namespace, name), amount / unit)
        yield limits
        yield used
