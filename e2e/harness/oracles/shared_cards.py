"""Pods and claims that hold the same cards, summed up for each state that the API server had."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.oracles.from_annotations import Share, shares_of_pod, sums
from e2e.harness.oracles.from_claims import Devices, shares_of_claim
from e2e.harness.oracles.pod_changes import following
from e2e.harness.workloads.claims import CLAIMS
from e2e.harness.workloads.inventory import SLOTS, Gpu

FULL = 100
FINISHED = {"Succeeded", "Failed"}
ASSIGNED = "test.dragoman.dev/assigned"
"""Annotation: uuid of the whole card that a kubelet of a test assigned to a pod."""


@dataclass(slots=True)
class SharedCards:
    """All changes of the pods and claims of a namespace, by two watches.

    The watches are apart in time. One store numbers the changes of both, so that the states are
    looked at in its order when all changes are known.

    Attributes:
        cards: of the nodes; of only one, in Koordinator's order, where it has such shares.
        devices: of claims, and whose cards they are.
        minors: uuids in Koordinator's order by node, where several nodes have such shares.
        created: by pod, when it was seen first, in seconds of the monotonic clock.
        bound: the same, when its node was.
        running: node by pod, of those that are bound and have not ended.
    """

    cards: Sequence[Gpu]
    devices: Devices
    minors: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    created: dict[str, float] = field(default_factory=dict[str, float])
    bound: dict[str, float] = field(default_factory=dict[str, float])
    running: dict[str, str] = field(default_factory=dict[str, str])
    _changes: list[tuple[int, float, str, Object]] = field(
        default_factory=list[tuple[int, float, str, Object]]
    )
    _broken: list[str] = field(default_factory=list[str])

    @contextmanager
    def watching(self, api: Api) -> Iterator[None]:
        """Watch for the length of a block; the states can be looked at after it."""
        with following(api, PODS, self.see), following(api, CLAIMS, self.see):
            yield

    def see(self, what: str, item: Object) -> None:
        """One change of a pod or a claim."""
        if what == "ERROR":
            self._broken.append(f"a watch broke: {item}")
            return
        now, about = monotonic(), item["metadata"]
        self._changes.append((int(about["resourceVersion"]), now, what, item))
        if "containers" not in item["spec"]:
            return
        self.created.setdefault(about["name"], now)
        node, ends = item["spec"].get("nodeName"), "deletionTimestamp" in about
        if node:
            self.bound.setdefault(about["name"], now)
        if node and not (ends or what == "DELETED" or _has_finished(item)):
            self.running[about["name"]] = node
        else:
            self.running.pop(about["name"], None)

    def problems(self) -> list[str]:
        """What did not fit on a card, in any state: once for each holder and its card."""
        return [*self._broken, *(f"after {name}: {text}" for name, text in self.over_admitted())]

    def over_admitted(self) -> list[tuple[str, str]]:
        """Pods and claims that got a card on which there was no room, and what it had then."""
        held: dict[str, list[Share]] = {}
        found = []
        for _, uid, name, shares in self.history():
            if shares == held.get(uid, []):
                continue
            held[uid] = shares
            own = {share.card for share in shares}
            rows = [share for each in held.values() for share in each if share.card in own]
            found += [(name, text) for text in self._over(rows)]
        return found

    @property
    def states(self) -> int:
        """How many states there were."""
        return len(self._changes)

    def history(self) -> Iterator[tuple[float, str, str, list[Share]]]:
        """When which pod or claim had what, by uid and name, in the order of the store.

        A pod that has finished has nothing any more: after the API server stood still, kwok says
        of one that it runs, where its kubelet said before that it ended.
        """
        minors, ended = [card.uuid for card in self.cards], set[str]()
        for _, moment, what, item in sorted(self._changes, key=lambda change: change[0]):
            about = item["metadata"]
            if what == "DELETED" or _has_finished(item):
                ended.add(about["uid"])
            shares = [] if about["uid"] in ended else self._shares(item, minors)
            yield moment, about["uid"], about["name"], shares

    def claims(self) -> set[str]:
        """Names of the claims that had devices at some time."""
        return {
            item["metadata"]["name"]
            for *_, item in self._changes
            if shares_of_claim(item, self.devices)
        }

    def _shares(self, item: Object, minors: Sequence[str]) -> list[Share]:
        if "containers" not in item["spec"]:
            return shares_of_claim(item, self.devices)
        if "nodeName" not in item["spec"]:
            return []
        if uuid := (item["metadata"].get("annotations") or {}).get(ASSIGNED):
            (card,) = (each for each in self.cards if each.uuid == uuid)
            return [Share(uuid, card.memory, FULL)]
        return shares_of_pod(item, self.minors.get(item["spec"]["nodeName"], minors))

    def _over(self, shares: Sequence[Share]) -> Iterator[str]:
        memory, compute = sums(shares)
        slots = Counter(share.card for share in shares)
        for card in self.cards:
            uuid = card.uuid
            if memory[uuid] > card.memory or compute[uuid] > FULL or slots[uuid] > SLOTS:
                yield (
                    f"{uuid} has allocated {memory[uuid]} of {card.memory} MiB, "
                    f"{compute[uuid]} % and {slots[uuid]} of {SLOTS} slots"
                )


def _has_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in FINISHED
