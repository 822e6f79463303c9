"""Errors of requests to the API server."""

from typing import TypeVar

import msgspec

from adapters.wire.api import ApiStatus
from adapters.wire.decode.decoder import Decoder, UnreadableError

ReadT = TypeVar("ReadT")

_STATUS = Decoder(ApiStatus)
_SHOWN = 200

GONE = 410
CONFLICT = 409
NOT_FOUND = 404
TOO_MANY = 429
UNAUTHORIZED = 401
FORBIDDEN = 403
UNANSWERED = 0

CREDENTIALS = "Credentials"
"""The reason of an error before the first request: there are no credentials for one."""

SERVER_ERROR = 500


class ClusterError(ConnectionError):
    """The API server rejected a request, or gave no valid answer.

    Attributes:
        status: the HTTP status; 0 where there was no answer.
        reason: the server's word, such as ``Conflict``; without an answer ours: ``Unreachable``,
            ``Silent``, ``Broken``, ``Garbage``, ``Credentials``.
        message: the server's sentence, or ours.
        uncertain: whether the server may have carried out the request.
        retry_after: seconds that the server asks to wait, or None.
        causes: the machine-readable reasons in the server's details.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        uncertain: bool = False,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        unanswered = message if reason == CREDENTIALS else f"no answer: {message}"
        super().__init__(f"{status} {reason}: {message}" if status else unanswered)
        self.status = status
        self.reason = reason
        self.message = message
        self.uncertain = uncertain
        self.retry_after = retry_after
        self.causes = causes


def read(decoder: Decoder[ReadT], body: bytes | msgspec.Raw) -> ReadT:
    """Decode an answer.

    Raises:
        ClusterError: it cannot be decoded; the reason is ``Garbage``.
    """
    try:
        return decoder.decode(body)
    except UnreadableError as error:
        raise ClusterError(0, "Garbage", f"an answer that cannot be read: {error}") from error


def refused(code: int, phrase: str, body: bytes, retry_after: str | None = None) -> ClusterError:
    """Return what an answer of 300 or more says.

    The HTTP reason phrase is used where the body is no ``Status`` object. Of the header
    ``Retry-After`` only seconds are read, as client-go does.
    """
    status = _read(body)
    seconds: float | None = None
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        seconds = float(retry_after)
    elif status.details is not None:
        seconds = status.details.retry_after_seconds
    return ClusterError(
        code,
        status.reason or phrase or "Unknown",
        status.message or body[:_SHOWN].decode(errors="replace") or "no body",
        uncertain=code >= SERVER_ERROR,
        retry_after=seconds,
        causes=_causes(status),
    )


def error_of(body: bytes | msgspec.Raw) -> ClusterError:
    """Return what a ``Status`` object in a watch says; it may lack everything."""
    status = _read(body)
    return ClusterError(
        status.code or SERVER_ERROR,
        status.reason or "Unknown",
        status.message or "the watch ended with an error that says nothing",
        retry_after=None if status.details is None else status.details.retry_after_seconds,
        causes=_causes(status),
    )


def _read(body: bytes | msgspec.Raw) -> ApiStatus:
    try:
        return _STATUS.decode(body)
    except UnreadableError:
        return ApiStatus()


def _causes(status: ApiStatus) -> tuple[str, ...]:
    causes = None if status.details is None else status.details.causes
    return tuple(cause.reason for cause in causes or ())
