"""Nodes, bound pods and claims, as an answer about a pod reads them in a cluster."""

from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.in_cluster.ports import ClusterView
from adapters.service.tests.builders import a_node
from adapters.wire.kube import Container, Metadata, Pod, PodSpec, Resources


def test_nodes_are_in_the_order_of_their_names_and_a_copy() -> None:
    cache = ClusterCache()
    view = ClusterView(cache)
    for name in ("b", "a"):
        cache.put_node(a_node(name))

    nodes = view.nodes()
    cache.drop_node(a_node("a").metadata)

    assert [*nodes] == ["a", "b"]
    assert (view.has_all_nodes, view.revision) == (True, 3)


def test_pods_of_a_node_are_those_that_may_use_its_cards() -> None:
    cache = ClusterCache()
    container = Container("main", Resources(limits={"nvidia.com/gpu": 1}))
    for name, node in (("a", "n1"), ("b", "n2"), ("c", None)):
        cache.put_pod(Pod(Metadata(name, "default", name), PodSpec((container,), node_name=node)))
    view = ClusterView(cache)

    assert [pod.metadata.name for pod in view.pods_on("n1")] == ["a"]
    assert view.claims_of("a") == []
