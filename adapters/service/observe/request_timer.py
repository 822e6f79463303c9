"""The measurement of one request, as a port: the web server knows no metrics library."""

from typing import Protocol


class RequestTimer:
    """Measures one request between ``with`` and its end; this one keeps nothing.

    Attributes:
        status: HTTP status of the answer; 0 where the client disconnected.
        size: bytes of the request body.
    """

    status = 0
    size = 0

    def __enter__(self) -> "RequestTimer":
        return self

    def __exit__(self, *_: object) -> None:
        """The request has ended."""


class RequestMetrics(Protocol):
    """Counts requests and records those that failed unexpectedly."""

    def __call__(self, verb: str) -> RequestTimer:
        """A timer for one request; ``verb`` is the label of its endpoint."""
        ...

    def refused(self, reason: str) -> None:
        """Count a request or a connection that a limit of the port refused."""
        ...

    def failed(self, path: str, error: Exception) -> str:
        """Log an unexpected error.

        Returns:
            the number under which the log has it.
        """
        ...
