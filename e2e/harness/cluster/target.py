"""The cluster that the tests are run on: one of the test bed's, kind's, or any that exists."""

import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.credentials import Entry, connect, entry

# As configs/kind-cluster.yaml names it.
KIND = "dragoman-e2e"


class TargetError(RuntimeError):
    """The cluster named by ``--cluster`` is not available; the message says why."""


class Target(Protocol):
    """What a test needs to know of a cluster."""

    @property
    def api(self) -> Api:
        """The server, as a cluster administrator."""
        ...

    @property
    def authority(self) -> Authority:
        """Signs for servers of the test, whose authority a webhook configuration names."""
        ...

    @property
    def address(self) -> str:
        """Where the API server finds servers of the test."""
        ...

    def as_user(self, user: str, group: str = "") -> Api:
        """The server, as this user."""
        ...


@dataclass(frozen=True, slots=True)
class Existing:
    """A cluster that was not started here. Its administrator impersonates other users.

    Attributes:
        entry: the administrator's, for components that are started there.
    """

    api: Api
    authority: Authority
    address: str
    entry: Entry

    def as_user(self, user: str, group: str = "") -> Api:
        """The server, as this user."""
        return self.api.impersonating(user, group)


def existing(kubeconfig: Path, folder: Path, address: str | None = None) -> Existing:
    """The cluster of a kubeconfig's current context.

    Args:
        kubeconfig: the file.
        folder: private, for certificates.
        address: where the API server finds this machine; else the one that it is reached from.

    Raises:
        CredentialsError: the file cannot be used.
    """
    api = connect(kubeconfig)
    found = address or _address_towards(api.host, api.port)
    return Existing(
        api=api,
        authority=Authority.create(folder / "certificates", found),
        address=found,
        entry=entry(kubeconfig, folder),
    )


def kind(folder: Path) -> Existing:
    """The cluster that kind made from ``configs/kind-cluster.yaml``.

    Raises:
        TargetError: there is none, or no kind, or no Docker.
    """
    file = folder / "kind.kubeconfig"
    file.write_text(_output("kind", "get", "kubeconfig", f"--name={KIND}"))
    gateways = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
    words = _output("docker", "network", "inspect", "kind", f"--format={gateways}").split()
    return existing(file, folder, next(word for word in words if "." in word))


def _output(*words: str) -> str:
    if shutil.which(words[0]) is None:
        raise TargetError(f"--cluster=kind needs {words[0]}, which is not installed")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TargetError(f"{' '.join(words[:3])}: {done.stderr.strip()}")
    return done.stdout


def _address_towards(host: str, port: int) -> str:
    """Our own address on the way to a host; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, port))
        return str(way.getsockname()[0])
