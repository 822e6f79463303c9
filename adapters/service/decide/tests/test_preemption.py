"""Preemption victims, with disruption budgets and with pods that cannot be evicted."""

from collections.abc import Mapping, Sequence

import msgspec

from adapters.accounting.gang_cache import GangCache
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    decoded,
    read_pod,
    run,
)
from adapters.stores.store import StoreError
from adapters.wire.kube_policy import Budget, PodGroupObject
from core.requests.gang import GangApi


class FakeBudgets:
    """The budgets of the API server, or no answer."""

    def __init__(self, *budgets: Budget, silent: bool = False) -> None:
        self.budgets = budgets
        self.silent = silent

    async def all(self) -> Sequence[Budget]:
        if self.silent:
            raise StoreError("no answer")
        return self.budgets


def a_budget(allowed: int = 0, **labels: str) -> Budget:
    thing = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(thing, Budget)


def labelled(pod: Json, **labels: str) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


async def full(budgets: FakeBudgets, *pods: Json) -> Bench:
    """A node with two cards of 8192 MiB; the pods are bound to it in this order."""
    bench = await a_service(a_node("n1", cards=2), pods=pods, budgets=budgets.all)
    for pod in pods:
        name = pod["metadata"]["name"]
        request = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}"}
        await KubeExtender(bench.service).bind(body({**request, "Node": "n1"}))
    return bench


async def chosen(
    bench: Bench, named: Sequence[str] = (), broken: int = 0, priority: int = 10
) -> Mapping[str, Json]:
    """Return the victims for a pod that needs a whole card."""
    request = {
        "Pod": a_pod("urgent", memory=8000, priority=priority),
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": uid} for uid in named], "NumPDBViolations": broken}
        },
    }
    found = await decoded(KubeExtender(bench.service).preempt(body(request)))
    victims: dict[str, Json] = found["NodeNameToMetaVictims"]
    return victims


def uids(node: Json) -> list[str]:
    return [pod["UID"] for pod in node["Pods"]]


A = labelled(a_pod("a", memory=8000), app="web")
B = labelled(a_pod("b", memory=8000), app="db")


def test_a_protected_pod_is_no_victim_where_another_pod_is_enough() -> None:
    async def work() -> Mapping[str, Json]:
        return await chosen(await full(FakeBudgets(a_budget(app="db")), A, B))

    found = run(work())["n1"]

    assert (uids(found), found["NumPDBViolations"]) == (["uid-a"], 0)


def test_a_budget_that_allows_a_disruption_protects_no_pod() -> None:
    async def work() -> Mapping[str, Json]:
        return await chosen(await full(FakeBudgets(a_budget(1, app="db")), A, B))

    found = run(work())["n1"]

    assert (uids(found), found["NumPDBViolations"]) == (["uid-b"], 0)


def test_a_violated_budget_is_counted_whatever_the_scheduler_proposed() -> None:
    async def work() -> Mapping[str, Json]:
        budgets = FakeBudgets(a_budget(app="web"), a_budget(app="db"))
        return await chosen(await full(budgets, A, B), named=["uid-a"], broken=0)

    found = run(work())["n1"]

    assert (uids(found), found["NumPDBViolations"]) == (["uid-b"], 1)


def test_where_budgets_cannot_be_read_the_schedulers_count_is_used() -> None:
    async def work() -> Mapping[str, Json]:
        bench = await full(FakeBudgets(silent=True), A, B)
        return await chosen(bench, named=["uid-b"], broken=1)

    found = run(work())["n1"]

    assert (uids(found), found["NumPDBViolations"]) == (["uid-a"], 0)


def test_the_highest_priority_is_named_first() -> None:
    async def work() -> Mapping[str, Json]:
        low = a_pod("low", memory=4000, priority=1)
        high = a_pod("high", memory=4000, priority=3)
        other = a_pod("other", memory=8000, priority=20)
        bench = await full(FakeBudgets(), other, high, low)
        return await chosen(bench)

    assert uids(run(work())["n1"]) == ["uid-high", "uid-low"]


def test_pods_of_higher_priority_are_never_victims() -> None:
    async def work() -> Mapping[str, Json]:
        return await chosen(await full(FakeBudgets(), A, B), priority=0)

    assert run(work()) == {}


def test_a_pod_that_is_not_bound_is_no_victim() -> None:
    async def work() -> Mapping[str, Json]:
        bench = await full(FakeBudgets(), A)
        promised = bench.service.pod_requests.read(read_pod(B))
        assert promised is not None
        await bench.service.committer.commit(promised, "n1")
        return await chosen(bench)

    assert uids(run(work())["n1"]) == ["uid-a"]


def grouped(pod: Json) -> Json:
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "g"}}}


async def with_a_group(*names: str, elsewhere: str = "") -> Bench:
    """Pods on both cards of a node, some of which are only disrupted together with the others.

    Args:
        names: of the members of the group.
        elsewhere: name of a member that is bound to another node.
    """
    gangs = GangCache()
    group = {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"disruptionMode": {"all": {}}},
    }
    gangs.put_group(GangApi.KUBERNETES, msgspec.convert(group, PodGroupObject))
    pods = [grouped(each) if each["metadata"]["name"] in names else each for each in (A, B)]
    bench = await a_service(a_node("n1", cards=2), pods=pods, gangs=gangs)
    for pod in pods:
        name = pod["metadata"]["name"]
        request = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}"}
        await KubeExtender(bench.service).bind(body({**request, "Node": "n1"}))
    if elsewhere:
        other = grouped(a_pod(elsewhere))
        bench.cluster.put(read_pod({**other, "spec": {**other["spec"], "nodeName": "n2"}}))
    for each in bench.cluster.pods():
        gangs.put(each)
    return bench


def test_a_group_that_is_only_disrupted_as_a_whole_is_named_as_a_whole() -> None:
    async def work() -> Mapping[str, Json]:
        return await chosen(await with_a_group("a", "b"))

    assert uids(run(work())["n1"]) == ["uid-a", "uid-b"]


def test_a_single_pod_goes_rather_than_a_group() -> None:
    async def work() -> Mapping[str, Json]:
        bench = await with_a_group("a", "b")
        bench.service.ports.gangs.drop("uid-a")
        return await chosen(bench)

    assert uids(run(work())["n1"]) == ["uid-b"]


def test_no_pod_is_named_that_goes_only_with_pods_of_other_nodes() -> None:
    async def work() -> tuple[Mapping[str, Json], Mapping[str, Json]]:
        bench = await with_a_group("b", elsewhere="c")
        return await chosen(bench), await chosen(bench, named=["uid-b", "uid-c"])

    alone, proposed = run(work())

    assert uids(alone["n1"]) == ["uid-a"]
    assert proposed == {}  # kube-scheduler fails where a victim is not on the node


def test_where_only_such_pods_could_go_the_node_is_left_out() -> None:
    async def work() -> Mapping[str, Json]:
        return await chosen(await with_a_group("a", "b", elsewhere="c"))

    assert run(work()) == {}
