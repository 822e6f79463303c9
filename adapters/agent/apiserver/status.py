"""Writes the node's hardware into the status of its NodeLedger, when it differs.

The agent writes only the status of that one object: allocations are the service's.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import ApiError, send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.ledger import COLLECTION, FAILURES
from adapters.agent.hardware.model import Hardware, HardwareWatcher
from adapters.agent.log import log_event
from adapters.dialects import registry
from adapters.wire.records.hardware import (
    DeviceHolding,
    HardwareRecordError,
    NodeHardware,
    decode,
    encode,
)
from core.hardware.card import Card

MIN_WRITE_INTERVAL, MAX_WRITE_INTERVAL = 1.0, 60.0
"""Seconds between two writes; each failure doubles the wait."""

MERGE = "application/merge-patch+json"

_CONFLICT, _NOT_FOUND = 409, 404


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """How the cards of this node are advertised.

    Attributes:
        dialects: in which pods can request them. Cards that another component advertises in a
            dialect need none.
        slots: containers that may share a card that no other component advertises.
        isolation: the isolation provider that is installed; None where not stated.
        mig_cut: whether the agent creates and removes MIG instances.
    """

    dialects: Collection[str] = ()
    slots: int = 10
    isolation: str | None = None
    mig_cut: bool = False


def desired_status(
    hardware: Hardware,
    sharing: SharingConfig,
    holdings: tuple[DeviceHolding, ...] = (),
    stopped: tuple[str, ...] = (),
) -> NodeHardware:
    """Return what the node's status should be."""
    problems = sorted(hardware.problems.items())
    cards = tuple(
        replace(
            card,
            slots=sharing.slots,
            dialects=frozenset(name for name in sharing.dialects if _describes(name, card)),
        )
        for card in hardware.cards
    )
    return NodeHardware(
        cards, sharing.isolation, tuple(problems), holdings, stopped, sharing.mig_cut
    )


def _describes(dialect: str, card: Card) -> bool:
    """Return whether a dialect can describe a card of this vendor."""
    info = registry.named(dialect)
    return info is None or info.vendor in (None, card.vendor)


@dataclass(frozen=True, slots=True)
class NodeStatusSource:
    """Computes the desired status.

    Attributes:
        watcher: of the hardware.
        sharing: how the cards are advertised.
        holdings: the devices that the kubelet assigned; None as long as that is not known.
        stopped: uids of deleted pods with an allocation and without a running container.
    """

    watcher: HardwareWatcher
    sharing: SharingConfig
    holdings: Callable[[], tuple[DeviceHolding, ...] | None]
    stopped: Callable[[], tuple[str, ...]]

    def desired(self) -> NodeHardware | None:
        """Return what the status should be; None as long as hardware or holdings are not known."""
        holdings = self.holdings()
        if not self.watcher.known or holdings is None:
            return None
        return desired_status(self.watcher.hardware, self.sharing, holdings, self.stopped())


@dataclass(slots=True)
class HardwarePublisher:
    """Writes the node's status when it differs from the desired one.

    Attributes:
        credentials: of the agent.
        node: its name.
        desired: the status that should be; None as long as it is not known.
    """

    credentials: AgentCredentials
    node: str
    desired: Callable[[], NodeHardware | None]
    _exists: bool | None = None
    _written: NodeHardware | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def on_status(self, status: msgspec.Raw | None) -> None:
        """Note the ledger's present status; None where there is no ledger."""
        self._exists = status is not None
        try:
            self._written = None if status is None else decode(status, self.node)
        except HardwareRecordError:
            self._written = None
        self.wake()

    def wake(self) -> None:
        """Compare again: the desired status may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled; never twice within a second."""
        wait = MIN_WRITE_INTERVAL
        while True:
            self._woken.clear()
            desired = self.desired()
            if self._exists is None or desired is None or desired == self._written:
                await self._woken.wait()
                continue
            existed = self._exists
            try:
                await self._write(desired)
                # The service deletes the ledger of a node that the cluster does not know, so
                # creating it over and over must slow down.
                wait = MIN_WRITE_INTERVAL if existed else min(wait * 2, MAX_WRITE_INTERVAL)
            except FAILURES as error:
                log_event("node_status.update_failed", reason=str(error) or type(error).__name__)
                wait = min(wait * 2, MAX_WRITE_INTERVAL)
            await asyncio.sleep(wait * random.uniform(0.75, 1))  # noqa: S311

    async def _write(self, desired: NodeHardware) -> None:
        if not self._exists:
            ledger: dict[str, Any] = {
                "apiVersion": "dragoman.dev/v1alpha1",
                "kind": "NodeLedger",
                "metadata": {"name": self.node},
                "spec": {"node": self.node},
            }
            try:
                await send(self.credentials, "POST", COLLECTION, msgspec.json.encode(ledger))
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
        body = b'{"status":' + encode(desired) + b"}"
        path = f"{COLLECTION}/{quote(self.node, safe='')}/status"
        # Before the request: what the watch says until the answer arrives is newer.
        self._exists, self._written = True, desired
        try:
            await send(self.credentials, "PATCH", path, body, MERGE)
        except FAILURES as error:
            self._written = None
            if isinstance(error, ApiError) and error.status == _NOT_FOUND:
                self._exists = False
            raise
        log_event(
            "node_status.updated",
            cards=len(desired.cards),
            problems=len(desired.problems),
            pods=len(desired.holdings),
        )
