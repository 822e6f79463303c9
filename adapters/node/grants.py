"""What the ledger says a container may use: never the text on the pod."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from core.card import Card
from core.grant import State
from core.ledger import NodeLedger
from core.limits import Limits, limits


class Standing(Enum):
    """What there is to say of a container that gets no share from here."""

    UNKNOWN = "the ledger does not name its pod"
    """It may not have arrived yet."""
    NOTHING = "it asked for no share"
    """Though its pod is in the ledger."""
    ELSEWHERE = "another component serves its pod"


Answer = Limits | Standing


class Grants(Protocol):
    """The grants of one node."""

    def of(self, pod: str, container: str) -> Answer:
        """What a container may use.

        Args:
            pod: uid of its pod.
            container: its name.

        Raises:
            GrantError: it was granted what the node cannot give.
        """
        ...

    def cards(self) -> Mapping[str, Card]:
        """The node's cards, by uuid."""
        ...

    def change(self) -> Coroutine[Any, Any, object]:
        """Ends when anything may have changed since this was called."""
        ...


@dataclass(slots=True)
class LedgerGrants:
    """Grants out of the node's record, whoever brings that here.

    Attributes:
        ledger: the latest; None as long as none has arrived, and every pod is unknown.
    """

    ledger: NodeLedger | None = None
    _cards: Mapping[str, Card] = field(default_factory=lambda: MappingProxyType({}))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        if self.ledger is not None:
            self.replace(self.ledger)

    def replace(self, ledger: NodeLedger) -> None:
        """Take a newer record, and wake whoever waits for a change."""
        self.ledger = ledger
        self._cards = MappingProxyType({card.uuid: card for card in ledger.node.cards})
        self._wake()

    def forget(self) -> None:
        """There is no record: every pod is unknown. The cards are still there."""
        self.ledger = None
        self._wake()

    def nudge(self) -> None:
        """Wake whoever waits: what is granted can be had now, or is known to be impossible."""
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def of(self, pod: str, container: str) -> Answer:
        """As ``Grants.of``; what is only held by some service does not count yet."""
        if self.ledger is None:
            return Standing.UNKNOWN
        allocation = self.ledger.allocations.get(pod)
        if allocation is None or allocation.state is not State.COMMITTED:
            return Standing.UNKNOWN
        if allocation.unread is not None:
            return Standing.ELSEWHERE
        found = limits(allocation.grants, container, self._cards)
        return found if found.cards else Standing.NOTHING

    def cards(self) -> Mapping[str, Card]:
        """The node's cards, by uuid."""
        return self._cards

    def change(self) -> Coroutine[Any, Any, object]:
        """Ends at the next ``replace``, ``forget`` or ``nudge``."""
        return self._changed.wait()
