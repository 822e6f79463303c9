"""Preemption of kube-scheduler."""

import pytest

from adapters.sidecar.endpoints.kube_extender import KubeExtender
from adapters.sidecar.endpoints.tests.kube_bodies import bind
from adapters.sidecar.tests.builders import (
    Json,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    run,
)


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
