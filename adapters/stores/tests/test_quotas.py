"""Quotas in a cluster: compare-and-swap on the status of one object."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.transport import Query
from adapters.stores.kubernetes import KubernetesQuotas
from adapters.stores.memory import MemoryQuotas
from adapters.stores.store import Conflict, StoreError
from adapters.wire.records.quota import QuotaRecordError
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota

PATH = "/apis/dragoman.dev/v1alpha1/namespaces/ml/sharequotas/quota"


def refusal(status: int) -> ClusterError:
    return ClusterError(status, "Refused", "refused")


@dataclass
class FakeServer(KubeClient):
    """An API server with one ShareQuota, or none."""

    thing: dict[str, Any] | None
    fails: int = 0
    calls: list[str] = field(default_factory=list)

    async def get(self, path: str, query: Query | None = None) -> bytes:
        del query
        self.calls.append(f"GET {path}")
        return self._found()

    async def create(
        self,
        path: str,
        body: object,
        query: Query | None = None,
        *,
        metadata_only: bool = False,
        repeat_refused: bool = True,
    ) -> bytes:
        del query, metadata_only, repeat_refused
        self.calls.append(f"POST {path}")
        if self.fails:
            raise refusal(self.fails)
        if self.thing is not None:
            raise refusal(409)
        assert isinstance(body, bytes)
        made = json.loads(body)
        made["metadata"] |= {"uid": "new", "resourceVersion": "1"}
        self.thing = made
        return json.dumps(self.thing).encode()

    async def replace(
        self, path: str, body: object, query: Query | None = None, *, metadata_only: bool = False
    ) -> bytes:
        del query, metadata_only
        assert isinstance(body, bytes)
        self.calls.append(f"PUT {path}")
        there = json.loads(self._found())
        new = json.loads(body)
        if new["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise refusal(409)
        version = str(int(there["metadata"]["resourceVersion"]) + 1)
        there["metadata"]["resourceVersion"] = version
        self.thing = {**there, "status": new["status"]}
        return json.dumps(self.thing).encode()

    def _found(self) -> bytes:
        if self.fails:
            raise refusal(self.fails)
        if self.thing is None:
            raise refusal(404)
        return json.dumps(self.thing).encode()


def a_server(**more: Any) -> FakeServer:
    metadata = {"name": "quota", "namespace": "ml", "uid": "u", "resourceVersion": "7"}
    return FakeServer({"metadata": metadata, "spec": {"limits": {"cards": 2}}, **more})


def test_a_quota_is_read_and_its_holds_are_written_to_the_status() -> None:
    async def work() -> tuple[str, list[str], Quota]:
        server = a_server()
        store = KubernetesQuotas(server)
        found = await store.read("ml")
        assert found is not None
        assert (found.quota, found.version, found.uid) == (Quota("ml", QuotaLimits(2000)), "7", "u")
        version = await store.write(found.quota.begun(), found.version)
        again = await store.read("ml")
        assert again is not None
        return version, server.calls, again.quota

    version, calls, quota = asyncio.run(work())

    assert (version, quota.counted, quota.limits) == ("8", True, QuotaLimits(2000))
    assert calls == [f"GET {PATH}", f"PUT {PATH}/status", f"GET {PATH}"]


@pytest.mark.parametrize("store", [KubernetesQuotas(FakeServer(None)), MemoryQuotas()])
def test_a_namespace_without_a_quota_has_none_and_a_write_to_it_conflicts(
    store: KubernetesQuotas | MemoryQuotas,
) -> None:
    assert asyncio.run(store.read("ml")) is None
    with pytest.raises(Conflict):
        asyncio.run(store.write(Quota("ml"), "7"))


def test_a_write_over_another_one_conflicts() -> None:
    with pytest.raises(Conflict):
        asyncio.run(KubernetesQuotas(a_server()).write(Quota("ml"), "6"))


@pytest.mark.parametrize("status", [500, 403, 0])
def test_a_server_that_fails_raises_an_error_of_the_store(status: int) -> None:
    server = a_server()
    server.fails = status or 1
    with pytest.raises(StoreError, match="the quota of ml"):
        asyncio.run(KubernetesQuotas(server).read("ml"))
    with pytest.raises(StoreError, match="the quota of ml"):
        asyncio.run(KubernetesQuotas(server).write(Quota("ml"), "7"))


def test_an_answer_that_is_no_quota_cannot_be_used() -> None:
    server = a_server(spec=[])
    with pytest.raises(QuotaRecordError):
        asyncio.run(KubernetesQuotas(server).read("ml"))
    server.thing = {"metadata": 7}
    with pytest.raises(QuotaRecordError, match="the quota of ml cannot be read"):
        asyncio.run(KubernetesQuotas(server).read("ml"))


def test_a_quota_without_limits_is_created_once_and_says_who_made_it() -> None:
    async def work() -> FakeServer:
        server = FakeServer(None)
        store = KubernetesQuotas(server)
        created = await store.create("ml")
        assert (created.quota, created.version, created.uid) == (Quota("ml"), "1", "new")
        with pytest.raises(Conflict):
            await store.create("ml")
        return server

    server = asyncio.run(work())

    assert server.calls == [f"POST {PATH.removesuffix('/quota')}"] * 2
    assert server.thing is not None
    assert server.thing["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dragoman"}
    assert server.thing["spec"] == {}


def test_a_server_that_creates_no_quota_raises_an_error_of_the_store() -> None:
    with pytest.raises(StoreError, match="the quota of ml"):
        asyncio.run(KubernetesQuotas(FakeServer(None, fails=403)).create("ml"))


def test_a_quota_in_memory_is_created_once() -> None:
    async def work() -> None:
        store = MemoryQuotas()
        assert await store.create("ml") == await store.read("ml")
        with pytest.raises(Conflict):
            await store.create("ml")

    asyncio.run(work())
