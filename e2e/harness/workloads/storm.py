"""Many pods in all vocabularies on few cards, and a watcher that sums up what they were given."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.oracles.from_annotations import given, sums
from e2e.harness.schedulers.koordinator import CORE, RATIO
from e2e.harness.workloads.inventory import (
    SLOTS,
    Described,
    Gpu,
    described,
    koordinator,
    metax,
    volcano,
)

FULL = 100
KINDS = ("volcano", "koordinator", "metax", "plain")
FINISHED = {"Succeeded", "Failed"}
REFUSED = {"FailedScheduling", "Unschedulable"}
"""Reasons of events by which schedulers tell a pod's author that it has no place."""


def described_by_all(name: str, cards: Sequence[Gpu]) -> Described:
    """A node for hundreds of pods, whose cards all three vocabularies describe.

    It also states what NVIDIA's device plugin would, and the amounts of MetaX's shares, without
    which vc-scheduler, which counts for itself, places no pod that names them.
    """
    made = described(name, volcano(cards), koordinator(cards, with_shared=True), metax(cards))
    stated = {
        "cpu": "1000",
        "memory": "1Ti",
        "pods": "1000",
        "nvidia.com/gpu": str(len(cards)),
        "metax-tech.com/vcore": str(FULL * SLOTS * len(cards)),
        "metax-tech.com/vmemory": "1Pi",
    }
    for amounts in (made.node["status"]["capacity"], made.node["status"]["allocatable"]):
        amounts |= stated
    return made


def random_pod(random: Random, kind: str, name: str, scheduler: str) -> Object:
    """A pod that asks in one vocabulary for some part of a card, or for whole ones."""
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
        case _:
            asked = {"nvidia.com/gpu": str(random.choice((1, 1, 2)))}
    return pod(name, scheduler, dict(asked))


def untold(api: Api) -> list[str]:
    """Names of the pods that are neither bound nor were told that they cannot be."""
    rows = api.get(PODS)["items"]
    told = {
        row["involvedObject"].get("uid")
        for row in api.get(PODS.replace("/pods", "/events"))["items"]
        if row["reason"] in REFUSED
    }
    return [
        row["metadata"]["name"]
        for row in rows
        if "nodeName" not in row["spec"] and row["metadata"]["uid"] not in told
    ]


@dataclass(slots=True)
class Watcher:
    """Follows the pods of a namespace on one node, and looks at each state that there was.

    Attributes:
        cards: of the node, in Koordinator's order.
        pods: by uid, those that hold what they were given: bound, and neither finished nor gone.
        placed: by uid, every pod that was bound at some time.
        states: how many states were looked at.
    """

    cards: Sequence[Gpu]
    pods: dict[str, Object] = field(default_factory=dict[str, Object])
    placed: dict[str, Object] = field(default_factory=dict[str, Object])
    states: int = 0
    version: int = 0
    _problems: list[str] = field(default_factory=list[str])

    @classmethod
    @contextmanager
    def of(cls, api: Api, cards: Sequence[Gpu], path: str = PODS) -> Iterator["Watcher"]:
        """Watch for the length of a block; the pods of the node are those of the namespace."""
        watcher = cls(cards)
        listed = api.get(path)
        for row in listed["items"]:
            watcher.see("ADDED", row)
        ended = threading.Event()
        work = threading.Thread(
            target=watcher.follow,
            args=(api, path, listed["metadata"]["resourceVersion"], ended.is_set),
        )
        work.start()
        try:
            yield watcher
        finally:
            ended.set()
            work.join(30)

    def follow(self, api: Api, path: str, version: str, ended: Callable[[], bool]) -> None:
        """Look at what the API server tells, one change after the other."""
        while not ended():
            for change in api.watch(path, version, 2):
                if change["type"] == "ERROR":
                    self._problems.append(f"the watch broke: {change['object']}")
                    return
                self.see(change["type"], change["object"])
                version = change["object"]["metadata"]["resourceVersion"]

    def see(self, what: str, pod: Object) -> None:
        """One change: the sums of what was given must fit on every card after it."""
        uid = pod["metadata"]["uid"]
        gone = what == "DELETED" or pod.get("status", {}).get("phase") in FINISHED
        if "nodeName" in pod["spec"]:
            self.placed[uid] = pod
        if gone or "nodeName" not in pod["spec"]:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        self.states += 1
        self.version = int(pod["metadata"]["resourceVersion"])
        self._look(pod["metadata"]["name"])

    def problems(self) -> list[str]:
        """What did not fit so far."""
        return list(self._problems)

    def _look(self, last: str) -> None:
        minors = [card.uuid for card in self.cards]
        shares = [share for row in self.pods.values() for share in given(row, minors)]
        memory, compute = sums(shares)
        for card in self.cards:
            if memory[card.uuid] > card.memory or compute[card.uuid] > FULL:
                self._problems.append(
                    f"after {last}: {card.uuid} has given away {memory[card.uuid]} of "
                    f"{card.memory} MiB and {compute[card.uuid]} %"
                )
        for row in self.pods.values():
            if not given(row, minors):
                self._problems.append(f"{row['metadata']['name']} is bound without cards")
