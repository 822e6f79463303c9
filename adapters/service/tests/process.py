"""The service as a process of its own, without a cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "configs" / "examples" / "mixed.yaml"

CODE = "from adapters.cli.main import main; main()"


@dataclass
class Running:
    process: "subprocess.Popen[str]"
    address: str
    log: Path

    def get(self, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        url = f"{self.address}{path}"
        with urllib.request.urlopen(url, data, timeout=30) as answer:  # noqa: S310 - our own
            return json.loads(answer.read())

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serving(
    folder: Path,
    *options: str,
    code: str = CODE,
    env: Mapping[str, str] | None = None,
    inventory: Path | None = EXAMPLE,
) -> Iterator[Running]:
    log = folder / "log"
    files = [] if inventory is None else ["-f", str(inventory)]
    command = [sys.executable, "-c", code, "serve", *files, *options]
    with log.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603
            [*command, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=env or {"DRAGOMAN_GRPC": "off", **os.environ},
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Running(process, line.split()[-1], log)
    finally:
        process.kill()
        process.communicate()
