"""What pods were given, summed up over all that hold cards of a node at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.oracles.from_annotations import shares_of_pod, sums
from e2e.harness.oracles.pod_changes import following
from e2e.harness.workloads.inventory import Gpu

FULL = 100
FINISHED = {"Succeeded", "Failed"}


@dataclass(slots=True)
class PodWatcher:
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
    def of(cls, api: Api, cards: Sequence[Gpu], path: str = PODS) -> Iterator["PodWatcher"]:
        """Watch for the length of a block; the pods of the node are those of the namespace."""
        watcher = cls(cards)
        with following(api, path, watcher.see):
            yield watcher

    def see(self, what: str, pod: Object) -> None:
        """One change: the sums of what was given must fit on every card after it."""
        if what == "ERROR":
            self._problems.append(f"the watch broke: {pod}")
            return
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
        shares = [share for row in self.pods.values() for share in shares_of_pod(row, minors)]
        memory, compute = sums(shares)
        for card in self.cards:
            if memory[card.uuid] > card.memory or compute[card.uuid] > FULL:
                self._problems.append(
                    f"after {last}: {card.uuid} has allocated {memory[card.uuid]} of "
                    f"{card.memory} MiB and {compute[card.uuid]} %"
                )
        for row in self.pods.values():
            if "resourceClaims" not in row["spec"] and not shares_of_pod(row, minors):
                self._problems.append(f"{row['metadata']['name']} is bound without cards")
