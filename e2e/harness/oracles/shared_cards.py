"""Pods and claims that hold the same cards, summed up for each state that the API server had."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

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
    """

    cards: Sequence[Gpu]
    devices: Devices
    _changes: list[tuple[int, str, Object]] = field(default_factory=list[tuple[int, str, Object]])
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
        self._changes.append((int(item["metadata"]["resourceVersion"]), what, item))

    def problems(self) -> list[str]:
        """What did not fit on a card, in any state."""
        minors = [card.uuid for card in self.cards]
        held: dict[str, list[Share]] = {}
        found = [*self._broken]
        for _, what, item in sorted(self._changes, key=lambda change: change[0]):
            shares = [] if what == "DELETED" else self._shares(item, minors)
            if shares == held.get(item["metadata"]["uid"], []):
                continue
            held[item["metadata"]["uid"]] = shares
            rows = [share for each in held.values() for share in each]
            found += [f"after {item['metadata']['name']}: {text}" for text in self._over(rows)]
        return found

    def claims(self) -> set[str]:
        """Names of the claims that had devices at some time."""
        return {
            item["metadata"]["name"]
            for _, _, item in self._changes
            if shares_of_claim(item, self.devices)
        }

    @property
    def states(self) -> int:
        """How many states there were."""
        return len(self._changes)

    def _shares(self, item: Object, minors: Sequence[str]) -> list[Share]:
        if "containers" not in item["spec"]:
            return shares_of_claim(item, self.devices)
        if "nodeName" not in item["spec"] or item.get("status", {}).get("phase") in FINISHED:
            return []
        if uuid := (item["metadata"].get("annotations") or {}).get(ASSIGNED):
            (card,) = (each for each in self.cards if each.uuid == uuid)
            return [Share(uuid, card.memory, FULL)]
        return shares_of_pod(item, minors)

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
