"""The agent's log: one JSON object per line, with an event name and its keys."""

import json
import sys
from datetime import UTC, datetime


def log_event(event: str, **keys: object) -> None:
    """Write one line to standard error.

    Args:
        event: what happened, such as ``container.rejected``.
        keys: what it happened to, and why: ``pod``, ``uid``, ``container``, ``reason`` and so on.
    """
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **keys}
    sys.stderr.write(json.dumps(line, default=str) + "\n")
