"""Commands as a user types them, and waiting for what they should show."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within


class CommandError(AssertionError):
    """A command failed; the message has what it printed."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed.

    Attributes:
        errors: what it printed as errors.
    """

    status: int
    output: str
    errors: str


def attempt(script: str, timeout: float = 120) -> Printed:
    """Run lines of bash in the repository, however they end."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=REPOSITORY,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Printed(status=done.returncode, output=done.stdout, errors=done.stderr)


def sh(script: str, timeout: float = 120) -> str:
    """What lines of bash print.

    Raises:
        CommandError: one of them failed.
    """
    print(f"$ {script.strip()}", flush=True)
    done = attempt(script, timeout)
    if done.status:
        raise CommandError(f"status {done.status} of\n{script}\n{done.output}{done.errors}")
    print(done.output, flush=True)
    return done.output


@contextmanager
def beside(script: str) -> Iterator[None]:
    """Run lines of bash, as in a second terminal, for the length of a block."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as terminal:
        try:
            yield
        finally:
            os.killpg(terminal.pid, signal.SIGTERM)


def get(what: str, *words: str) -> Any:
    """An object, or a list of objects, as ``kubectl get`` knows it."""
    done = subprocess.run(
        ["kubectl", "get", *what.split(), *words, "--output=json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr)
    found = json.loads(done.stdout)
    return found["items"] if found.get("kind", "").endswith("List") else found


def wait_for(what: str, *words: str, seconds: float = 90) -> None:
    """Wait as ``kubectl wait`` does.

    Raises:
        CommandError: it is not so after that time.
    """
    sh(f"kubectl wait --timeout={seconds:.0f}s {what} {' '.join(words)}", timeout=seconds + 30)


def eventually(seconds: float, holds: Any, seen: Callable[[], object] = str) -> None:
    """Wait until something holds; a command that fails means not yet.

    Args:
        seconds: as for ``within``.
        holds: as for ``within``.
        seen: its answer, or the error of its command, ends the message of the failure.
    """

    def asked() -> bool:
        try:
            return bool(holds())
        except CommandError:
            return False

    def last() -> object:
        try:
            return seen()
        except CommandError as error:
            return error

    within(seconds, asked, last)
