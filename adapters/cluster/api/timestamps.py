"""Timestamps as the API writes them. Source: k8s.io/apimachinery/pkg/apis/meta/v1/time.go."""

from datetime import UTC, datetime


def seconds(moment: datetime) -> str:
    """Return a ``Time``: whole seconds, UTC."""
    return f"{_plain(moment).isoformat(timespec='seconds')}Z"


def micros(moment: datetime) -> str:
    """Return a ``MicroTime``: always six digits, UTC."""
    return f"{_plain(moment).isoformat(timespec='microseconds')}Z"


def read(text: str) -> datetime | None:
    """Read a timestamp of RFC 3339; None where the text is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


def _plain(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
