"""Filter and preempt about a pod that is bound: its resize waits for room on its node.

kube-scheduler 1.37 asks that with the gate InPlacePodVerticalScalingSchedulerPreemption, about the
pod's own node alone. Source: k8s.io/kubernetes v1.37.1 pkg/scheduler/eventhandlers.go
(``updatePod``), framework/plugins/deferredpodscheduling.
"""

from collections.abc import Sequence

import pytest

from adapters.accounting.gang_cache import GangCache
from adapters.service.decide import gangs
from adapters.service.decide.ports import Outcome
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names, used
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
    stored,
)
from adapters.stores.memory import MemoryQuotas
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota

GANG = "gang.scheduling.koordinator.sh"


def resized(pod: Json, node: str = "n1") -> Json:
    """The pod as its scheduler sends it when the kubelet has deferred its resize."""
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    return {
        **pod,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {"phase": "Running", "conditions": [pending]},
    }


async def with_bound(pod: Json, *, quotas: MemoryQuotas | None = None) -> Bench:
    """A service of one node of one card; the pod is bound to it."""
    bench = await a_service(a_node("n1", cards=1), a_node("n2"), pods=[pod], quotas=quotas)
    if quotas is not None:
        await bench.see_quota()
    answer = await decoded(KubeExtender(bench.service).bind(bind(pod["metadata"]["name"], "n1")))
    assert answer == {"Error": ""}
    return bench


async def asked(bench: Bench, pod: Json, *nodes: str) -> list[str]:
    """The nodes that filter answers for the pod; nothing changes."""
    writes, held = bench.store.writes, used(bench, "n1")
    answer = await decoded(KubeExtender(bench.service).filter(names(pod, *nodes)))
    assert (bench.store.writes, used(bench, "n1")) == (writes, held)
    assert len(bench.service.waiting_pods) == 0
    return [*answer["NodeNames"]]


async def evicts(bench: Bench, pod: Json, proposed: Sequence[str]) -> Json:
    """What preempt answers where the scheduler would evict some pods for the processor."""
    proposal = {"Pods": [{"UID": uid} for uid in proposed], "NumPDBViolations": 0}
    request = {"Pod": pod, "NodeNameToMetaVictims": {"n1": proposal}}
    return (await decoded(KubeExtender(bench.service).preempt(body(request))))[
        "NodeNameToMetaVictims"
    ]


def test_a_pod_that_fills_its_card_fits_its_own_node_and_no_other() -> None:
    async def work() -> tuple[list[str], Outcome]:
        pod = a_pod(memory=8000)
        bench = await with_bound(pod)
        fits = await asked(bench, resized(pod), "n1", "n2")
        return fits, bench.decision_log.decisions[-1].outcome

    assert run(work()) == (["n1"], Outcome.FITS)


def test_a_quota_that_was_lowered_keeps_no_pod_from_its_own_node() -> None:
    async def work() -> tuple[list[str], Json]:
        quotas = MemoryQuotas((Quota("default", QuotaLimits(memory=8 * GIB), counted=True),))
        pod = a_pod(memory=8000)
        bench = await with_bound(pod, quotas=quotas)
        bench.service.quotas.reject("default", "no quota can be read")
        fits = await asked(bench, resized(pod), "n1")
        return fits, await evicts(bench, resized(pod), ["uid-busy"])

    fits, evicted = run(work())

    assert fits == ["n1"]
    assert evicted == {"n1": {"Pods": [{"UID": "uid-busy"}], "NumPDBViolations": 0}}


def test_a_card_that_is_gone_keeps_no_pod_from_its_own_node() -> None:
    async def work() -> tuple[list[str], Json]:
        pod = a_pod(memory=8000)
        bench = await with_bound(pod)
        ledger = bench.service.ledgers.inventory.ledger("n1")
        bench.service.ledgers.load({"n1": stored(ledger.with_node(Node("n1")))})
        fits = await asked(bench, resized(pod), "n1")
        return fits, await evicts(bench, resized(pod), ["uid-busy"])

    fits, evicted = run(work())

    assert fits == ["n1"]
    assert evicted.keys() == {"n1"}


def test_a_gang_that_lost_a_pod_keeps_no_other_from_its_own_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gangs, "LOOK", 0.001)
    texts = {f"{GANG}/name": "g", f"{GANG}/min-available": "2"}

    async def work() -> list[str]:
        pods = [a_pod(name, annotations=texts) for name in "ab"]
        cache = GangCache()
        for pod in pods:
            cache.put(read_pod(pod))
        bench = await a_service(a_node("n1", cards=1), pods=pods, gangs=cache)
        kube = KubeExtender(bench.service)
        for pod in pods:
            await kube.filter(names(pod, "n1"))
        for pod in pods:
            assert await decoded(kube.bind(bind(pod["metadata"]["name"], "n1"))) == {"Error": ""}
            cache.put(read_pod(resized(pod)))
        cache.drop("uid-b")
        return await asked(bench, resized(pods[0]), "n1")

    assert run(work()) == ["n1"]
