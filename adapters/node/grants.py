"""What the ledger says a container may use: never the text on the pod."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from adapters.wire.hardware import KUBELET
from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import AllocationState
from core.requests.limits import Limits, limits


class GrantStatus(Enum):
    """What there is to say of a container that gets no share from here."""

    UNKNOWN = "the ledger does not name its pod"
    """It may not have arrived yet."""
    NOTHING = "the ledger gives its pod's other containers all that it gives"
    """It asked for no share."""
    ELSEWHERE = "the ledger cannot tell what its pod holds"
    """Another component may serve it."""


Answer = Limits | GrantStatus


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

    @property
    def known(self) -> bool:
        """Whether anybody has said yet what the record is, or that there is none."""
        ...

    async def arrival(self) -> None:
        """Return when that is known."""
        ...

    def change(self) -> Coroutine[Any, Any, object]:
        """Ends when anything may have changed since this was called."""
        ...


@dataclass(frozen=True, slots=True)
class _Record:
    """A record and what follows from it: one thread makes it, others read it whole.

    Attributes:
        ledger: None where there is none, and every pod is unknown.
        cards: by uuid; they stay when the record goes.
    """

    ledger: NodeLedger | None = None
    cards: Mapping[str, Card] = field(default_factory=lambda: MappingProxyType({}))


class LedgerGrants:
    """Grants out of the node's record, whoever brings that here."""

    __slots__ = ("_arrived", "_changed", "_record")

    def __init__(self, ledger: NodeLedger | None = None) -> None:
        """Begin with a record, or with none having arrived yet."""
        self._record = _Record()
        self._changed = asyncio.Event()
        self._arrived = False
        if ledger is not None:
            self.replace(ledger)

    @property
    def ledger(self) -> NodeLedger | None:
        """The latest record; None where there is none."""
        return self._record.ledger

    def replace(self, ledger: NodeLedger) -> None:
        """Take a newer record, and wake whoever waits for a change."""
        cards = MappingProxyType({card.uuid: card for card in ledger.node.cards})
        self._take(_Record(ledger, cards))

    def forget(self) -> None:
        """There is no record: every pod is unknown. The cards are still there."""
        self._take(_Record(None, self._record.cards))

    def nudge(self) -> None:
        """Wake whoever waits: what is granted can be had now, or is known to be impossible."""
        self._wake()

    def _take(self, record: _Record) -> None:
        self._record = record
        self._arrived = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def of(self, pod: str, container: str) -> Answer:
        """As ``Grants.of``; what is only held by some service does not count yet."""
        record = self._record
        if record.ledger is None:
            return GrantStatus.UNKNOWN
        allocation = record.ledger.allocations.get(pod)
        if allocation is None or allocation.state is not AllocationState.COMMITTED:
            return GrantStatus.UNKNOWN
        if allocation.unread is not None or allocation.dialect == KUBELET:
            return GrantStatus.ELSEWHERE
        found = limits(allocation.grants, container, record.cards)
        return found if found.cards else GrantStatus.NOTHING

    def cards(self) -> Mapping[str, Card]:
        """The node's cards, by uuid."""
        return self._record.cards

    @property
    def known(self) -> bool:
        """As ``Grants.known``."""
        return self._arrived

    async def arrival(self) -> None:
        """As ``Grants.arrival``."""
        while not self._arrived:
            await self.change()

    def change(self) -> Coroutine[Any, Any, object]:
        """Ends at the next ``replace``, ``forget`` or ``nudge``."""
        return self._changed.wait()
