"""Which rejected pods are kept, and which of their nodes."""

from dataclasses import replace

import msgspec

from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.service.decide.advice.remembered_pods import (
    ASKED,
    KEPT,
    NODES,
    SERIES,
    RejectedPods,
)
from adapters.service.tests.builders import DIALECTS, a_pod, read_pod

CACHE = PodRequestCache(DIALECTS)


def asking(name: str, priority: int = 0) -> PodRequest:
    found = CACHE.read(read_pod(a_pod(name, priority=priority)))
    assert found is not None
    return replace(found)


def uids(rejected: RejectedPods) -> list[str]:
    return [each.pod.request.uid for each in rejected.all()]


def test_the_first_rejection_counts_and_the_last_nodes() -> None:
    rejected = RejectedPods()
    rejected.rejected(asking("a"), ["n1"], 5)
    rejected.rejected(asking("a"), ["n2", "n3"], 7)

    (found,) = rejected.all()
    assert (found.since, found.nodes) == (5, ("n2", "n3"))
    rejected.discard("uid-a")
    rejected.discard("uid-a")
    assert rejected.all() == []


def test_the_highest_priority_is_first_and_the_lowest_is_dropped() -> None:
    rejected = RejectedPods()
    for number in range(KEPT):
        rejected.rejected(asking(f"p{number}", priority=10), ["n1"], number)
    rejected.rejected(asking("low", priority=5), ["n1"], 0)
    rejected.rejected(asking("high", priority=20), ["n1"], 0)

    assert uids(rejected)[:2] == ["uid-high", "uid-p0"]
    assert "uid-low" not in uids(rejected)
    assert len(uids(rejected)) == KEPT


def test_a_namespace_with_many_pods_drops_its_own() -> None:
    rejected = RejectedPods()
    rejected.rejected(asking("honest", priority=5), ["n1"], 0)
    for number in range(2 * KEPT):
        many = asking(f"p{number}", priority=10)
        pod = msgspec.structs.replace(
            many.pod, metadata=msgspec.structs.replace(many.pod.metadata, namespace="evil")
        )
        rejected.rejected(replace(many, pod=pod), ["n1"], number)

    assert len(uids(rejected)) == KEPT
    assert uids(rejected)[-1] == "uid-honest"


def test_of_many_nodes_each_rejection_keeps_others() -> None:
    rejected = RejectedPods()
    nodes = [f"n{number}" for number in range(3 * NODES)]
    seen: set[str] = set()
    for _ in range(3):
        rejected.rejected(asking("a"), nodes, 0)
        (found,) = rejected.all()
        assert len(found.nodes) == NODES
        seen.update(found.nodes)

    assert seen == {*nodes}


def test_a_scheduler_that_was_given_victims_preempts_itself_for_a_while() -> None:
    rejected = RejectedPods()
    rejected.named_victims("uid-a", 1)
    rejected.rejected(asking("a"), ["n1"], 1)
    (found,) = rejected.all()
    assert not found.is_preempting(2)

    rejected.named_victims("uid-a", 2)

    assert found.is_preempting(1 + ASKED)
    assert not found.is_preempting(2 + ASKED)


def test_a_scheduler_that_is_given_victims_again_and_again_is_waited_for_once() -> None:
    rejected = RejectedPods()
    rejected.rejected(asking("a"), ["n1"], 0)
    for now in range(0, SERIES, ASKED // 2):
        rejected.named_victims("uid-a", now)
    (found,) = rejected.all()
    assert not found.is_preempting(ASKED)

    rejected.named_victims("uid-a", SERIES)

    assert found.is_preempting(SERIES + ASKED - 1)
