"""Quotas as objects of a Kubernetes cluster: the ShareQuota of each namespace."""

from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

from adapters.stores.quotas import StoredQuota, conflict, stored_quota
from adapters.stores.store import StoreError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.quota import (
    NAME,
    QuotaRecordError,
    ShareQuotaObject,
    write_new,
    write_status,
)
from core.quota.quota import Quota

COLLECTION = "/apis/dragoman.dev/v1alpha1/namespaces/{}/sharequotas"
RESOURCE = f"{COLLECTION}/{NAME}"


_QUOTA = Decoder(ShareQuotaObject)


class QuotaApi(Protocol):
    """The API server; see ``adapters.stores.kubernetes.LedgerApi``."""

    async def get(self, path: str) -> bytes:
        """Read the newest state of an object."""
        ...

    async def create(self, path: str, body: object) -> bytes:
        """Post an object to its collection."""
        ...

    async def replace(self, path: str, body: bytes) -> bytes:
        """Replace an object. The client may send the request again after a failure."""
        ...


class KubernetesQuotas:
    """The ShareQuotas of a cluster; implements ``QuotaStore``."""

    def __init__(self, api: QuotaApi) -> None:
        self._api = api

    async def read(self, namespace: str) -> StoredQuota | None:
        """Implements ``QuotaStore.read``."""
        try:
            answer = await self._api.get(_path(namespace))
        except OSError as error:
            if getattr(error, "status", 0) == HTTPStatus.NOT_FOUND:
                return None
            raise _failure(namespace, error) from error
        return stored_quota(_object(namespace, answer))

    async def create(self, namespace: str) -> StoredQuota:
        """Implements ``QuotaStore.create``."""
        path = COLLECTION.format(quote(namespace, safe=""))
        try:
            answer = await self._api.create(path, write_new(namespace))
        except OSError as error:
            if getattr(error, "status", 0) == HTTPStatus.CONFLICT:
                raise conflict(namespace) from error
            raise _failure(namespace, error) from error
        return stored_quota(_object(namespace, answer))

    async def write(self, quota: Quota, expected: str) -> str:
        """Implements ``QuotaStore.write``."""
        path = f"{_path(quota.namespace)}/status"
        try:
            answer = await self._api.replace(path, write_status(quota, expected))
        except OSError as error:
            if getattr(error, "status", 0) in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise conflict(quota.namespace) from error
            raise _failure(quota.namespace, error) from error
        return _object(quota.namespace, answer).metadata.resource_version


def _path(namespace: str) -> str:
    return RESOURCE.format(quote(namespace, safe=""))


def _object(namespace: str, answer: bytes) -> ShareQuotaObject:
    try:
        return _QUOTA.decode(answer)
    except UnreadableError as error:
        raise QuotaRecordError(f"the quota of {namespace} cannot be read: {error}") from error


def _failure(namespace: str, error: OSError) -> StoreError:
    return StoreError(f"the quota of {namespace}: {error}")
