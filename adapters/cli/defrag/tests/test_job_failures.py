"""Pods whose eviction would make their Job fail stay. Cases: kubernetes 1.37 pkg/controller/job."""

from pathlib import Path
from typing import Any

import pytest

from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.builders import Plain, node, pod, volcano, volcano_bound
from adapters.cli.tests.command import command

DISRUPTION = {"type": "DisruptionTarget", "status": "True"}


def job(name: str = "j", failed: int = 0, **spec: Any) -> Plain:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"failed": failed},
    }


def rules(*rules: Plain) -> Plain:
    return {"podFailurePolicy": {"rules": [*rules]}}


def codes(action: str, operator: str, *values: int) -> Plain:
    return {"action": action, "onExitCodes": {"operator": operator, "values": [*values]}}


def conditions(action: str, *found: Plain) -> Plain:
    return {"action": action, "onPodConditions": [*found]}


def of_job(name: str, card: int = 0, texts: dict[str, str] | None = None) -> Plain:
    owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
    held = volcano_bound(name, 5000, card)
    held["metadata"]["ownerReferences"] = [owner]
    held["metadata"]["annotations"] |= texts or {}
    return held


def planned(*things: Plain, cards: int = 1) -> str:
    """The plan for a pod that fits where a pod of a Job is."""
    waits = pod("waits", volcano(9000, number=cards))
    nodes = [node(cards=cards), node("node-b", cards=cards)]
    fills = [volcano_bound(f"fill{card}", 5000, card, on="node-b") for card in range(cards)]
    return command("defrag", things=[*nodes, *fills, waits, *things]).stdout


@pytest.mark.parametrize(
    "of",
    [
        job(),
        job(failed=5),
        job(backoffLimit=1),
        job(backoffLimit=0, **rules(conditions("Ignore", DISRUPTION))),
        job(**rules(codes("FailJob", "In", 42), conditions("Ignore", DISRUPTION))),
        job(**rules(codes("FailJob", "NotIn", 137, 143))),
        job(**rules(conditions("FailJob", {"type": "ConfigIssue", "status": "True"}))),
        job(backoffLimitPerIndex=1),
        job(failed=1000, backoffLimitPerIndex=3),
    ],
)
def test_a_pod_moves_whose_job_outlives_it(of: Plain) -> None:
    assert "moves: 1 pod is deleted" in planned(of_job("a"), of)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (job(backoffLimit=0), "allows no further failure"),
        (job(failed=6), "allows no further failure"),
        (job(backoffLimit=2, failed=2), "allows no further failure"),
        (job(backoffLimitPerIndex=0), "allows no further failure"),
        (job(backoffLimit=0, **rules(conditions("Count", DISRUPTION))), "no further failure"),
        (job(**rules(conditions("FailJob", DISRUPTION))), "podFailurePolicy"),
        (job(**rules(codes("FailJob", "In", 143))), "podFailurePolicy"),
        (job(**rules(codes("FailIndex", "NotIn", 137))), "podFailurePolicy"),
        (job(backoffLimit=0, **rules(codes("Ignore", "In", 1))), "allows no further failure"),
        (job("another"), "is not in the input"),
    ],
)
def test_a_pod_stays_whose_job_would_fail_by_its_eviction(of: Plain, why: str) -> None:
    text = planned(of_job("a"), of)

    assert "moves:" not in text
    assert f"its Job {'' if 'input' in why else 'would fail'}" in text
    assert why in text


@pytest.mark.parametrize(("failed", "limit", "moves"), [("1", 2, 1), ("1", 1, 0), ("x", 9, 0)])
def test_the_index_of_a_pod_may_have_failed_before(failed: str, limit: int, moves: int) -> None:
    held = of_job("a", texts={"batch.kubernetes.io/job-index-failure-count": failed})

    text = planned(held, job(backoffLimitPerIndex=limit))

    assert text.count("moves: 1 pod is deleted") == moves


def test_of_a_cluster_whose_jobs_may_not_be_listed_their_pods_stay(tmp_path: Path) -> None:
    budget: Plain = {"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "x"}}
    filled = volcano_bound("fill", 5000, on="node-b")
    nodes = [node(cards=1), node("node-b", cards=1)]
    things = [*nodes, filled, pod("waits", volcano(9000)), of_job("a"), job(), budget]
    with api_server(tmp_path, *things) as server:
        listed = command("defrag", "--kubeconfig", server.kubeconfig)
        server.forbidden.add("/apis/batch/v1/jobs")
        refused = command("defrag", "--kubeconfig", server.kubeconfig)

    assert "moves: 1 pod is deleted" in listed.stdout
    assert "moves:" not in refused.stdout
    assert "warning: pods of Jobs are not moved: must list jobs in all" in refused.stderr


def test_no_more_pods_of_a_job_move_than_may_fail() -> None:
    both = [of_job("a"), of_job("b", 1)]

    assert "moves: 2 pods" in planned(*both, job(backoffLimit=2), cards=2)
    text = planned(*both, job(backoffLimit=1), cards=2)

    assert "moves:" not in text
    assert "1 (its Job would fail, which allows no further failure (backoffLimit))" in text
