"""The lock of MetaX's device plugin: when the service takes it, waits for it, releases it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from adapters.cluster.objects.nodes import KEY, NodeClient, NodeLockClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.objects import Objects
from adapters.cluster.tests.server import client, serving
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import BindError, Outcome
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.in_cluster.ports import ClusterNodeLocks
from adapters.service.settings.settings import SettingsError, read
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    body,
    decoded,
    review,
)
from adapters.stores.store import StoreError

T = TypeVar("T")

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SHARE = {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 10, "metax-tech.com/vmemory": 4}


class Rig:
    """A service beside an API server that has its nodes and pods."""

    def __init__(self, bench: Bench, objects: Objects) -> None:
        self.bench = bench
        self.objects = objects

    @property
    def lock(self) -> str | None:
        """The lock of the MetaX node, or None."""
        found = self.objects.at["/api/v1/nodes/mx"]["metadata"]["annotations"].get(KEY)
        assert found is None or isinstance(found, str)
        return found

    @lock.setter
    def lock(self, value: str | None) -> None:
        node = self.objects.at["/api/v1/nodes/mx"]
        node["metadata"]["annotations"] = {KEY: value} if value else {}
        self.objects.put("/api/v1/nodes/mx", node)

    async def bind(self, pod: str, node: str = "mx") -> str:
        """Return the error for kube-scheduler; empty where the pod is bound."""
        request = {"PodName": pod, "PodNamespace": "default", "PodUID": f"uid-{pod}", "Node": node}
        answer = await decoded(KubeExtender(self.bench.service).bind(body(request)))
        error = answer["Error"]
        assert isinstance(error, str)
        return error

    async def review(self, pod: str, *, dry: bool = False) -> Json:
        """Return the response to the API server when another scheduler binds a pod."""
        request = review(a_binding(pod, "mx"), sub="binding", dry=dry)
        return (await decoded(Admission(self.bench.service).bindings(request)))["response"]


def rigged(work: Callable[[Rig], Awaitable[T]], *pods: Json, synced: bool = True) -> T:
    """Run something with a service on a MetaX node ``mx`` and a Volcano node ``vc``."""
    objects = Objects()
    nodes = (a_metax_node("mx"), a_node("vc"))
    objects.put("/api/v1/nodes/mx", {"metadata": {"name": "mx", "annotations": {}}})
    for pod in pods:
        name = pod["metadata"]["name"]
        objects.put(f"/api/v1/namespaces/default/pods/{name}", dict(pod))

    async def main() -> T:
        async with serving(objects) as server, client(server) as api:
            cache = ClusterCache()
            locks = ClusterNodeLocks(
                NodeLockClient(NodeClient(api), PodClient(api), lambda: NOW),
                cache,
                lambda *_: pytest.fail("not released"),
            )
            for node in nodes if synced else ():
                cache.put_node(node)
            bench = await a_service(*nodes, pods=pods, locks=locks)
            return await work(Rig(bench, objects))

    return asyncio.run(main())


def text(pod: str) -> str:
    return f"2026-01-02T03:04:05Z,default,{pod}"


def a_share(name: str) -> Json:
    return a_pod(name, limits=SHARE)


def test_a_bind_locks_the_node_and_leaves_the_lock_to_the_device_plugin() -> None:
    async def work(rig: Rig) -> tuple[str, str | None]:
        return await rig.bind("a"), rig.lock

    assert rigged(work, a_share("a")) == ("", text("a"))


def test_a_second_pod_is_rejected_until_the_plugin_has_served_the_first() -> None:
    async def work(rig: Rig) -> tuple[str, int, str, str | None, Outcome]:
        assert await rig.bind("a") == ""
        refused = await rig.bind("b")
        held = len(rig.bench.service.ledgers.inventory.ledger("mx").allocations)
        outcome = rig.bench.decision_log.decisions[-1].outcome
        rig.lock = None
        return refused, held, await rig.bind("b"), rig.lock, outcome

    refused, held, then, lock, outcome = rigged(work, a_share("a"), a_share("b"))

    assert "node mx has not served pod default/a yet" in refused
    assert (held, outcome) == (1, Outcome.REFUSED)
    assert (then, lock) == ("", text("b"))


def test_a_locked_node_stays_among_those_that_fit() -> None:
    async def work(rig: Rig) -> Json:
        await rig.bind("a")
        request = {"Pod": a_share("b"), "Nodes": None, "NodeNames": ["mx"]}
        return await decoded(KubeExtender(rig.bench.service).filter(body(request)))

    assert rigged(work, a_share("a"))["NodeNames"] == ["mx"]


@pytest.mark.parametrize(
    ("refusal", "left"),
    [(BindError(403, "no"), None), (BindError(0, "no answer"), text("a"))],
)
def test_the_lock_is_given_back_where_the_pod_is_sure_not_to_be_bound(
    refusal: BindError, left: str | None
) -> None:
    async def work(rig: Rig) -> str | None:
        rig.bench.cluster.answers = [refusal]
        assert str(refusal) in await rig.bind("a")
        return rig.lock

    assert rigged(work, a_share("a")) == left


def test_the_lock_is_given_back_where_there_are_no_cards_or_no_ledger() -> None:
    async def work(rig: Rig) -> list[str | None]:
        seen = [await rig.bind("large"), rig.lock]
        rig.bench.store.failures = [StoreError("no answer")]
        return [*seen, await rig.bind("a"), rig.lock]

    large = a_pod("large", limits={**SHARE, "metax-tech.com/vmemory": 100})
    refused, first, failed, second = rigged(work, large, a_share("a"))

    assert "short" in (refused or "")
    assert "no answer" in (failed or "")
    assert (first, second) == (None, None)


@pytest.mark.parametrize(
    ("pod", "node", "synced"),
    [
        (a_pod("a"), "vc", True),
        (a_pod("a", limits={"cpu": 1}), "mx", True),
        (a_share("a"), "mx", False),
    ],
)
def test_other_pods_and_unknown_nodes_are_bound_without_the_lock(
    pod: Json, node: str, synced: bool
) -> None:
    async def work(rig: Rig) -> tuple[str, str | None, int]:
        return await rig.bind("a", node), rig.lock, rig.bench.store.writes

    error, lock, writes = rigged(work, pod, synced=synced)

    assert (error, lock) == ("", None)
    assert writes <= 1


def test_a_bind_by_another_scheduler_waits_for_the_lock_too() -> None:
    async def work(rig: Rig) -> tuple[Json, str | None, Json]:
        rig.lock = text("b")
        refused = await rig.review("a")
        rig.lock = None
        await rig.review("a", dry=True)
        assert rig.lock is None
        return refused, rig.lock, await rig.review("a")

    refused, _, allowed = rigged(work, a_share("a"), a_share("b"))

    assert (refused["allowed"], refused["status"]["code"]) == (False, 409)
    assert "serves one pod at a time" in refused["status"]["message"]
    assert allowed["allowed"]


def test_the_setting_is_auto_or_never() -> None:
    assert read(None, {}).node_lock == "auto"
    assert read(None, {"DRAGOMAN_NODELOCK": "never"}).node_lock == "never"
    with pytest.raises(SettingsError, match="nodeLock"):
        read(None, {"DRAGOMAN_NODELOCK": "always"})
