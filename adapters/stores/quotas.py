"""Where the quotas of namespaces are kept: compare-and-swap on one object a namespace."""

from dataclasses import dataclass
from typing import Protocol

from adapters.stores.store import Conflict
from adapters.wire.records.quota import ShareQuotaObject, read_quota
from core.quota.quota import Quota


@dataclass(frozen=True, slots=True)
class StoredQuota:
    """A quota in the store.

    Attributes:
        quota: with all holds.
        version: for the next write; opaque.
        uid: of the object: one that was deleted and created again has another.
    """

    quota: Quota
    version: str
    uid: str = ""


class QuotaStore(Protocol):
    """Quotas by namespace. Every method may raise ``StoreError``."""

    async def read(self, namespace: str) -> StoredQuota | None:
        """The newest quota of a namespace; None where it has none.

        Raises:
            QuotaRecordError: it has one that cannot be used.
        """
        ...

    async def create(self, namespace: str) -> StoredQuota:
        """Create a quota without limits, for the holds of a namespace.

        Raises:
            Conflict: the namespace has one.
            QuotaRecordError: the store answers with one that cannot be used.
        """
        ...

    async def write(self, quota: Quota, expected: str) -> str:
        """Write holds in place of those that the caller read; the limits stay.

        Returns:
            the new version.

        Raises:
            Conflict: the quota has another version, or does not exist any more.
        """
        ...


class MemoryQuotas:
    """Quotas in the memory of one process, for tests; implements ``QuotaStore``."""

    def __init__(self, quotas: tuple[Quota, ...] = ()) -> None:
        self._count = 1
        self._by_namespace = {each.namespace: StoredQuota(each, "1") for each in quotas}

    def all(self) -> list[StoredQuota]:
        """All quotas as they are now."""
        return [*self._by_namespace.values()]

    def delete(self, namespace: str) -> None:
        """Delete a quota, as an administrator does."""
        self._by_namespace.pop(namespace, None)

    async def read(self, namespace: str) -> StoredQuota | None:
        """Implements ``QuotaStore.read``."""
        return self._by_namespace.get(namespace)

    async def create(self, namespace: str) -> StoredQuota:
        """Implements ``QuotaStore.create``."""
        if namespace in self._by_namespace:
            raise conflict(namespace)
        self._count += 1
        created = StoredQuota(Quota(namespace), str(self._count))
        self._by_namespace[namespace] = created
        return created

    async def write(self, quota: Quota, expected: str) -> str:
        """Implements ``QuotaStore.write``."""
        known = self._by_namespace.get(quota.namespace)
        if known is None or known.version != expected:
            raise conflict(quota.namespace)
        self._count += 1
        self._by_namespace[quota.namespace] = StoredQuota(quota, str(self._count))
        return str(self._count)


def stored_quota(thing: ShareQuotaObject) -> StoredQuota:
    """The stored value of an object.

    Raises:
        QuotaRecordError: it cannot be used.
    """
    return StoredQuota(read_quota(thing), thing.metadata.resource_version, thing.metadata.uid)


def conflict(namespace: str) -> Conflict:
    """The error of a write that lost to another one."""
    return Conflict(f"the quota of {namespace} was changed by another writer")
