"""The watch of ResourceQuotas: most are of no concern, the strictest one of a namespace holds."""

from typing import Any

from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects.dialect import Defaults
from adapters.dialects.registry import dialects
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.service.in_cluster.handlers import ResourceQuotaHandler
from adapters.stores.store import StoredQuota
from adapters.wire.kube import Metadata, Unreadable
from adapters.wire.kube_policy import ResourceQuotaObject
from core.hardware.quantity import MIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota


class Rig:
    """A handler, with what it reports and how often it was synced."""

    def __init__(self) -> None:
        self.quotas = Quotas(LedgerCache())
        self.dialects = dialects({}, Defaults())
        self.reports: list[tuple[str, str]] = []
        self.synced = 0
        self.handler = ResourceQuotaHandler(
            self.quotas,
            lambda: self.dialects,
            self._sync,
            lambda name, text: self.reports.append((name, text)),
        )

    def see(self, name: str, spec: Any) -> None:
        self.handler.on_update(ResourceQuotaObject(Metadata(name, "ml"), spec))

    def limits(self) -> QuotaLimits:
        """The limits of the namespace ``ml``, where it has a ShareQuota without limits."""
        return self.quotas.put(StoredQuota(Quota("ml"), "1")).quota.bounds

    def _sync(self) -> None:
        self.synced += 1


def memory(amount: object) -> dict[str, Any]:
    return {"hard": {"pods": "10", "limits.nvidia.com/gpumem": amount}}


def test_a_quota_without_shares_changes_nothing_and_is_not_reported() -> None:
    rig = Rig()

    rig.see("usual", {"hard": {"pods": "10", "limits.cpu": "4"}})
    rig.handler.on_synced()

    assert (rig.quotas.limits("ml"), rig.quotas.revision, rig.reports) == (False, 0, [])
    assert rig.synced == 1


def test_the_strictest_of_a_namespace_holds_until_it_is_deleted() -> None:
    rig = Rig()

    rig.see("one", memory("3000"))
    rig.see("two", memory("2000"))
    strict = rig.limits()
    rig.handler.on_delete(Identity("ml", "two", "u"))
    looser = rig.limits()
    rig.see("one", {"hard": {}})

    assert (strict.memory, looser.memory) == (2000 * MIB, 3000 * MIB)
    assert rig.limits() == QuotaLimits()


def test_a_new_status_alone_changes_nothing() -> None:
    rig = Rig()

    rig.see("one", memory("3000"))
    revision = rig.quotas.revision
    rig.see("one", memory("3000"))

    assert rig.quotas.revision == revision


def test_an_amount_that_cannot_be_read_closes_its_resource_and_is_reported_once() -> None:
    rig = Rig()

    rig.see("one", memory("many"))
    rig.see("two", memory("5"))

    assert rig.limits() == QuotaLimits(memory=0)
    ((name, text),) = rig.reports
    assert name == "ml/one"
    assert text.startswith("spec.hard[limits.nvidia.com/gpumem]: 'many'")


def test_an_object_that_cannot_be_read_closes_the_namespace() -> None:
    rig = Rig()

    rig.handler.on_unreadable(Unreadable("ml", "odd", "u"), "is no object")

    assert rig.limits() == QuotaLimits(0, 0, 0)
    assert [name for name, _ in rig.reports] == ["ml/odd"]


def test_renamed_resources_are_read_again() -> None:
    rig = Rig()
    rig.see("one", {"hard": {"limits.nvidia.com/vmem": "7"}})
    before = rig.quotas.limits("ml")

    file = {"nvidia": {"resourceMemoryName": "nvidia.com/vmem"}}
    rig.dialects = dialects({("hami-scheduler-device", "device-config.yaml"): file}, Defaults())
    rig.handler.read_again()

    assert (before, rig.limits().memory) == (False, 7 * MIB)
