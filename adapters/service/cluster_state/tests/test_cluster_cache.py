"""The service's copy of the cluster."""

from msgspec import Raw, structs
from msgspec.json import encode

from adapters.accounting.gang_cache import GangCache
from adapters.dialects.allocation_record import MARK
from adapters.dialects.gangs import KOORDINATOR as GANG
from adapters.service.cluster_state.cluster_cache import (
    ClusterCache,
    ClusterCacheHandler,
)
from adapters.service.tests.builders import a_node
from adapters.wire.kube import (
    Affinity,
    Container,
    EnvVar,
    MarkedContainer,
    MarkedPod,
    MarkedSpec,
    Metadata,
    NodeAffinity,
    NodeSpec,
    NodeStatus,
    Pod,
    PodClaim,
    PodCondition,
    PodSpec,
    PodStatus,
    Resources,
    Taint,
    Toleration,
    Unreadable,
    with_annotations,
)


def a_kube_pod(name: str, node: str | None = None, resource: str = "x.io/card", **more: str) -> Pod:
    container = Container("main", Resources(limits={resource: "1"}))
    return Pod(
        Metadata(name=name, namespace="default", uid=more.pop("uid", name)),
        PodSpec((container,), node_name=node),
        PodStatus(phase=more.get("phase")),
    )


def test_subscribers_are_called_for_the_nodes_whose_pods_change() -> None:
    named: list[str] = []
    cache = ClusterCache(named.append)

    cache.put_pod(a_kube_pod("a"))
    assert named == []
    cache.put_pod(a_kube_pod("a", "n1"))
    cache.put_pod(a_kube_pod("plain", "n1", "cpu"))
    assert named == ["n1"]
    assert [pod.metadata.name for pod in cache.holding("n1")] == ["a"]
    cache.put_pod(a_kube_pod("a", "n1", phase="Succeeded"))
    assert cache.holding("n1") == []
    cache.drop_pod(a_kube_pod("a").metadata)
    assert named == ["n1"] * 4
    assert cache.pod("default", "a") is None


def test_the_end_of_a_pod_that_had_cards_is_reported_once() -> None:
    ended: list[str] = []
    cache = ClusterCache()
    cache.subscribe_to_ends(ended.append)

    for name in ("a", "b", "c"):
        cache.put_pod(a_kube_pod(name))
        cache.put_pod(a_kube_pod(name, f"n-{name}"))
        cache.put_pod(a_kube_pod(name, f"n-{name}", phase="Running"))
    cache.put_pod(a_kube_pod("plain", "n1", "cpu"))
    cache.drop_pod(a_kube_pod("plain").metadata)
    assert ended == []
    cache.put_pod(a_kube_pod("a", "n-a", phase="Succeeded"))
    cache.drop_pod(a_kube_pod("a").metadata)
    cache.drop_pod(a_kube_pod("b").metadata)
    cache.put_pod(a_kube_pod("c", uid="new"))
    cache.drop_pod(a_kube_pod("unknown").metadata)

    assert ended == ["n-a", "n-b", "n-c"]


def test_the_cache_drops_the_containers_of_a_pod_that_requests_no_extended_resource() -> None:
    cache = ClusterCache()
    cache.put_pod(a_kube_pod("plain", "n1", "cpu"))

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


def unreadable(spec: str) -> Unreadable:
    return Unreadable("default", "a", "u", Raw(f'{{"metadata":7,"spec":{spec}}}'.encode()))


def test_a_pod_that_cannot_be_decoded_holds_cards_of_its_node_only() -> None:
    cache = ClusterCache()
    looked: list[str] = []
    cache.put_node(a_node("n1"))
    cache.put_node(a_node("n2"))
    cache.subscribe(looked.append)
    handler = ClusterCacheHandler(
        cache.put_pod, cache.drop_pod, lambda: None, cache.put_unreadable_pod
    )
    handler.on_update(a_kube_pod("a", "n1"))

    def held() -> list[int]:
        return [len(cache.holding(name)) for name in ("n1", "n2")]

    handler.on_unreadable(unreadable('{"nodeName":"n2"}'), "no object")
    assert (held(), looked) == ([0, 1], ["n1", "n1", "n2"])
    handler.on_unreadable(unreadable('{"nodeName":7}'), "no object")
    assert (held(), looked[3:]) == ([1, 1], ["n2", "n1", "n2"])
    handler.on_unreadable(unreadable("{}"), "no object")
    assert (held(), looked[6:]) == ([0, 0], ["n1", "n2"])
    handler.on_unreadable(unreadable("[]"), "no object")
    handler.on_update(a_kube_pod("a", "n1"))
    assert held() == [1, 0]


def test_an_object_that_cannot_be_decoded_keeps_its_earlier_state() -> None:
    cache = ClusterCache()
    handler = ClusterCacheHandler(cache.put_node, cache.drop_node, lambda: None)
    handler.on_update(a_node("n1"))

    handler.on_unreadable(Unreadable("", "n1", ""), "no object")

    assert cache.nodes.keys() == {"n1"}


def test_of_the_variables_of_a_container_only_the_mark_is_kept() -> None:
    cache = ClusterCache()
    variables = (EnvVar("PATH"), EnvVar(MARK), EnvVar("TOKEN"))
    pod = a_kube_pod("a", "n1")
    container = MarkedContainer("main", pod.spec.containers[0].resources, env=variables)
    spec = MarkedSpec((container,), (MarkedContainer("first"),), node_name="n1")
    cache.put_pod(MarkedPod(pod.metadata, spec, pod.status))

    (kept,) = cache.holding("n1")

    assert isinstance(kept, MarkedPod)
    assert kept.spec.containers[0].env == (EnvVar(MARK),)
    assert kept.spec.init_containers == (MarkedContainer("first"),)


def test_a_pod_whose_annotations_name_a_card_may_hold_it() -> None:
    cache = ClusterCache()
    pod = a_kube_pod("a", "n1")
    spec = PodSpec((Container("c"),), node_name="n1")
    texts = {"nvidia.com/container.c.gpus.devices": "GPU-0"}

    cache.put_pod(Pod(pod.metadata, spec, pod.status))
    assert cache.holding("n1") == []
    cache.put_pod(with_annotations(Pod(pod.metadata, spec, pod.status), texts))
    (kept,) = cache.holding("n1")

    assert kept.metadata.annotations == texts


def test_unbound_pods_are_those_that_may_request_a_share_and_still_wait() -> None:
    cache = ClusterCache()
    for pod in (
        a_kube_pod("waits"),
        a_kube_pod("plain", resource="cpu"),
        a_kube_pod("bound", "n1"),
        a_kube_pod("failed", phase="Failed"),
        a_kube_pod("later", phase="Pending"),
        a_kube_pod("deleted"),
    ):
        cache.put_pod(pod)

    cache.put_pod(a_kube_pod("later", "n1"))
    cache.drop_pod(a_kube_pod("deleted").metadata)

    assert [pod.metadata.name for pod in cache.unbound()] == ["waits"]


def waiting(node: str | None = None, resource: str = "x.io/card") -> Pod:
    """A pod with all that decides about its node, and what its scheduler said."""
    pod = a_kube_pod("a", node, resource)
    return structs.replace(
        pod,
        spec=structs.replace(
            pod.spec, tolerations=(Toleration("x"),), affinity=Affinity(NodeAffinity())
        ),
        status=PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False"),)),
    )


def test_what_decides_about_a_node_stays_of_pods_that_wait_alone() -> None:
    cache = ClusterCache()

    cache.put_pod(waiting())
    assert cache.pod("default", "a") == waiting()

    for bound in (waiting("n1"), waiting("n1", "cpu"), waiting(None, "cpu")):
        cache.put_pod(bound)
        kept = cache.pod("default", "a")
        assert kept is not None
        assert (kept.spec.tolerations, kept.spec.affinity, kept.status.conditions) == (None,) * 3


def test_the_node_revision_changes_with_what_keeps_pods_away() -> None:
    cache = ClusterCache()
    node = a_node("n1")
    cache.put_node(node)
    first = cache.node_revision

    cache.put_node(structs.replace(node, status=NodeStatus(capacity={"cpu": 1})))
    assert cache.node_revision == first
    cache.put_node(structs.replace(node, spec=NodeSpec(unschedulable=True)))
    cache.put_node(structs.replace(node, spec=NodeSpec(taints=(Taint("x"),))))
    cache.drop_node(node.metadata)
    assert cache.node_revision == first + 3


def test_followers_learn_the_gang_and_the_node_of_a_pod_that_cannot_be_decoded() -> None:
    cache, gangs = ClusterCache(), GangCache()
    cache.follow_pods(gangs)
    cache.put_pod(member("a"))
    metadata = encode({"annotations": member("b").metadata.annotations})
    for spec in (b'{"nodeName":"n1","containers":7}', b'{"nodeName":7}', b"7"):
        text = Raw(b'{"metadata":%b,"spec":%b}' % (metadata, spec))
        cache.put_unreadable_pod(Unreadable("default", "b", "b", text), "no object")
        gang = gangs.gang(member("a"))
        assert gang is not None
        nodes = {pod.metadata.name: pod.spec.node_name for pod in gang.pods}
        assert nodes == {"a": None, "b": "n1" if b"n1" in spec else None}

    cache.put_unreadable_pod(Unreadable("default", "b", "b", Raw(b"{}")), "no object")
    gang = gangs.gang(member("a"))
    assert gang is not None
    assert len(gang.pods) == 1


def member(name: str) -> Pod:
    """A pod of a gang of two."""
    pod = a_kube_pod(name)
    texts = {f"{GANG}/name": "g", f"{GANG}/min-available": "2"}
    return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=texts))


def test_a_waiting_pod_with_a_claim_stays_whole_where_claims_count() -> None:
    pod = waiting(None, "cpu")
    spec = structs.replace(pod.spec, resource_claims=(PodClaim("c", "w"),))
    pod = structs.replace(pod, spec=spec)
    counting, other = ClusterCache(claims_count=True), ClusterCache()

    for cache in (counting, other):
        cache.put_pod(pod)

    assert counting.unbound() == [pod]
    assert other.unbound() == []
