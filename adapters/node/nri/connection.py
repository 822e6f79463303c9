"""One connection to the runtime: bytes come in on a thread of its own, and go out from any.

A thread that blocks in the socket answers sooner than an event loop that is told of it, and what
the loop is busy with is not in its way.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.nri.session import Happening, Session

_CHUNK = 64 << 10
_PATIENCE = 1
"""Seconds that the runtime may take to accept a connection, and to read what was sent."""

Take = Callable[[Happening, float], None]
"""Told what has happened, and when its bytes arrived, by ``time.monotonic()``."""


@dataclass(slots=True)
class Connection:
    """One connection.

    Attributes:
        sock: of it; blocking.
        session: what is said on it.
    """

    sock: socket.socket
    session: Session
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _problem: Exception | None = None

    @classmethod
    def connect(cls, path: Path, session: Session) -> "Connection":
        """Reach the runtime and ask to be registered.

        Raises:
            OSError: it is not there.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_PATIENCE)
            sock.connect(str(path))
            sock.settimeout(None)
            patience = struct.pack("ll", _PATIENCE, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        except OSError:
            sock.close()
            raise
        line = cls(sock, session)
        line.send(session.register)
        return line

    def serve(self, take: Take) -> None:
        """Read until the runtime hangs up, or the line is closed.

        Raises:
            EOFError: the runtime has hung up.
            OSError: the connection broke, or ``close`` was given this reason.
            MuxError: the runtime does not speak the protocol.
            TtrpcError: the same.
        """
        try:
            while data := self.sock.recv(_CHUNK):
                began = time.monotonic()
                with self._lock:
                    step = self.session.feed(data)
                    self._send(step.send)
                for each in step.happened:
                    take(each, began)
            raise self._problem or EOFError("the runtime has hung up")
        finally:
            self.close()
            self.sock.close()

    def send(self, make: Callable[[], bytes]) -> bool:
        """Let the session make bytes and send them, undisturbed by other threads.

        Returns:
            Whether there was anything to send.

        Raises:
            OSError: the connection broke, or the runtime does not read.
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

    def close(self, problem: Exception | None = None) -> None:
        """Hang up; whoever is in ``serve`` returns from it with the problem.

        Not the descriptor but the connection ends here: another thread may be reading from it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._problem = problem
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
