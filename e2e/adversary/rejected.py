"""Why Bindings were rejected: what pods and ledgers held when a scheduler decided, and afterwards.

The times are those at which the watches of the test reported a change, some hundredths of a second
after the API server's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from time import time

from e2e.adversary.cards import Place
from e2e.adversary.emitted import RECORDS, given
from e2e.adversary.rules import FULL
from e2e.adversary.wanted import wanted
from e2e.harness.cluster.api import Object

LATE = 0.5
"""Seconds by which a watch of the test may be late."""

SEEN = 1.0
"""Seconds after which a scheduler has seen what became of other schedulers' pods: vc-scheduler
decides once a second, on what it knew when it began."""


class Cause(Enum):
    """Why there was no room."""

    RACE = "another pod got the room while this one was decided and bound"
    UNSEEN = "another pod had the room for longer when its scheduler chose it"
    AGAIN = "its scheduler sent the choice again that had been rejected"
    RELEASE = "the pods with the room were gone, and the ledger had them still"
    NONE = "there was room"


OURS = frozenset((Cause.RELEASE, Cause.NONE))
"""What the service could have accepted. With the others a card would have had more than it has."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A Binding that was rejected.

    Attributes:
        pod: its name.
        scheduler: of the pod.
        node: where it should go.
        reason: of the service.
        cause: by what was held.
        seconds: from when a pod got the room, or had gone, to the rejection; 0 where it was not
            reported as bound yet.
        holder: that pod, the latest one; empty where there is none.
        is_mirrored: whether that pod was bound with a mirrored record.
    """

    pod: str
    scheduler: str
    node: str
    reason: str
    cause: Cause
    seconds: float = 0.0
    holder: str = ""
    is_mirrored: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """What a holder has of one card: MiB and percent, and its policy; None where each suits."""

    card: str
    memory: int
    compute: int
    qos: str | None = None


_Ledger = Mapping[str, Sequence[_Part]]
"""By uid, what each holder has."""


@dataclass(slots=True)
class _Holder:
    """A pod as it was reported.

    Attributes:
        versions: each with its time.
        bound: when it was reported with a node first.
        gone: when it was reported as deleted.
        is_mirrored: whether it was bound with a mirrored record.
    """

    versions: list[tuple[float, Object]] = field(default_factory=list[tuple[float, Object]])
    bound: float | None = None
    gone: float | None = None
    is_mirrored: bool = False

    @property
    def name(self) -> str:
        return str(self.versions[-1][1]["metadata"]["name"])

    def chosen_by(self, when: float, record: str) -> tuple[float, Object]:
        """The pod with the choice that its scheduler wrote last, and when that was reported."""
        found: tuple[float, Object] | None = None
        for at, pod in self.versions:
            if at <= when and (found is None or _text(pod, record) != _text(found[1], record)):
                found = at, pod
        return found or self.versions[0]


class History:
    """All that the watches reported, with its time."""

    def __init__(self, places: Iterable[Place]) -> None:
        """Know these nodes, and no change yet."""
        self._places = {place.name: place for place in places}
        self._pods: dict[str, _Holder] = {}
        self._ledgers: dict[str, list[tuple[float, _Ledger]]] = {}

    def see(self, what: str, pod: Object) -> None:
        """One change of a pod."""
        if what == "ERROR":
            return
        now = time()
        holder = self._pods.setdefault(pod["metadata"]["uid"], _Holder())
        holder.versions.append((now, pod))
        if pod["spec"].get("nodeName") and holder.bound is None:
            holder.bound = now
            texts = pod["metadata"].get("annotations") or {}
            holder.is_mirrored = any(key.startswith("dragoman.dev/mirror-") for key in texts)
        if what == "DELETED":
            holder.gone = now

    def see_claim(self, what: str, claim: Object) -> None:
        """One change of a ResourceClaim: it holds a part of a card while it is allocated."""
        if what == "ERROR":
            return
        now, uid = time(), claim["metadata"]["uid"]
        earlier = self._pods.get(uid)
        if what == "DELETED" or "allocation" not in claim.get("status", {}):
            if earlier is not None and earlier.gone is None:
                earlier.gone = now
        elif earlier is None or earlier.gone is not None:
            self._pods[uid] = _Holder([(now, claim)], bound=now)

    def see_ledger(self, what: str, ledger: Object) -> None:
        """One change of a ledger."""
        if what == "ERROR":
            return
        held = {
            row["uid"]: [
                _Part(grant["card"], grant["memory"] >> 20, grant["compute"], row.get("qos"))
                for grant in row.get("grants", ())
            ]
            for row in ledger["spec"].get("allocations", ())
        }
        self._ledgers.setdefault(ledger["metadata"]["name"], []).append((time(), held))

    def explain(self, rows: Sequence[Object]) -> list[Rejected]:
        """Why Bindings were rejected.

        Args:
            rows: what the service logged about all Bindings, in their order.
        """
        found, earlier = [], dict[str, float]()
        for row in rows:
            when = datetime.fromisoformat(row["timestamp"]).timestamp()
            if row["event"].split(".")[1] in ("refused", "error"):
                found.append(self._explain(row, when, earlier.get(row["uid"], 0.0)))
            earlier[row["uid"]] = when
        return found

    def _explain(self, row: Object, when: float, earlier: float) -> Rejected:
        node, uid, record = row["node"], row["uid"], RECORDS[row["dialect"]]
        decided, pod = self._pods[uid].chosen_by(when, record)
        if not row["event"].startswith("binding") or not _text(pod, record):
            decided = when  # the extender decides when it is asked, and writes no choice before
        scheduler = str(pod["spec"]["schedulerName"])
        said = pod["metadata"]["name"], scheduler, node, f"{row.get('reason')}: {row.get('text')}"

        states = self._at(node, when, uid)
        full = [each for each in states if not self._fits(pod, node, _all(each.values()))]
        if not full:
            return Rejected(*said, Cause.NONE)
        living = [self._without(each, when - LATE) for each in full]
        held_by = [each for each in living if not self._fits(pod, node, _all(each.values()))]
        if not held_by:
            ended = [
                self._pods[key]
                for state, rest in zip(full, living, strict=True)
                for key in state.keys() - rest.keys()
            ]
            last = max(ended, key=lambda each: each.gone or 0.0)
            return Rejected(*said, Cause.RELEASE, when - (last.gone or 0.0), last.name)
        chosen = {one.card for one in given(pod, self._places[node].cards)[0]}
        takers = [
            self._pods[key]
            for key, held in held_by[-1].items()
            if key in self._pods and (not chosen or any(part.card in chosen for part in held))
        ]
        taker = max(takers, key=lambda each: each.bound or when)
        of_taker = when - (taker.bound or when), taker.name, taker.is_mirrored
        if decided < earlier:
            return Rejected(*said, Cause.AGAIN, *of_taker)
        is_new = decided - (taker.bound or when) < SEEN
        return Rejected(*said, Cause.RACE if is_new else Cause.UNSEEN, *of_taker)

    def _at(self, node: str, when: float, but: str) -> list[_Ledger]:
        """What others had in a ledger, in its states about a moment."""
        rows = self._ledgers[node]
        first = max((at for at, _ in rows if at <= when), default=0.0)
        return [
            {uid: parts for uid, parts in held.items() if uid != but}
            for at, held in rows
            if first <= at <= when + LATE
        ]

    def _without(self, held: _Ledger, when: float) -> _Ledger:
        """A ledger without the pods that were gone at a moment."""
        ended = {
            uid for uid, pod in self._pods.items() if pod.gone is not None and pod.gone <= when
        }
        return {uid: parts for uid, parts in held.items() if uid not in ended}

    def _fits(self, pod: Object, node: str, held: Sequence[_Part]) -> bool:
        """Whether a pod fits on the cards that its scheduler chose; else on any of the node."""
        place, asked = self._places[node], wanted(pod)
        chosen, _ = given(pod, place.cards)
        if chosen:
            return _is_free(place, [*held, *(_Part(e.card, e.memory, e.compute) for e in chosen)])
        added = [*held]
        if asked is None:
            return True
        for part in asked.parts:
            count = 0
            for card in place.cards:
                more = _Part(card.uuid, part.memory_on(card.memory), part.compute, asked.terms.qos)
                if count < part.count and _is_free(place, [*added, more]):
                    added.append(more)
                    count += 1
            if count < part.count:
                return False
        return True


def _all(held: Iterable[Sequence[_Part]]) -> list[_Part]:
    return [part for parts in held for part in parts]


def _text(pod: Object, record: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(record, ""))


def _is_free(place: Place, held: Sequence[_Part]) -> bool:
    """Whether these parts fit on the cards."""
    for card in place.cards:
        here = [part for part in held if part.card == card.uuid]
        memory, compute = sum(part.memory for part in here), sum(part.compute for part in here)
        if memory > card.memory or compute > FULL:
            return False
        if len(here) > 1 and any(part.compute == FULL for part in here):
            return False
        if len({part.qos for part in here} - {None}) > 1:
            return False
        if compute == FULL and here[-1].compute == 0:  # the one that comes last wants some too
            return False
    return True
