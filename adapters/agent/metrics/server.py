"""An HTTP server for ``/metrics``, ``/livez`` and ``/readyz``; Prometheus' text format."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from adapters.agent.log import log_event

REQUEST_TIMEOUT = 5.0
"""Seconds for a request and its answer."""

CONNECTIONS = 64
"""Open connections; beyond it, the one whose request has not arrived for longest is closed."""

_MAX_HEAD = 8 << 10

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value.

    Attributes:
        labels: in the order in which they are written.
    """

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name.

    Attributes:
        kind: ``gauge`` or ``counter``.
    """

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: str = "gauge"


def render(families: Iterable[Family]) -> str:
    """Write the text of all families; one without samples is left out."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in family.samples:
            labels = ",".join(
                f'{key}="{value.translate(_ESCAPES)}"' for key, value in sample.labels.items()
            )
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{braces} {sample.value:.15g}")
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True)
class MetricsServer:
    """The server.

    Attributes:
        families: collects the metrics; called on another thread, by one request at a time.
        ready: whether the runtime calls the agent.
    """

    families: Callable[[], list[Family]]
    ready: Callable[[], bool]
    _open: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    _incomplete: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    _collecting: "asyncio.Task[list[Family]] | None" = None

    async def start(self, listen: str) -> asyncio.Server:
        """Serve until the result is closed.

        Args:
            listen: ``HOST:PORT``; without a host, on all addresses.

        Raises:
            OSError: the address is not usable.
        """
        host, _, port = listen.rpartition(":")
        return await asyncio.start_server(
            self._serve, host.strip("[]") or None, int(port), limit=_MAX_HEAD
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            # The one whose request has not arrived for longest, else the oldest one.
            oldest = next(iter(self._incomplete or self._open))
            self._forget(oldest)
            oldest.transport.abort()
        self._open[writer] = self._incomplete[writer] = None
        try:
            writer.transport.set_write_buffer_limits(0)  # drain then waits for the last byte
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                self._incomplete.pop(writer, None)
                method, _, rest = head.partition(b" ")
                path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
                if method != b"GET":
                    answer = _response("405 Method Not Allowed", "only GET is supported\n")
                elif path == b"/metrics":
                    # Requests at the same time share what is collected.
                    if self._collecting is None or self._collecting.done():
                        self._collecting = asyncio.create_task(asyncio.to_thread(self.families))
                    families = await asyncio.shield(self._collecting)
                    answer = _response("200 OK", render(families), CONTENT_TYPE)
                elif path == b"/livez" or (path == b"/readyz" and self.ready()):
                    answer = _response("200 OK", "ok\n")
                elif path == b"/readyz":
                    problem = "waiting for the runtime: it does not call the agent\n"
                    answer = _response("503 Service Unavailable", problem)
                else:
                    answer = _response("404 Not Found", "not found: try /metrics\n")
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            log_event("metrics.failed", reason=repr(error))
        finally:
            self._forget(writer)
            writer.transport.abort()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._incomplete.pop(writer, None)
        self._open.pop(writer, None)


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
