"""Parses the option ``--at``."""

import time
from datetime import UTC, datetime, timedelta

import typer

from core.durations import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str | None) -> int:
    """Nanoseconds since 1970, from RFC 3339 with a time zone or Unix seconds; now for None.

    Raises:
        typer.BadParameter: the text is neither.
    """
    if text is None:
        return time.time_ns()
    if text.isdigit() and text.isascii():
        return int(text) * SECOND
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-01-31T12:00:00Z or 1769860800", param_hint="--at"
        )
    return (found - EPOCH) // timedelta(microseconds=1) * 1000
