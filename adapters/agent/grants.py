"""What the ledger grants a container; the agent never uses the pod's annotations for that."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET, AllocationState
from core.requests.limits import GrantError, Limits, limits


class GrantStatus(Enum):
    """Why the ledger grants a container nothing; the value is a clause for error messages."""

    NOT_RECORDED = "no allocation is recorded for this pod"
    """The record may not have arrived yet."""
    NO_SHARE = "the pod's allocation has no share for this container"
    """The container requested no share."""
    OTHER_COMPONENT = "the ledger does not know which cards this pod uses"
    """Another component, such as a device plugin, may serve the pod."""


GrantAnswer = Limits | GrantStatus


class LedgerGrants:
    """Grants from the node's record, which a file or a watch supplies."""

    __slots__ = ("_changed", "_known", "_record")

    def __init__(self, ledger: NodeLedger | None = None) -> None:
        """Start with a record, or with an unknown one."""
        # Replaced as a whole, because several threads read it. The cards stay without a record.
        self._record: tuple[NodeLedger | None, Mapping[str, Card]] = (None, MappingProxyType({}))
        self._changed = asyncio.Event()
        self._known = False
        if ledger is not None:
            self.replace(ledger)

    @property
    def ledger(self) -> NodeLedger | None:
        """The latest record; None where the node has none."""
        return self._record[0]

    def replace(self, ledger: NodeLedger) -> None:
        """Use a newer record, and wake the waiters."""
        self._set(ledger, MappingProxyType({card.uuid: card for card in ledger.node.cards}))

    def clear(self) -> None:
        """Note that the node has no record: no allocation is recorded. The cards stay."""
        self._set(None, self.cards())

    def wake(self) -> None:
        """Wake the waiters: a granted MIG slice was created, or could not be created."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _set(self, ledger: NodeLedger | None, cards: Mapping[str, Card]) -> None:
        self._record = ledger, cards
        self._known = True
        self.wake()

    def lookup(self, pod: str, container: str) -> GrantAnswer:
        """Look up what a container may use, by the uid of its pod and by its name.

        An allocation that is only reserved does not count yet.

        Raises:
            GrantError: the grant is invalid on this node, or its pod was deleted.
        """
        ledger, cards = self._record
        if ledger is None:
            return GrantStatus.NOT_RECORDED
        allocation = ledger.allocations.get(pod)
        if allocation is None or allocation.state is not AllocationState.COMMITTED:
            return GrantStatus.NOT_RECORDED
        if allocation.release_by is not None:
            raise GrantError("the pod was deleted, and its cards are being released")
        if allocation.unread is not None or allocation.dialect == KUBELET:
            return GrantStatus.OTHER_COMPONENT
        if any(
            grant.container == container and not allocation.counts(grant)
            for grant in allocation.grants
        ):
            raise GrantError(
                "the pod's init containers had finished, so that other pods may have their share of"
                " the card: this one starts when the ledger counts it again"
            )
        found = limits(allocation.grants, container, cards)
        return found if found.cards else GrantStatus.NO_SHARE

    def cards(self) -> Mapping[str, Card]:
        """Return the node's cards, by uuid."""
        return self._record[1]

    def holders(self, cards: Collection[str] | None, pod: str) -> tuple[str, ...]:
        """List the other pods that the ledger gave a part of some cards, by namespace and name.

        What the kubelet gave does not count.

        Args:
            cards: uuids; None for all of the node.
            pod: uid of the pod that does not count.
        """
        ledger = self.ledger
        return tuple(
            held.pod
            for held in (() if ledger is None else ledger.allocations.values())
            if held.uid != pod and held.dialect != KUBELET
            if any(cards is None or grant.card in cards for grant in held.grants)
        )

    @property
    def known(self) -> bool:
        """Whether the node's record, or the absence of one, is known."""
        return self._known

    async def wait_until_known(self) -> None:
        """Return when ``known`` is true."""
        while not self._known:
            await self.next_change()

    def next_change(self) -> Coroutine[Any, Any, object]:
        """Wait until a lookup may answer something else: ``replace``, ``clear`` or ``wake``."""
        return self._changed.wait()
