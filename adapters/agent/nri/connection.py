"""One connection to the runtime: one thread receives, any thread sends.

A thread that blocks in the socket answers sooner than an event loop that is woken for it, and work
on the event loop does not delay it.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from adapters.agent.nri.session import Session, SessionEvent

_CHUNK = 64 << 10
_TIMEOUT = 1
"""Seconds that the runtime may take to accept a connection, and to read what the agent sends."""

EventHandler = Callable[[SessionEvent, float], None]
"""Called with an event, and when its bytes arrived, by ``time.monotonic()``."""


@dataclass(slots=True)
class Connection:
    """One connection, on a blocking socket."""

    sock: socket.socket
    session: Session
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _reason: Exception | None = None

    @classmethod
    def connect(cls, path: Path, session: Session) -> "Connection":
        """Connect to the runtime and send the registration.

        Raises:
            OSError: the runtime does not accept the connection.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_TIMEOUT)
            sock.connect(str(path))
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _TIMEOUT, 0))
        except OSError:
            sock.close()
            raise
        connection = cls(sock, session)
        connection.send(session.register)
        return connection

    def serve(self, handle: EventHandler) -> None:
        """Read until the runtime disconnects, or ``close`` is called.

        Raises:
            EOFError: the runtime disconnected.
            OSError: the connection broke, or ``close`` was called with this reason.
            MuxError: the runtime violates the protocol.
            TtrpcError: the runtime violates the protocol.
        """
        try:
            while data := self.sock.recv(_CHUNK):
                began = time.monotonic()
                with self._lock:
                    result = self.session.feed(data)
                    self._send(result.send)
                for event in result.events:
                    handle(event, began)
            raise self._reason or EOFError("the runtime disconnected")
        finally:
            self.close()
            self.sock.close()

    def send(self, make: Callable[[], bytes]) -> bool:
        """Let the session make bytes and send them, under the connection's lock.

        Returns:
            Whether there was anything to send.

        Raises:
            OSError: the connection broke, or the runtime does not read in time.
        """
        with self._lock:
            return self._send(make())

    def _send(self, data: bytes) -> bool:
        if not data or self._closed:
            return False
        try:
            self.sock.sendall(data)
        except BlockingIOError:
            raise TimeoutError("the runtime does not read") from None
        return True

    def close(self, reason: Exception | None = None) -> None:
        """Disconnect; ``serve`` then raises the reason.

        This shuts the connection down and leaves the descriptor open, because another thread may be
        reading from it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._reason = reason
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
