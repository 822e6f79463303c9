"""The watch of ShareQuotas: valid ones limit, invalid ones refuse, deleted ones do neither."""

import msgspec

from adapters.cluster.watch.object_tracker import Identity
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.service.in_cluster.handlers import QuotaHandler
from adapters.wire.kube import Metadata, Unreadable
from adapters.wire.records.quota import ShareQuotaObject


def an_object(limits: bytes, name: str = "quota") -> ShareQuotaObject:
    spec = msgspec.Raw(b'{"limits":' + limits + b"}")
    return ShareQuotaObject(Metadata(name=name, namespace="ml", uid="u"), spec)


def test_a_quota_is_put_and_dropped() -> None:
    quotas, reports = Quotas(LedgerCache()), list[tuple[str, str]]()
    synced = list[str]()
    handler = QuotaHandler(
        quotas, lambda: synced.append("x"), lambda name, text: reports.append((name, text))
    )

    handler.on_update(an_object(b'{"cards":2}'))
    limits = quotas.limits("ml")
    handler.on_delete(Identity("ml", "other", "v"))
    still = quotas.limits("ml")
    handler.on_delete(Identity("ml", "quota", "u"))
    handler.on_synced()

    assert (limits, still, quotas.limits("ml"), reports, synced) == (True, True, False, [], ["x"])


def test_a_quota_that_cannot_be_used_is_reported_and_refuses() -> None:
    quotas, reports = Quotas(LedgerCache()), list[tuple[str, str]]()
    handler = QuotaHandler(quotas, lambda: None, lambda name, text: reports.append((name, text)))

    handler.on_update(an_object(b'{"cards":"many"}'))
    handler.on_unreadable(Unreadable("ml", "other", "v"), "is no object")

    assert [name for name, _ in reports] == ["ml/quota", "ml/other"]
    assert "spec.limits.cards: 'many'" in (quotas.problem("ml") or "")
    assert quotas.limits("ml")
