"""Cards that a ledger says a pod has, which has another one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from e2e.harness.cluster.api import Api, Object
from e2e.harness.names import LEDGERS
from e2e.harness.oracles.pod_changes import following
from e2e.harness.oracles.shared_cards import SharedCards

ANY = "any"
"""In place of the cards of an allocation whose cards are unknown."""

Held = dict[str, frozenset[str]]
"""Cards by the uid of a pod or claim."""


@dataclass(slots=True)
class BlockedCards:
    """All changes of the ledgers, compared with what pods and claims have.

    Attributes:
        shared: what they have, watched in the same time.
    """

    shared: SharedCards
    _changes: list[tuple[float, str, Held]] = field(default_factory=list[tuple[float, str, Held]])

    @contextmanager
    def watching(self, api: Api) -> Iterator[None]:
        """Watch for the length of a block."""
        with following(api, LEDGERS, self.see):
            yield

    def see(self, what: str, item: Object) -> None:
        """One change of a ledger."""
        rows = [] if what == "DELETED" else item["spec"].get("allocations") or ()
        held = {
            row["uid"]: frozenset(each["card"] for each in row.get("grants") or ({"card": ANY},))
            for row in rows
        }
        self._changes.append((monotonic(), item["metadata"]["name"], held))

    def problems(self, seconds: float) -> list[str]:
        """Cards that a ledger held for a pod or claim with other cards, for longer than this.

        A pod without cards, which is not bound or has ended, has no other one.
        """
        names: dict[str, str] = {}
        had: Held = {}
        ledgers: dict[str, Held] = {}
        since: dict[tuple[str, str], float] = {}
        found = []
        for moment, key, now in self._all(names):
            if isinstance(now, frozenset):
                had[key] = now
                uids = {key}
            else:
                uids = {*ledgers.get(key, ()), *now}
                ledgers[key] = now
            for uid in uids:
                held = frozenset[str]().union(*(each.get(uid, ()) for each in ledgers.values()))
                wrong = held - had[uid] if had.get(uid) else frozenset[str]()
                for one in [each for each in since if each[0] == uid and each[1] not in wrong]:
                    took = moment - since.pop(one)
                    if took > seconds:
                        found.append(f"{one[1]} for {names.get(uid, uid)}: {took:.0f} s")
                for card in wrong:
                    since.setdefault((uid, card), moment)
        return found

    def _all(self, names: dict[str, str]) -> list[tuple[float, str, Held | frozenset[str]]]:
        """All changes in time, and at last the end, when nothing is held; fills in the names."""
        rows: list[tuple[float, str, Held | frozenset[str]]] = [*self._changes]
        for moment, uid, name, shares in self.shared.history():
            names[uid] = name
            rows.append((moment, uid, frozenset(share.card for share in shares)))
        rows.sort(key=lambda row: row[0])
        return [*rows, *((monotonic(), node, {}) for node in {row[1] for row in self._changes})]
