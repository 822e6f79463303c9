"""Nodes, bound pods and claims, as an answer about a pod reads them in a cluster."""

from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.in_cluster.ports import ClusterView, follow_descriptions
from adapters.service.tests.builders import a_node, a_service, run
from adapters.stores.store import Change
from adapters.wire.kube import (
    Container,
    KubeNode,
    Metadata,
    Pod,
    PodClaim,
    PodSpec,
    Resources,
)


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
    claims = (PodClaim("c", "d"),)
    for name, own in (("d", claims), ("e", None)):
        spec = PodSpec((Container("main"),), node_name="n1", resource_claims=own)
        cache.put_pod(Pod(Metadata(name, "default", name), spec))
    view = ClusterView(cache)

    assert [pod.metadata.name for pod in view.pods_on("n1")] == ["a", "d"]
    assert [*view.claims.of_pod("a")] == []


def test_a_described_node_without_a_ledger_is_known_until_it_has_one_or_loses_its_cards() -> None:
    async def work() -> list[list[str]]:
        service, cache = (await a_service()).service, ClusterCache()
        follow_descriptions(cache, service)
        found = list[list[str]]()
        stored = service.ledgers.stored("n1")
        assert stored is not None
        cache.put_node(KubeNode(Metadata("guest")))
        for name in ("n1", "n2"):
            cache.put_node(a_node(name))
        found.append([*service.ledgers.problems()])
        service.ledgers.apply(Change("n1", None))
        cache.put_node(a_node("new"))
        found.append([*service.ledgers.problems()])
        service.ledgers.apply(Change("n1", stored))
        found.append([*service.ledgers.problems()])
        cache.put_node(KubeNode(Metadata("new")))
        found.append([*service.ledgers.problems()])
        service.ledgers.apply(Change("n2", None))
        cache.drop_node(Metadata("n2"))
        found.append([*service.ledgers.problems()])
        cache.put_node(a_node("n3"))
        service.ledgers.load({"n1": stored, "n3": stored})
        found.append([*service.ledgers.problems()])
        return found

    assert run(work()) == [[], ["n1", "new"], ["new"], [], [], []]
