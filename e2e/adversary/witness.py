"""Who holds what, by the states of pods and claims that the API server sends, and what is wrong.

A pod holds what its record says when it is first seen with a node, until it has finished or is
gone. Whatever is written on it later changes nothing. A ResourceClaim holds the devices with which
it is first seen, until it has none or is gone.
"""

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from e2e.adversary.cards import Card, Place
from e2e.adversary.emitted import given, title
from e2e.adversary.rules import Held, broken
from e2e.adversary.wanted import wanted
from e2e.harness.cluster.api import Object
from e2e.harness.oracles.from_annotations import bytes_of
from e2e.harness.oracles.from_claims import shares_of_claim
from e2e.harness.workloads.claims import DRIVER
from e2e.harness.workloads.inventory import Gpu

FINISHED = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod that was bound without a record: every card of its dialect on its node may be its own.

    Attributes:
        pod: for people.
        exempt: uids of the pods that existed before the service knew of it.
    """

    pod: str
    node: str
    dialect: str
    exempt: Collection[str]


@dataclass(slots=True)
class Witness:
    """What was seen of the pods so far.

    Attributes:
        places: by name, all nodes that there were, with their cards as they are now.
        known: by uid, every card that there ever was.
        pods: by uid, the latest state of each pod that exists.
        claims: by uid, the node of each claim that has devices.
        held: by uid, what each pod and each claim holds.
        unrecorded: by uid, pods that were bound past us without a record.
        blocked: by uid of those, once the service knows them.
        bound: how many pods were bound so far.
        allocated: how many claims have got devices so far.
        version: the newest resourceVersion of a pod that was seen.
        claim_version: the same of claims.
    """

    places: dict[str, Place] = field(default_factory=dict[str, Place])
    known: dict[str, Card] = field(default_factory=dict[str, Card])
    pods: dict[str, Object] = field(default_factory=dict[str, Object])
    claims: dict[str, str] = field(default_factory=dict[str, str])
    held: dict[str, list[Held]] = field(default_factory=dict[str, list[Held]])
    unrecorded: set[str] = field(default_factory=set[str])
    blocked: dict[str, Blocked] = field(default_factory=dict[str, Blocked])
    bound: int = 0
    allocated: int = 0
    version: int = 0
    claim_version: int = 0
    _problems: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, place: Place) -> None:
        """A node has these cards from now on; those that it had stay in use by who holds them.

        Koordinator's node components go by a card's minor: a pod that holds a card in its words
        holds the card that took its place too.
        """
        with self._lock:
            earlier = self.places.get(place.name, place)
            self.places[place.name] = place
            self.known |= {card.uuid: card for card in place.cards}
            for old, new in zip(earlier.cards, place.cards, strict=True):
                if old.uuid != new.uuid:
                    self._replaced(place.name, old, new)

    def see(self, what: str, pod: Object) -> None:
        """One change of a pod."""
        with self._lock:
            if what == "ERROR":
                self._problems.append(f"the watch broke: {pod}")
                return
            self.version = int(pod["metadata"]["resourceVersion"])
            self._see(what, pod)

    def see_claim(self, what: str, claim: Object) -> None:
        """One change of a claim."""
        with self._lock:
            if what == "ERROR":
                self._problems.append(f"the watch of claims broke: {claim}")
                return
            self.claim_version = int(claim["metadata"]["resourceVersion"])
            uid = claim["metadata"]["uid"]
            if what == "DELETED" or "allocation" not in claim.get("status", {}):
                self.held.pop(uid, None)
                self.claims.pop(uid, None)
            elif uid not in self.claims:
                self._allocate(uid, claim)

    def problems(self) -> list[str]:
        """What was wrong so far."""
        with self._lock:
            return list(self._problems)

    def holders(self, node: str) -> Mapping[str, list[Held]]:
        """By uid, what pods and claims hold on a node."""
        with self._lock:
            return {uid: held for uid, held in self.held.items() if self._node_of(uid) == node}

    def block(self, uid: str) -> None:
        """The service knows a pod without a record from now on."""
        with self._lock:
            pod = self.pods.get(uid)
            asked = wanted(pod) if pod is not None else None
            if pod is not None and asked is not None:
                exempt = frozenset((*self.pods, *self.claims))
                self.blocked[uid] = Blocked(title(pod), _node(pod), asked.dialect, exempt)

    def _replaced(self, node: str, old: Card, new: Card) -> None:
        for uid, held in self.held.items():
            asked = wanted(self.pods[uid]) if uid in self.pods else None
            if (
                asked is not None
                and asked.dialect == "koordinator"
                and _node(self.pods[uid]) == node
            ):
                held += [replace(one, card=new.uuid) for one in held if one.card == old.uuid]

    def _see(self, what: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if what == "DELETED":
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        if what == "DELETED" or pod.get("status", {}).get("phase") in FINISHED:
            self.held.pop(uid, None)
            self.blocked.pop(uid, None)
        elif _node(pod) and uid not in self.held and uid not in self.unrecorded:
            self._bind(uid, pod)

    def _bind(self, uid: str, pod: Object) -> None:
        place = self.places.get(_node(pod))
        if place is None:
            self._problems.append(f"{title(pod)} is bound to {_node(pod)}, which never was")
            return
        held, texts = given(pod, place.cards)
        self.held[uid] = held
        self.bound += 1
        self._problems += texts + self._past(uid, _node(pod), held)
        self._problems += over(self.known, self.held.values(), {one.card for one in held})

    def _allocate(self, uid: str, claim: Object) -> None:
        """A claim has devices from now on: those of one driver, each a card with its uuid."""
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        node = self.claims[uid] = result["pool"]
        place = self.places.get(node)
        devices = (
            {}
            if place is None
            else {
                (DRIVER, node, place.device(at)): Gpu(card.uuid, card.memory)
                for at, card in enumerate(place.cards)
            }
        )
        if (result["driver"], node, result["device"]) not in devices:
            self._problems.append(f"{title(claim)} has {node}/{result['device']}, which never was")
            return
        held = [
            Held(title(claim), each.card, each.memory, each.compute, "shareID" not in result)
            for each in shares_of_claim(claim, devices)
        ]
        requests = claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]
        asked = [(bytes_of(requests["memory"]) >> 20, int(requests["cores"]))]
        if asked != [(one.memory, one.compute) for one in held]:
            self._problems.append(f"{title(claim)}: {held} is not {asked}")
        self.held[uid] = held
        self.allocated += 1
        self._problems += self._past(uid, node, held)
        self._problems += over(self.known, self.held.values(), {one.card for one in held})

    def _node_of(self, uid: str) -> str:
        return self.claims[uid] if uid in self.claims else _node(self.pods[uid])

    def _past(self, uid: str, node: str, held: list[Held]) -> list[str]:
        """Where a pod or a claim was given what a pod without a record may have."""
        return [
            f"{one.pod} was bound to {one.card} beside {row.pod}, whose cards are not known"
            for row in self.blocked.values()
            if row.node == node and uid not in row.exempt
            for one in held
            if row.dialect in self.known[one.card].dialects
        ]


def over(
    cards: Mapping[str, Card], held: Iterable[Iterable[Held]], only: Collection[str]
) -> list[str]:
    """The rules that are broken on some cards, as sentences."""
    by_card: dict[str, list[Held]] = {uuid: [] for uuid in only}
    for rows in held:
        for row in rows:
            if row.card in by_card:
                by_card[row.card].append(row)
    return [text for uuid, rows in by_card.items() for text in broken(cards[uuid], rows)]


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))
