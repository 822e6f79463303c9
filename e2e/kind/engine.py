"""The container engine: the one that answers, or Docker's in a room of its own."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.processes.process import Process, StartError
from e2e.harness.processes.run import REPOSITORY, Run
from e2e.kind.room import NAMESPACES
from e2e.testbed import cache
from e2e.testbed.versions import ROOT, components

SOCKET = "docker.sock"
# Where slirp4netns forwards questions about names to the machine's own resolver.
RESOLVER = "10.0.2.3"


class EngineError(RuntimeError):
    """There is no engine, or a command failed; the message says which and why."""


class NoEngineError(EngineError):
    """No engine answers, and this machine cannot run one."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers.

    Attributes:
        network: process whose network the engine has; 0 for the machine's own.
        variables: by which its clients find it.
    """

    network: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether it is ours: everything in it is, too."""
        return self.network > 0

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command that runs a command of this machine where the engine's ports are."""
        plain = [str(word) for word in words]
        if not self.network:
            return plain
        return ["nsenter", f"--target={self.network}", "--net", "--", *plain]

    def environment(self) -> dict[str, str]:
        """The environment in which docker and kind find the engine."""
        return os.environ | dict(self.variables)

    def docker(self, *words: str | Path, content: bytes | None = None) -> str:
        """What a docker command prints.

        Raises:
            EngineError: it failed.
        """
        done = subprocess.run(
            [str(word) for word in ("docker", *words)],
            input=content,
            capture_output=True,
            check=False,
            env=self.environment(),
        )
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip()[-2000:]
            raise EngineError(f"docker {' '.join(map(str, words[:3]))}: {last}")
        return done.stdout.decode(errors="replace")

    def has(self, image: str) -> bool:
        """Whether an image is there."""
        return bool(self.docker("image", "ls", "--quiet", image).strip())


def folder() -> Path:
    """Where our own engine keeps its images between runs."""
    return cache.root().parent / "kind"


@contextmanager
def engine(run: Run) -> Iterator[Engine]:
    """The machine's engine if it answers, else our own for the length of a block.

    Raises:
        NoEngineError: there is none, and this machine cannot run one.
        EngineError: the test bed has none, or another run has it.
    """
    if _answers(os.environ):
        yield Engine()
        return
    if os.geteuid():
        raise NoEngineError("no Docker engine answers (docker info), and starting one takes root")
    if withheld := _withheld():
        raise NoEngineError(
            "no Docker engine answers (docker info), and this machine withholds the privileges for"
            f" one of our own (a container needs --privileged): {withheld}"
        )
    if not cache.is_built(components()["engine"]):
        raise EngineError(
            "no Docker engine answers (docker info), and the test bed has none: "
            "python3 -m e2e.testbed.build --kind builds it"
        )
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineError("another run of make e2e-kind has the engine") from None
        try:
            daemon, own = _start(run)
        except StartError as error:
            # A run that was killed may have left images half written. They can be built again.
            print(f"the engine does not start on what an earlier run has left: {error}")
            shutil.rmtree(folder() / "docker", ignore_errors=True)
            try:
                daemon, own = _start(run)
            except StartError as again:
                raise NoEngineError(f"our own Docker engine does not start: {again}") from again
        _remove_leftovers(own)
        try:
            yield own
        finally:
            daemon.stop(patience=60)


def _withheld() -> str:
    """What keeps root from making namespaces and mounts, or the empty string."""
    words = ["unshare", *NAMESPACES, "--fork", "--mount-proc", "mount", "-t", "tmpfs", "x", "/mnt"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr.strip()


def _start(run: Run) -> tuple[Process, Engine]:
    root = cache.place(components()["engine"]) / ROOT
    socket = run.folder / SOCKET
    socket.unlink(missing_ok=True)
    variables = {
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_BUILDKIT": "0",  # its client is a plugin that Debian has in a package of its own
        "PATH": f"{_client(run.folder, root)}{os.pathsep}{os.environ['PATH']}",
    }
    daemon = run.start(
        "dockerd",
        [
            *(shutil.which("python3") or "python3", "-m", "e2e.kind.room"),
            *(run.folder, root, folder() / "docker"),
            *("dockerd", f"--host=unix://{socket}", "--storage-driver=overlay2"),
            *("--exec-opt=native.cgroupdriver=cgroupfs", f"--dns={RESOLVER}"),
        ],
        ready=lambda: socket.exists() and _answers(variables),
        environment={"PYTHONPATH": str(REPOSITORY)},
    )
    children = Path(f"/proc/{daemon.popen.pid}/task/{daemon.popen.pid}/children").read_text()
    own = Engine(network=int(children.split()[0]), variables=variables)
    inside = ("nsenter", f"--target={own.network}", "--mount", "--pid", "--")
    run.start(
        "slirp4netns",
        # Its own network stays the machine's; process 1 is the engine.
        [*inside, "slirp4netns", "--configure", "--disable-host-loopback", "1", "tap0"],
        ready=lambda: _has_way_out(own),
    )
    return daemon, own


def _answers(variables: Mapping[str, str]) -> bool:
    path = variables.get("PATH", os.defpath)
    client = shutil.which("docker", path=path)
    if client is None:
        return False
    done = subprocess.run(
        [client, "info"], capture_output=True, check=False, env=os.environ | dict(variables)
    )
    return done.returncode == 0 and b"Server Version" in done.stdout


def _has_way_out(own: Engine) -> bool:
    words = ["nsenter", f"--target={own.network}", "--mount", "--net", "--", "ip", "route"]
    return "default" in subprocess.run(words, capture_output=True, text=True, check=False).stdout


def _client(folder: Path, root: Path) -> Path:
    """A folder with a docker command that runs the root's client in this machine's file system."""
    (loader,) = root.glob("usr/lib*/ld-linux-*.so.?")
    libraries = root / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    script = folder / "bin" / "docker"
    script.parent.mkdir(exist_ok=True)
    words = f"{loader} --library-path {libraries} {root}/usr/bin/docker"
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return script.parent


def _remove_leftovers(own: Engine) -> None:
    """Delete what a run that was killed has left in our own engine; nothing else is in it."""
    if containers := own.docker("ps", "--all", "--quiet").split():
        own.docker("rm", "--force", "--volumes", *containers)
    own.docker("network", "prune", "--force")
    own.docker("volume", "prune", "--all", "--force")
