"""The mover's log: one JSON object a line on standard error."""

import sys

import msgspec
import structlog

from adapters.wire.visible import escaped

Logger = structlog.typing.FilteringBoundLogger


def logger() -> Logger:
    """A logger to standard error, with an event name and its keys in each line."""
    made: Logger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return made


def _json(value: object, **_: object) -> bytes:
    """One line of ASCII: what the API server sent ends no line, and does nothing on a terminal."""
    return escaped(msgspec.json.encode(value, enc_hook=str).decode()).encode()
