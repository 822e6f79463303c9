"""The service under attack: its ports, and what its process occupies."""

import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from adapters.service.tests.issued import Issued

INVENTORY = Path(__file__).parents[2] / "configs" / "examples" / "mixed.yaml"

TIMEOUT = 5.0
"""Seconds that a hostile client waits at most."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process occupies.

    Attributes:
        resident: bytes of memory.
        files: open files.
        threads: of the system.
        tasks: of the event loop.
    """

    resident: int
    files: int
    threads: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Target:
    """A running service.

    Attributes:
        process: of the service.
        port: in the clear.
        tls_port: for webhooks.
        context: trusts the service's authority.
        grpc: address of the gRPC socket.
        log: file with standard error.
    """

    process: "subprocess.Popen[str]"
    port: int
    tls_port: int
    context: ssl.SSLContext
    grpc: str
    log: Path

    def connect(self, port: int | None = None) -> socket.socket:
        """A connection to a port of the service, by default the one in the clear."""
        return socket.create_connection(("127.0.0.1", port or self.port), TIMEOUT)

    def get(self, path: str, timeout: float = 30.0) -> bytes:
        """The body of an answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            found: bytes = answer.read()
        return found

    def sample(self) -> Sample:
        """Measure now."""
        process = psutil.Process(self.process.pid)
        found = re.search(rb"^hostile_tasks (\S+)", self.get("/metrics"), re.MULTILINE)
        tasks = int(float(found[1])) if found else 0
        memory = process.memory_info().rss
        return Sample(memory, process.num_fds(), process.num_threads(), tasks)


@contextmanager
def serving(folder: Path, leak: str = "") -> Iterator[Target]:
    """A service with a SQLite store on loopback addresses; it is killed at the end.

    Args:
        folder: for its files; a socket in it must have a path of at most 100 characters.
        leak: what the service keeps of each request, to prove that this is noticed.
    """
    own = Issued.make(folder, "own")
    config, log, grpc = folder / "sidecar.yaml", folder / "log", f"unix:{folder / 'grpc'}"
    tls = {"certificate": own.certificate, "key": own.key, "listen": "127.0.0.1:0"}
    settings = {
        "store": f"sqlite:{folder / 'ledgers.db'}",
        "listen": "127.0.0.1:0",
        "tls": tls,
        "grpc": grpc,
    }
    config.write_bytes(orjson.dumps(settings, default=str))
    command = [sys.executable, "-m", "e2e.hostile.service", leak]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "serve", "-f", str(INVENTORY), "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        if process.stdout is None:
            raise OSError("the service has no output")
        lines = [process.stdout.readline(), process.stdout.readline()]
        if not all(lines):
            raise OSError(log.read_text())
        ports = {
            line.split()[-1].partition(":")[0]: line.strip().rpartition(":")[2] for line in lines
        }
        context = ssl.create_default_context(cafile=own.authority)
        target = Target(process, int(ports["http"]), int(ports["https"]), context, grpc, log)
        while b"ok" not in target.get("/readyz"):
            time.sleep(0.1)
        yield target
    finally:
        process.kill()
        process.communicate()
