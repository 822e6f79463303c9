"""The service's copy of the cluster."""

from adapters.dialects.record import MARK
from adapters.sidecar.cluster_state.cluster_cache import (
    ClusterCache,
    ClusterCacheHandler,
    ObjectKey,
)
from adapters.sidecar.tests.builders import a_node
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, PodStatus, Resources
from adapters.wire.marked_pod import EnvVar, MarkedContainer, MarkedPod, MarkedSpec


def a_pod(name: str, node: str | None = None, resource: str = "x.io/card", **more: str) -> Pod:
    container = Container("main", Resources(limits={resource: "1"}))
    return Pod(
        Metadata(name=name, namespace="default", uid=more.pop("uid", name)),
        PodSpec((container,), node_name=node),
        PodStatus(phase=more.get("phase")),
    )


def test_subscribers_are_called_for_the_nodes_whose_pods_change() -> None:
    named: list[str] = []
    cache = ClusterCache(named.append)

    cache.put_pod(a_pod("a"))
    assert named == []
    cache.put_pod(a_pod("a", "n1"))
    cache.put_pod(a_pod("plain", "n1", "cpu"))
    assert named == ["n1"]
    assert [pod.metadata.name for pod in cache.holding("n1")] == ["a"]
    cache.put_pod(a_pod("a", "n1", phase="Succeeded"))
    assert cache.holding("n1") == []
    cache.drop_pod(a_pod("a").metadata)
    assert named == ["n1"] * 4
    assert cache.pod("default", "a") is None


def test_the_cache_drops_the_containers_of_a_pod_that_requests_no_extended_resource() -> None:
    cache = ClusterCache()
    cache.put_pod(a_pod("plain", "n1", "cpu"))

    kept = cache.pod("default", "plain")

    assert kept is not None
    assert (kept.metadata.uid, kept.spec.node_name, kept.spec.containers) == ("plain", "n1", ())


def test_all_subscribers_are_called_for_all_nodes_on_demand() -> None:
    first: list[str] = []
    second: list[str] = []
    cache = ClusterCache(first.append)
    cache.put_node(a_node("n1"))
    cache.subscribe(second.append)
    cache.put_node(a_node("n2"))

    cache.notify_all()

    assert (first, second) == (["n1", "n2", "n1", "n2"], ["n2", "n1", "n2"])


def test_an_unreadable_pod_is_reported_and_its_earlier_state_stays() -> None:
    cache, problems = ClusterCache(), []

    def unreadable(key: ObjectKey, problem: str) -> None:
        problems.append((key.namespace, key.name, problem))

    handler = ClusterCacheHandler(cache.put_pod, cache.drop_pod, lambda: None, unreadable)
    handler.on_update(a_pod("a", "n1"))

    handler.on_unreadable(Metadata(name="a", namespace="default"), "not an object")

    assert problems == [("default", "a", "not an object")]
    assert cache.pod("default", "a") is not None


def test_of_the_variables_of_a_container_only_the_mark_is_kept() -> None:
    cache = ClusterCache()
    variables = (EnvVar("PATH"), EnvVar(MARK), EnvVar("TOKEN"))
    pod = a_pod("a", "n1")
    container = MarkedContainer("main", pod.spec.containers[0].resources, env=variables)
    spec = MarkedSpec((container,), (MarkedContainer("first"),), node_name="n1")
    cache.put_pod(MarkedPod(pod.metadata, spec, pod.status))

    (kept,) = cache.holding("n1")

    assert isinstance(kept, MarkedPod)
    assert kept.spec.containers[0].env == (EnvVar(MARK),)
    assert kept.spec.init_containers == (MarkedContainer("first"),)


def test_unbound_pods_are_those_that_may_request_a_share_and_still_wait() -> None:
    cache = ClusterCache()
    for pod in (
        a_pod("waits"),
        a_pod("plain", resource="cpu"),
        a_pod("bound", "n1"),
        a_pod("failed", phase="Failed"),
        a_pod("later", phase="Pending"),
        a_pod("deleted"),
    ):
        cache.put_pod(pod)

    cache.put_pod(a_pod("later", "n1"))
    cache.drop_pod(a_pod("deleted").metadata)

    assert [pod.metadata.name for pod in cache.unbound()] == ["waits"]
