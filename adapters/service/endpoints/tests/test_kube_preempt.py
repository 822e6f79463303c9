"""Preemption of kube-scheduler."""

from collections.abc import Sequence

import pytest

from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind
from adapters.service.tests.builders import (
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    run,
)
from adapters.stores.memory import MemoryQuotas
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota


def test_preemption_finds_the_fewest_victims_even_where_the_scheduler_proposes_none() -> None:
    async def work() -> Json:
        pods = [a_pod("low", memory=8000), a_pod("lower", memory=3000, priority=-5)]
        bench = await a_service(a_node("n1", cards=2), a_node("n2", cards=1), pods=pods)
        kube = KubeExtender(bench.service)
        await kube.bind(bind("low", "n1"))
        await kube.bind(bind("lower", "n1"))
        urgent = a_pod("urgent", memory=8000, priority=10)
        request = {
            "Pod": urgent,
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": {
                "n1": {"Pods": [], "NumPDBViolations": 0},
                "n2": {"Pods": None, "NumPDBViolations": 0},
                "stranger": {"Pods": [], "NumPDBViolations": 0},
            },
        }
        return await decoded(kube.preempt(body(request)))

    found = run(work())["NodeNameToMetaVictims"]

    # On n2 no eviction is needed, so it is left out; an unknown node cannot help.
    assert found == {"n1": {"Pods": [{"UID": "uid-lower"}], "NumPDBViolations": 0}}


def test_victims_without_cards_stay_and_unneeded_ones_are_spared() -> None:
    async def work() -> Json:
        pods = [a_pod("a", memory=8000), a_pod("b", memory=8000)]
        bench = await a_service(a_node("n1", cards=2), pods=pods)
        kube = KubeExtender(bench.service)
        for name in ("a", "b"):
            await kube.bind(bind(name, "n1"))
        victims = [{"metadata": {"uid": uid}} for uid in ("cpu-only", "uid-a", "uid-b")]
        request = {
            "Pod": a_pod("urgent", memory=8000, priority=10),
            "NodeNameToVictims": {"n1": {"Pods": victims, "NumPDBViolations": 0}},
        }
        return await decoded(kube.preempt(body(request)))

    found = run(work())["NodeNameToMetaVictims"]

    assert [pod["UID"] for pod in found["n1"]["Pods"]] == ["cpu-only", "uid-b"]


async def preempting(limit: int, *holders: Json, proposed: Sequence[str] = ()) -> Json:
    """What a pod of 8,000 MiB evicts from a node of one card, under a quota of ``default`` in GiB.

    Args:
        limit: of the namespace of the pod.
        holders: pods that are bound to the node; one with 4,000 MiB on another node counts too.
        proposed: uids that the scheduler would evict.
    """
    quota = Quota("default", QuotaLimits(memory=limit * GIB), counted=True)
    pods = [*holders, a_pod("elsewhere", memory=4000)]
    bench = await a_service(
        a_node("n1", cards=1), a_node("n2"), pods=pods, quotas=MemoryQuotas((quota,))
    )
    await bench.see_quota()
    kube = KubeExtender(bench.service)
    for holder in holders:
        meta = holder["metadata"]
        args = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
        assert await decoded(kube.bind(body({**args, "Node": "n1"}))) == {"Error": ""}
    await kube.bind(bind("elsewhere", "n2"))
    await bench.see_quota()
    request = {
        "Pod": a_pod("urgent", memory=8000, priority=10),
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": uid} for uid in proposed], "NumPDBViolations": 0}
        },
    }
    return (await decoded(kube.preempt(body(request))))["NodeNameToMetaVictims"]


def in_namespace(pod: Json, namespace: str) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}


def test_a_pod_without_quota_evicts_no_pod_of_another_namespace() -> None:
    other = in_namespace(a_pod("other", memory=8000), "other")

    assert run(preempting(8, other)) == {}
    assert run(preempting(8, other, proposed=("uid-other",))) == {}
    assert run(preempting(12, other)) == {
        "n1": {"Pods": [{"UID": "uid-other"}], "NumPDBViolations": 0}
    }


def test_a_pod_without_quota_evicts_nothing_for_what_else_it_lacks() -> None:
    assert run(preempting(8, proposed=("no-cards",))) == {}
    assert run(preempting(12, proposed=("no-cards",))).keys() == {"n1"}


def test_victims_of_the_own_namespace_free_its_quota() -> None:
    assert run(preempting(12, a_pod("own", memory=8000))).keys() == {"n1"}


@pytest.mark.parametrize(
    "name",
    [
        "kube-scheduler/v1.37.1/preempt-pods.json",
        "kube-scheduler/v1.37.1/preempt-uids.json",
        "koordinator/v1.8.0/preempt.json",
    ],
)
def test_captured_preemptions_are_answered(name: str) -> None:
    async def work() -> Json:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"), a_node("gpu-2"))
        return await decoded(KubeExtender(bench.service).preempt(capture(name)))

    assert "NodeNameToMetaVictims" in run(work())
