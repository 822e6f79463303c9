"""The node's ledger in a file, which another program replaces as a whole."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from adapters.agent.grants import LedgerGrants
from adapters.agent.log import log_event
from adapters.wire.records.ledger import LedgerRecordError, decode

INTERVAL = 0.1
"""Seconds between two checks of the file."""


@dataclass(slots=True)
class LedgerFile:
    """Supplies the grants with the ledger in a file.

    A file that is deleted or invalid changes nothing: what was granted stays granted.

    Attributes:
        path: of a ledger in the format of ``adapters.wire.records.ledger``.
        grants: where each new content of the ledger goes.
    """

    path: Path
    grants: LedgerGrants
    _seen: tuple[int, int, int] | None = None

    def look(self) -> bool:
        """Read the file if it has changed; whether the grants got a newer ledger."""
        try:
            status = self.path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return False
            self._seen = seen
            self.grants.replace(decode(self.path.read_bytes()))
        except FileNotFoundError:
            return False
        except (OSError, LedgerRecordError) as error:
            log_event("ledger.invalid", reason=str(error), file=self.path)
            return False
        return True

    async def run(self) -> None:
        """Check the file every ``INTERVAL`` until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)
