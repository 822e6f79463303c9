"""Hands ShareQuotas from a reflector to the service."""

from collections.abc import Callable

from adapters.cluster.watch.object_tracker import Identity
from adapters.service.decide.state.quotas import Quotas
from adapters.stores.quotas import stored_quota
from adapters.wire.kube import Unreadable
from adapters.wire.records.quota import NAME, QuotaRecordError, ShareQuotaObject


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
        """All quotas were listed."""
        self._synced()
