"""Watches the node's ledger in the cluster.

It selects the one object with the node's name, so that the agent's permission can be for that
object alone.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.list_watch import Changed, Listed, list_and_watch
from adapters.agent.grants import LedgerGrants
from adapters.agent.log import log_event
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.ledger import LedgerRecordError, decode

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"


class _Ledger(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw()


_LEDGER = Decoder(_Ledger)


StatusHandler = Callable[[msgspec.Raw | None], None]
"""Called with the ledger's status whenever it may have changed; None where there is no ledger."""


def _ignore(_: msgspec.Raw | None) -> None:
    """The default: no handler."""


@dataclass(slots=True)
class LedgerWatch:
    """Supplies the grants with the node's ledger.

    While the API server does not answer, the latest ledger counts. Where the ledger is deleted or
    invalid, no container gets a share.

    Attributes:
        credentials: of the agent.
        node: its name.
        grants: where each new state of the ledger goes.
        on_status: called with the ledger's status.
    """

    credentials: AgentCredentials
    node: str
    grants: LedgerGrants
    on_status: StatusHandler = _ignore

    async def run(self) -> None:
        """List, and watch from there, until cancelled; list again after each failure."""
        path = f"{COLLECTION}?fieldSelector=metadata.name%3D{quote(self.node)}"
        async with aclosing(list_and_watch(self.credentials, path, _disconnected)) as found:
            async for each in found:
                match each:
                    case Listed((ledger, *_)) | Changed(ledger, deleted=False):
                        self._replace(ledger)
                    case Listed() | Changed():
                        self.grants.clear()
                        self.on_status(None)

    def _replace(self, text: msgspec.Raw) -> None:
        try:
            ledger = _LEDGER.decode(text)
            self.on_status(ledger.status)
            self.grants.replace(decode(ledger.spec))
        except (UnreadableError, LedgerRecordError) as error:
            log_event("ledger.invalid", reason=str(error))
            self.grants.clear()


def _disconnected(error: Exception) -> None:
    log_event("ledger_watch.disconnected", reason=str(error) or type(error).__name__)
