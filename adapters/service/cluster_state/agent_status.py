"""Reports of the node agents: the status of the NodeLedgers that the store watches anyway."""

from collections.abc import Callable

from adapters.cluster.watch.object_tracker import EventHandler, Identity
from adapters.wire.kube import Unreadable
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware, decode
from adapters.wire.records.ledger import LedgerObject

HardwareReported = Callable[[str, NodeHardware | None], None]
"""Called with the name of a node and its agent's report; None where there is none any more."""


class AgentStatusFeed:
    """Decodes the agents' reports and hands them on."""

    def __init__(self, reported: HardwareReported, invalid: Callable[[str, str], None]) -> None:
        """Store the callbacks.

        Args:
            reported: called for each status.
            invalid: called with the node and the problem of a status that cannot be decoded.
        """
        self._reported = reported
        self._invalid = invalid

    def tee(self, handler: EventHandler[LedgerObject]) -> EventHandler[LedgerObject]:
        """Return a handler that feeds the reports from here and all else to another handler."""
        return _Tee(handler, self)

    def updated(self, ledger: LedgerObject) -> None:
        """Hand on a report; ignore one that cannot be decoded, so that the earlier one counts."""
        node = ledger.metadata.name
        try:
            hardware = decode(ledger.status, node)
        except HardwareRecordError as error:
            self._invalid(node, str(error))
            return
        self._reported(node, hardware)

    def deleted(self, node: str) -> None:
        """Hand on that a node has no report any more."""
        self._reported(node, None)


class _Tee:
    def __init__(self, handler: EventHandler[LedgerObject], agents: AgentStatusFeed) -> None:
        self._handler = handler
        self._agents = agents

    def on_update(self, thing: LedgerObject) -> None:
        """Implements ``EventHandler.on_update``."""
        self._agents.updated(thing)
        self._handler.on_update(thing)

    def on_delete(self, what: Identity) -> None:
        """Implements ``EventHandler.on_delete``."""
        self._agents.deleted(what.name)
        self._handler.on_delete(what)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Implements ``EventHandler.on_unreadable``."""
        self._handler.on_unreadable(what, problem)

    def on_synced(self) -> None:
        """Implements ``EventHandler.on_synced``."""
        self._handler.on_synced()
