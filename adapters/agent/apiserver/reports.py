"""What the agent writes to the API server: the status of the node's ledger, and Events on pods.

The agent writes the node's hardware into the status of that one object, when it differs;
allocations are the service's. Events go through the service's recorder.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import ApiError, send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.ledger import COLLECTION, FAILURES
from adapters.agent.hardware.model import Hardware, HardwareWatcher
from adapters.agent.log import log_event
from adapters.agent.nri.model import PodSandbox
from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.dialects import registry
from adapters.wire.records.hardware import (
    DeviceHolding,
    HardwareRecordError,
    NodeHardware,
    decode,
    encode,
)

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
            dialects=frozenset(
                name
                for name in sharing.dialects
                if (info := registry.named(name)) is None or info.vendor in (None, card.vendor)
            ),
        )
        for card in hardware.cards
    )
    return NodeHardware(
        cards, sharing.isolation, tuple(problems), holdings, stopped, sharing.mig_cut
    )


@dataclass(frozen=True, slots=True)
class NodeStatusSource:
    """Computes the desired status.

    Attributes:
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
        path = f"{COLLECTION}/{quote(self.node, safe='')}/status"
        wait = MIN_WRITE_INTERVAL
        while True:
            self._woken.clear()
            desired = self.desired()
            if self._exists is None or desired is None or desired == self._written:
                await self._woken.wait()
                continue
            existed = self._exists
            try:
                if not existed:
                    ledger = {
                        "apiVersion": "dragoman.dev/v1alpha1",
                        "kind": "NodeLedger",
                        "metadata": {"name": self.node},
                        "spec": {"node": self.node},
                    }
                    try:
                        body = msgspec.json.encode(ledger)
                        await send(self.credentials, "POST", COLLECTION, body)
                    except ApiError as error:
                        if error.status != _CONFLICT:
                            raise
                # Before the request: what the watch says until the answer arrives is newer.
                self._exists, self._written = True, desired
                try:
                    body = b'{"status":' + encode(desired) + b"}"
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
                # The service deletes the ledger of a node that the cluster does not know, so
                # creating it over and over must slow down.
                wait = MIN_WRITE_INTERVAL if existed else min(wait * 2, MAX_WRITE_INTERVAL)
            except FAILURES as error:
                log_event("node_status.update_failed", reason=str(error) or type(error).__name__)
                wait = min(wait * 2, MAX_WRITE_INTERVAL)
            await asyncio.sleep(wait * random.uniform(0.75, 1))  # noqa: S311


CONTROLLER = "dragoman.dev/node"

MAX_SERIES = 512
"""Series of Events that the recorder keeps; a node has no more pods than that."""

MAX_WRITES_PER_SECOND = 5.0
"""So that a node full of rejected pods does not overload the API server."""

_TIMEOUT = 15.0


class PodEvents:
    """Writes Events; any thread may emit them."""

    def __init__(self, credentials: AgentCredentials, node: str) -> None:
        """Write nothing until ``run`` runs, on the event loop of this call."""
        self._credentials = credentials
        self._events = EventRecorder(
            self, node, controller=CONTROLLER, maximum=MAX_SERIES, rate=MAX_WRITES_PER_SECOND
        )
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._events.run()

    def emit(self, pod: PodSandbox, reason: str, note: str, action: str) -> None:
        """Record a warning about a pod; never waits, never raises."""
        about = EventSubject("Pod", pod.name, pod.namespace or "default", pod.uid)
        emit = partial(self._events.emit, about, reason, note, kind="Warning", action=action)
        self._loop.call_soon_threadsafe(emit)

    async def create(self, path: str, body: object) -> bytes:
        """Create an Event for the recorder.

        Raises:
            ClusterError: the server rejected it, or did not answer.
        """
        return await self._send("POST", path, body, "application/json")

    async def patch(self, path: str, body: object) -> bytes:
        """Merge a part into an Event for the recorder, which raises as ``create``."""
        return await self._send("PATCH", path, body, MERGE)

    async def _send(self, method: str, path: str, body: object, kind: str) -> bytes:
        try:
            async with asyncio.timeout(_TIMEOUT):
                data = msgspec.json.encode(body)
                return await send(self._credentials, method, path, data, kind)
        except OSError as error:
            reason = str(error) or type(error).__name__
            log_event("event.write_failed", path=path, reason=reason)
            raise ClusterError(0, "Broken", reason) from error
