"""Handlers that hand ShareQuotas and the limits of ResourceQuotas to the service."""

from collections.abc import Callable, Mapping, Sequence

from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects.dialect import Dialect
from adapters.dialects.host_quota import HostLimits, host_limits
from adapters.service.decide.state.quotas import Quotas
from adapters.stores.store import stored_quota
from adapters.wire.kube import Unreadable
from adapters.wire.kube_policy import ResourceQuotaObject, limits_of_extended_resources
from adapters.wire.records.quota import NAME, QuotaRecordError, ShareQuotaObject
from core.quota.amounts import NO_LIMITS


class ResourceQuotaHandler:
    """An ``EventHandler``. Kubernetes writes the status of each object with every pod."""

    def __init__(
        self,
        quotas: Quotas,
        dialects: Callable[[], Sequence[Dialect]],
        synced: Callable[[], None],
        report: Callable[[str, str], None],
    ) -> None:
        """Take no object yet.

        Args:
            quotas: of the service.
            dialects: as they are configured now.
            synced: called after each full list.
            report: called once with an object's namespace and name, and what is wrong with it.
        """
        self._quotas = quotas
        self._dialects = dialects
        self._synced = synced
        self._report = report
        self._hard: dict[str, dict[str, Mapping[str, object] | None]] = {}
        self._read: dict[tuple[str, str], HostLimits] = {}

    def on_update(self, thing: ResourceQuotaObject) -> None:
        """Add or replace an object; most have no limit that matters here."""
        meta = thing.metadata
        self._put(meta.namespace, meta.name, limits_of_extended_resources(thing))

    def on_delete(self, what: Identity) -> None:
        """Remove a deleted object."""
        self._put(what.namespace, what.name, {})

    def on_unreadable(self, what: Unreadable, problem: str) -> None:  # noqa: ARG002
        """Allocate nothing more in the namespace: the object may limit it to any amount."""
        self._put(what.namespace, what.name, None)

    def on_synced(self) -> None:
        """Report that all objects were listed."""
        self._synced()

    def read_again(self) -> None:
        """Read all objects by the dialects' new settings."""
        for namespace in [*self._hard]:
            self._apply(namespace)

    def _put(self, namespace: str, name: str, hard: Mapping[str, object] | None) -> None:
        known = self._hard.get(namespace, {})
        if known.get(name, {}) == hard:
            return
        rest = {other: each for other, each in known.items() if other != name}
        self._hard[namespace] = rest if hard == {} else {**rest, name: hard}
        self._apply(namespace)

    def _apply(self, namespace: str) -> None:
        """Apply the strictest of all objects of the namespace."""
        limits = NO_LIMITS
        objects = self._hard[namespace]
        for name, hard in objects.items():
            found = host_limits(hard, self._dialects())
            limits = limits.strictest(found.limits)
            if self._read.get((namespace, name)) != found:
                for problem in found.problems:
                    self._report(f"{namespace}/{name}", problem)
            self._read[namespace, name] = found
        self._read = {
            key: each
            for key, each in self._read.items()
            if key[0] != namespace or key[1] in objects
        }
        if not objects:
            del self._hard[namespace]
        self._quotas.restrict(namespace, limits)


class QuotaHandler:
    """An ``EventHandler``."""

    def __init__(
        self, quotas: Quotas, synced: Callable[[], None], report: Callable[[str, str], None]
    ) -> None:
        """Take no object yet.

        Args:
            quotas: of the service.
            synced: called after each full list.
            report: called with an object's namespace and name, and why it cannot be used.
        """
        self._quotas = quotas
        self._synced = synced
        self._report = report

    def on_update(self, thing: ShareQuotaObject) -> None:
        """Add or replace a quota."""
        try:
            self._quotas.apply(stored_quota(thing))
        except QuotaRecordError as error:
            meta = thing.metadata
            self.on_unreadable(Unreadable(meta.namespace, meta.name, meta.uid), str(error))

    def on_delete(self, what: Identity) -> None:
        """Remove a deleted quota."""
        if what.name == NAME:
            self._quotas.drop(what.namespace)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Refuse the pods of a namespace whose quota cannot be used."""
        self._report(f"{what.namespace}/{what.name}", problem)
        if what.name == NAME:
            self._quotas.reject(what.namespace, problem)

    def on_synced(self) -> None:
        """Report that all quotas were listed."""
        self._synced()
