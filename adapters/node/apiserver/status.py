"""Tells the ledger's record of this node which cards there are, when they are not what it says.

Only the status of that one object is written: who holds what is the service's alone.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import msgspec

from adapters.dialects import registry
from adapters.node.apiserver.api import ApiError, send
from adapters.node.apiserver.credentials import AgentCredentials
from adapters.node.apiserver.ledger_watch import COLLECTION, FAILURES
from adapters.node.hardware.model import Hardware
from adapters.node.log import log_event
from adapters.wire.hardware import DeviceHolding, HardwareRecordError, NodeHardware, decode, encode
from core.hardware.card import Card

MIN_WRITE_INTERVAL, MAX_WRITE_INTERVAL = 1.0, 60.0
"""Seconds between two writes."""

MERGE = "application/merge-patch+json"

_CONFLICT, _NOT_FOUND = 409, 404


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """How the cards of this node are sold.

    Attributes:
        dialects: the vocabularies in which they can be asked for. Cards that another component
            describes in a vocabulary need none.
        slots: containers that may share a card that no other component describes.
        isolation: the isolation provider that is installed; None where not stated.
    """

    dialects: Collection[str] = ()
    slots: int = 10
    isolation: str | None = None


def desired_status(
    hardware: Hardware, terms: SharingConfig, holdings: tuple[DeviceHolding, ...] = ()
) -> NodeHardware:
    """What is told of the node."""
    problems = sorted(hardware.problems.items())
    cards = tuple(_told(card, terms) for card in hardware.cards)
    return NodeHardware(cards, terms.isolation, tuple(problems), holdings)


def _told(card: Card, terms: SharingConfig) -> Card:
    dialects = frozenset(name for name in terms.dialects if _describes(name, card))
    return replace(card, slots=terms.slots, dialects=dialects)


def _describes(dialect: str, card: Card) -> bool:
    """Whether a dialect can describe a card of this vendor."""
    info = registry.named(dialect)
    return info is None or info.vendor in (None, card.vendor)


@dataclass(slots=True)
class HardwarePublisher:
    """Writes when what is there differs from what is told.

    Attributes:
        credentials: of the agent.
        node: its name.
        wanted: what the status should say; None as long as nobody knows.
    """

    credentials: AgentCredentials
    node: str
    desired: Callable[[], NodeHardware | None]
    _there: bool | None = None
    _said: NodeHardware | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def on_status(self, status: msgspec.Raw | None) -> None:
        """Learn what the record's status is; None where there is no record."""
        self._there = status is not None
        try:
            self._said = None if status is None else decode(status, self.node)
        except HardwareRecordError:
            self._said = None
        self.wake()

    def wake(self) -> None:
        """What is wanted may be something else."""
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled; never twice within a second."""
        wait = MIN_WRITE_INTERVAL
        while True:
            self._woken.clear()
            wanted = self.desired()
            if self._there is None or wanted is None or wanted == self._said:
                await self._woken.wait()
                continue
            there = self._there
            try:
                await self._write(wanted)
                # The service takes away the record of a node that the cluster does not know:
                # whoever makes it again and again does so ever less often.
                wait = MIN_WRITE_INTERVAL if there else min(wait * 2, MAX_WRITE_INTERVAL)
            except FAILURES as error:
                log_event("node_status.update_failed", reason=str(error) or type(error).__name__)
                wait = min(wait * 2, MAX_WRITE_INTERVAL)
            await asyncio.sleep(wait * random.uniform(0.75, 1))  # noqa: S311

    async def _write(self, wanted: NodeHardware) -> None:
        if not self._there:
            await self._create()
        body = b'{"status":' + encode(wanted) + b"}"
        path = f"{COLLECTION}/{quote(self.node, safe='')}/status"
        try:
            await send(self.credentials, "PATCH", path, body, MERGE)
        except ApiError as error:
            self._there = self._there and error.status != _NOT_FOUND
            raise
        self._there, self._said = True, wanted
        log_event(
            "node_status.updated",
            cards=len(wanted.cards),
            problems=len(wanted.problems),
            pods=len(wanted.holdings),
        )

    async def _create(self) -> None:
        thing: dict[str, Any] = {
            "apiVersion": "dragoman.dev/v1alpha1",
            "kind": "NodeLedger",
            "metadata": {"name": self.node},
            "spec": {"node": self.node},
        }
        try:
            await send(self.credentials, "POST", COLLECTION, msgspec.json.encode(thing))
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
        self._there = True
