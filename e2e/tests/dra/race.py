"""Two schedulers that allocate the same cards by claims at the same time."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.processes.waiting import within
from e2e.harness.workloads.claims import CAPACITY, CARDS, CLAIMS, GIB, a_claim, a_pod, allocated
from e2e.tests.dra.arbiter import end_round

PODS_OF_A_ROUND = 12
EACH = 20 * GIB


def most_over(api: Api) -> Fraction:
    """By how many bytes the worst card is over-allocated."""
    return max(max(found - CAPACITY, Fraction(0)) for found in allocated(api, CARDS).values())


def decided(api: Api) -> bool:
    """Whether each pod is bound, or was rejected by its scheduler."""
    rows = api.get(PODS)["items"]
    return all(
        row["spec"].get("nodeName")
        or any(
            (each["type"], each["status"]) == ("PodScheduled", "False")
            and each.get("reason") != "SchedulingGated"
            for each in row.get("status", {}).get("conditions", ())
        )
        for row in rows
    )


def race(api: Api, schedulers: Sequence[str], each: int = EACH) -> Fraction:
    """Let schedulers place pods at once; by how much they over-allocate a card.

    All pods are there, with their groups, before the schedulers may place the first of them.

    Args:
        api: the server.
        schedulers: that get the pods in turn.
        each: bytes that a pod claims.
    """
    names = [f"p{number}" for number in range(PODS_OF_A_ROUND)]
    for name in names:
        api.create(CLAIMS, a_claim(name, each))
    for number, name in enumerate(names):
        pod = a_pod(name, schedulers[number % len(schedulers)], name)
        pod["spec"]["schedulingGates"] = [{"name": "example.com/start"}]
        api.create(PODS, pod)
    for name in names:
        api.merge(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})
    within(120, lambda: decided(api))
    return most_over(api)


def rounds(api: Api, schedulers: Sequence[str], count: int, each: int = EACH) -> Iterator[Fraction]:
    """By how much each of some rounds over-allocates a card."""
    for _ in range(count):
        over = race(api, schedulers, each)
        end_round(api)
        yield over
