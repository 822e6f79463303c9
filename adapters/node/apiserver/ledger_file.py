"""The node's record in a file, which somebody else replaces whole."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from adapters.node.grants import LedgerGrants
from adapters.node.log import log_event
from adapters.wire.ledger import LedgerRecordError, decode

INTERVAL = 0.1
"""Seconds between two looks at the file."""


@dataclass(slots=True)
class LedgerFile:
    """Brings a file's record to the grants.

    A file that is gone or cannot be read changes nothing: what was granted stays granted.

    Attributes:
        path: of the record, as ``adapters.wire.ledger`` writes it.
        grants: that get it.
    """

    path: Path
    grants: LedgerGrants
    _seen: tuple[int, int, int] | None = None

    def look(self) -> bool:
        """Read the file if it has changed; whether there is something new."""
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
        """Look again and again until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)
