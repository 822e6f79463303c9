"""Many pods in all dialects on few cards."""

from collections.abc import Mapping, Sequence
from random import Random

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.names import CORE, RATIO
from e2e.harness.workloads.inventory import (
    SLOTS,
    Described,
    DialectRecords,
    Gpu,
    described,
    koordinator,
    metax,
    volcano,
)

FULL = 100
KINDS = ("volcano", "koordinator", "metax", "plain")
REFUSED = {"FailedScheduling", "Unschedulable"}
"""Reasons of the Events by which schedulers report that no node fits a pod."""


def described_by_all(name: str, cards: Sequence[Gpu], *more: DialectRecords) -> Described:
    """A node for hundreds of pods, whose cards three dialects describe, and maybe more.

    It also states what NVIDIA's device plugin would unless another dialect states these cards, and
    the amounts of MetaX's shares, without which vc-scheduler, which counts for itself, places no
    pod that names them.
    """
    three = volcano(cards), koordinator(cards, with_shared=True), metax(cards)
    made = described(name, *three, *more)
    whole = {} if more else {"nvidia.com/gpu": str(len(cards))}
    stated = {
        "cpu": "1000",
        "memory": "1Ti",
        "pods": "1000",
        **whole,
        "metax-tech.com/vcore": str(FULL * SLOTS * len(cards)),
        "metax-tech.com/vmemory": "1Pi",
    }
    for amounts in (made.node["status"]["capacity"], made.node["status"]["allocatable"]):
        amounts |= stated
    return made


def random_pod(random: Random, kind: str, name: str, scheduler: str) -> Object:
    """A pod that requests in one dialect a part of a card, or whole ones."""
    compute = random.choice((0, 10, 25, 50, FULL))
    asked: Mapping[str, str]
    match kind:
        case "volcano":
            asked = {
                "volcano.sh/vgpu-number": str(random.choice((1, 1, 1, 2))),
                "volcano.sh/vgpu-memory": str(random.choice((2000, 8000, 20000, 40000))),
            } | ({"volcano.sh/vgpu-cores": str(compute)} if compute else {})
        case "koordinator":
            amount = {RATIO: str(random.choice((5, 10, 25, 50, FULL)))}
            if random.random() < 0.5:
                amount = {"koordinator.sh/gpu-memory": random.choice(("2Gi", "9000Mi", "30Gi"))}
            asked = amount | ({CORE: str(compute)} if compute else {})
        case "metax":
            asked = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": str(compute or 15)}
            asked |= {"metax-tech.com/vmemory": random.choice(("1", "4", "500Mi", "20"))}
        case "hami":
            memory = {"nvidia.com/gpumem": str(random.choice((2000, 8000, 20000)))}
            if random.random() < 0.5:
                memory = {"nvidia.com/gpumem-percentage": str(random.choice((5, 10, 25, 50, FULL)))}
            asked = {"nvidia.com/gpu": str(random.choice((1, 1, 1, 2)))} | memory
            asked |= {"nvidia.com/gpucores": str(compute)} if compute else {}
        case _:
            asked = {"nvidia.com/gpu": str(random.choice((1, 1, 2)))}
    return pod(name, scheduler, dict(asked))


def unanswered(api: Api) -> list[str]:
    """Names of the pods that are neither bound nor reported as unschedulable."""
    rows = api.get(PODS)["items"]
    reported = {
        row["involvedObject"].get("uid")
        for row in api.get(PODS.replace("/pods", "/events"))["items"]
        if row["reason"] in REFUSED
    }
    return [
        row["metadata"]["name"]
        for row in rows
        if "nodeName" not in row["spec"] and row["metadata"]["uid"] not in reported
    ]
