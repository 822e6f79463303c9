"""A small HTTP(S) server that keeps every request body and answers as the test says.

It takes the place of our own service: under a scheduler's extender, or behind an admission
webhook. What foreign components really send is read from it.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any

from e2e.harness.cluster.certificates import Pair


@dataclass(frozen=True, slots=True)
class Call:
    """One request that came in.

    Attributes:
        verb: the last part of its path.
        body: as it came.
        at: when it had arrived whole, in seconds of the monotonic clock.
    """

    verb: str
    body: bytes
    at: float

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


Answer = Callable[[Call], Any]


@dataclass(slots=True)
class Recorder:
    """The server, as a test sees it.

    Attributes:
        port: on its address.
        answers: what is answered to a verb, as a value that JSON can say; a verb without an
            answer is answered with status 404. A test may change them at any time.
        calls: in the order of their arrival.
        secure: whether it speaks TLS.
        address: where it listens.
    """

    port: int
    secure: bool
    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    address: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The extender's address, without a verb."""
        return f"http{'s' if self.secure else ''}://{self.address}:{self.port}"

    def of(self, verb: str) -> list[Call]:
        """The calls with this verb so far."""
        return [call for call in list(self.calls) if call.verb == verb]

    def verbs(self) -> list[str]:
        """The verbs so far, in order."""
        return [call.verb for call in list(self.calls)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, pair: Pair | None, address: str) -> None:
        self.recorder: Recorder
        self.open: set[socket] = set()
        super().__init__((address, 0), _Handler)
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.certificate, pair.key)
            # The handshake is left to the thread of the connection.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one segment, sent at once: else each reply waits for an acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        verb = self.path.partition("?")[0].rpartition("/")[2]
        call = Call(verb=verb, body=body, at=time.monotonic())
        recorder = self.server.recorder
        recorder.calls.append(call)
        answer = recorder.answers.get(verb)
        if answer is None:
            self._reply(404, {"message": f"no answer to {verb}"})
        else:
            self._reply(200, answer(call))

    def _reply(self, status: int, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def recorder(pair: Pair | None = None, address: str = "127.0.0.1") -> Iterator[Recorder]:
    """A recorder for the length of a block, over TLS if it is given a certificate."""
    server = _Server(pair, address)
    this = Recorder(port=server.server_port, secure=pair is not None, address=address)
    server.recorder = this
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield this
    finally:
        server.shutdown()
        server.server_close()
        for connection in list(server.open):
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
        thread.join()
