"""What node agents say of their cards, in the status of ledgers that the store follows anyway."""

from collections.abc import Callable

from adapters.stores.kubernetes import LedgerHandler, LedgerObject, NamedObject
from adapters.wire.hardware import HardwareRecordError, NodeHardware, decode

Telling = Callable[[str, NodeHardware | None], None]
"""Told the name of a node, and what its agent says; None where it says nothing any more."""


class AgentStatusFeed:
    """Keeps what was said until somebody wants to be told."""

    def __init__(self, unread: Callable[[str, str], None]) -> None:
        """Nothing was said yet.

        Args:
            unread: told the node and what is wrong with what its agent says.
        """
        self._unread = unread
        self._said: dict[str, NodeHardware] = {}
        self._telling: Telling | None = None

    def tell(self, telling: Telling) -> None:
        """Tell what was said, and from now on whatever is."""
        self._telling = telling
        for node, hardware in self._said.items():
            telling(node, hardware)

    def tee(self, sink: LedgerHandler) -> LedgerHandler:
        """A sink that also listens to the agents."""
        return _Beside(sink, self)

    def heard(self, thing: LedgerObject) -> None:
        """A status that may be new; one that cannot be read leaves what was known."""
        node = thing.metadata.name
        try:
            hardware = decode(thing.status, node)
        except HardwareRecordError as error:
            self._unread(node, str(error))
            return
        self._put(node, hardware)

    def gone(self, node: str) -> None:
        """There is no status any more."""
        self._put(node, None)

    def _put(self, node: str, hardware: NodeHardware | None) -> None:
        if hardware is None:
            self._said.pop(node, None)
        else:
            self._said[node] = hardware
        if self._telling is not None:
            self._telling(node, hardware)


class _Beside:
    def __init__(self, sink: LedgerHandler, agents: AgentStatusFeed) -> None:
        self._sink = sink
        self._agents = agents

    def on_update(self, thing: LedgerObject) -> None:
        """As in ``Sink``."""
        self._agents.heard(thing)
        self._sink.on_update(thing)

    def on_delete(self, what: NamedObject) -> None:
        """As in ``Sink``."""
        self._agents.gone(what.name)
        self._sink.on_delete(what)

    def on_unreadable(self, what: NamedObject, problem: str) -> None:
        """As in ``Sink``."""
        self._sink.on_unreadable(what, problem)

    def on_synced(self) -> None:
        """As in ``Sink``."""
        self._sink.on_synced()
