"""The agent's log: one JSON object a line, an event and its keys."""

import json
import sys
from datetime import UTC, datetime


def log_event(event: str, **keys: object) -> None:
    """Write one line to standard error.

    Args:
        event: what happened, such as ``container.adjusted``.
        keys: to whom and why: ``pod``, ``uid``, ``container``, ``reason`` and the like.
    """
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **keys}
    sys.stderr.write(json.dumps(line, default=str) + "\n")
