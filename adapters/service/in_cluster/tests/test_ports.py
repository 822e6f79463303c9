"""The ports in a cluster, against a server that answers with given responses."""

import asyncio

import pytest

from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import Step, client, cut, ok, refusal, serving
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.decide.ports import BindError
from adapters.service.in_cluster.ports import ClusterPods
from adapters.wire.kube import Metadata, Pod, PodSpec
from core.requests.request import PodRef

POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u1"}, "spec": {}}


def bound(*steps: Step) -> BindError:
    async def main() -> BindError:
        async with serving(*steps) as server, client(server) as api:
            with pytest.raises(BindError) as error:
                await ClusterPods(PodClient(api), ClusterCache()).bind(
                    PodRef("default", "a", "u1"), "n1", {"k": "v"}, {}
                )
            return error.value

    return asyncio.run(main())


def test_a_rejected_binding_was_definitely_not_made() -> None:
    error = bound(refusal(403, {"kind": "Status", "code": 403, "message": "no"}))

    assert (error.status, error.definite) == (403, True)
    assert error.message == "no"


def test_a_binding_without_an_answer_may_have_been_made() -> None:
    assert not bound(cut).definite
    assert not bound(refusal(500, {"kind": "Status", "code": 500}), ok(POD)).definite


def a_pod(uid: str) -> Pod:
    return Pod(Metadata(name="a", namespace="default", uid=uid), PodSpec(node_name="n1"))


def test_a_pod_is_read_from_the_api_server_only_where_the_cache_does_not_have_it() -> None:
    async def main() -> tuple[Pod | None, Pod | None, int]:
        async with serving(ok(POD)) as server, client(server) as api:
            cache = ClusterCache()
            pods = ClusterPods(PodClient(api), cache)
            live = await pods.get(PodRef("default", "a"))
            cache.put_pod(a_pod("u1"))
            return live, await pods.get(PodRef("default", "a")), len(server.requests)

    live, cached, requests = asyncio.run(main())
    assert live is not None
    assert cached is not None
    assert (live.spec.node_name, cached.spec.node_name, requests) == (None, "n1", 1)


def test_the_newest_state_of_a_pod_is_read_from_the_api_server_though_the_cache_has_one() -> None:
    async def main() -> Pod | None:
        async with serving(ok(POD)) as server, client(server) as api:
            cache = ClusterCache()
            cache.put_pod(a_pod("u0"))
            return await ClusterPods(PodClient(api), cache).newest(PodRef("default", "a"))

    pod = asyncio.run(main())
    assert pod is not None
    assert pod.metadata.uid == "u1"


@pytest.mark.parametrize("name", ["(node n1)", "a/..", "/a"])
def test_what_is_no_name_of_a_pod_names_none(name: str) -> None:
    async def main() -> tuple[Pod | None, Pod | None, int]:
        async with serving() as server, client(server) as api:
            pods, ref = ClusterPods(PodClient(api), ClusterCache()), PodRef.parse(name)
            return await pods.get(ref), await pods.newest(ref), len(server.requests)

    assert asyncio.run(main()) == (None, None, 0)
