"""A client of the container runtime interface, as far as these tests need it.

Source of the field numbers: k8s.io/cri-api pkg/apis/runtime/v1/api.proto.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from adapters.node.nri.protobuf import fields, integer, message, signed, string, text
from e2e.harness.node.image import NAME

SERVICE = "/runtime.v1.RuntimeService"
STATE, LABELS, RUNNING = 6, 8, 1
ON_NODE, OF_CONTAINER = 2, 1
"""Whose namespace: the node's network, the container's processes."""


class CriError(RuntimeError):
    """The runtime says no; the message is its own."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod that was made.

    Attributes:
        id: the runtime's.
        config: as it was asked for.
    """

    id: str
    config: bytes


@dataclass(slots=True)
class Cri:
    """A connection to one runtime."""

    channel: grpc.Channel
    group: str
    logs: Path

    @classmethod
    def connect(cls, socket: Path, group: str, logs: Path) -> Self:
        """Connect.

        Args:
            socket: of the runtime.
            group: control group below which the pods are.
            logs: a folder for what containers print.
        """
        options = [("grpc.initial_reconnect_backoff_ms", 50)]
        return cls(grpc.insecure_channel(f"unix://{socket}", options), group, logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.channel.close()

    def sandbox(
        self,
        name: str,
        uid: str,
        annotations: Mapping[str, str] | None = None,
        space: str = "ai",
        *,
        privileged: bool = False,
    ) -> Sandbox:
        """Make a pod; only a privileged one may have privileged containers."""
        options = message(1, integer(1, ON_NODE) + integer(2, OF_CONTAINER))
        options += integer(6, int(privileged))
        config = (
            message(1, text(1, name) + text(2, uid) + text(3, space))
            + text(3, str(self.logs))
            + _map(7, annotations or {})
            + message(8, text(1, f"{self.group}/{uid}") + message(2, options))
        )
        return Sandbox(self._text("RunPodSandbox", message(1, config)), config)

    def create(
        self,
        sandbox: Sandbox,
        name: str,
        env: Mapping[str, str] | None = None,
        attempt: int = 0,
        *,
        privileged: bool = False,
        mounts: Mapping[str, str] | None = None,
    ) -> str:
        """Create a container; its id.

        Args:
            sandbox: of its pod.
            name: of the container.
            env: what its pod's author, or admission, wrote.
            attempt: counts those of one name.
            privileged: whether it gets every device of the node.
            mounts: places of the node by places inside.

        Raises:
            CriError: the runtime refuses.
        """
        options = integer(2, int(privileged))
        options += message(3, integer(1, ON_NODE) + integer(2, OF_CONTAINER))
        config = (
            message(1, text(1, name) + integer(2, attempt))
            + message(2, text(1, NAME))
            + b"".join(message(6, text(1, k) + text(2, v)) for k, v in (env or {}).items())
            + b"".join(message(7, text(1, k) + text(2, v)) for k, v in (mounts or {}).items())
            + text(11, f"{name}.log")
            + message(15, message(2, options))
        )
        asked = text(1, sandbox.id) + message(2, config) + message(3, sandbox.config)
        return self._text("CreateContainer", asked)

    def start(self, container: str) -> None:
        """Start a container."""
        self._call("StartContainer", text(1, container))

    def run(self, sandbox: Sandbox, name: str, env: Mapping[str, str] | None = None) -> str:
        """Create and start a container; its id."""
        container = self.create(sandbox, name, env)
        self.start(container)
        return container

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        self._call("StopContainer", text(1, container))
        self._call("RemoveContainer", text(1, container))

    def exec(self, container: str, words: Sequence[str]) -> str:
        """What a command prints inside a container.

        Raises:
            CriError: it fails.
        """
        asked = text(1, container) + b"".join(message(2, w.encode()) for w in words)
        out = err = ""
        status = 0
        for number, value in fields(self._call("ExecSync", asked + integer(3, 10))):
            match number, value:
                case 1, bytes():
                    out = string(value)
                case 2, bytes():
                    err = string(value)
                case 3, int():
                    status = signed(value)
                case _:
                    pass
        if status:
            raise CriError(f"{words}: {status}: {err}{out}")
        return out

    def env(self, container: str) -> dict[str, str]:
        """A container's environment, as a process in it sees it."""
        lines = self.exec(container, ["/bin/env"]).splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def mounts(self, container: str) -> dict[str, str]:
        """A container's mounts: options by place."""
        rows = (
            row.split() for row in self.exec(container, ["/bin/cat", "/proc/mounts"]).splitlines()
        )
        return {row[1]: row[3] for row in rows}

    def running(self) -> dict[str, str]:
        """The running containers: their ids, with the uids of their pods."""
        found = {}
        for number, value in fields(self._call("ListContainers", b"")):
            if number == 1 and isinstance(value, bytes):
                states = [each for place, each in fields(value) if place == STATE]
                if states == [RUNNING]:
                    found[_first_text(value)] = _label(value, "io.kubernetes.pod.uid")
        return found

    def clear(self) -> None:
        """Remove every pod, and what is in it."""
        for number, value in fields(self._call("ListPodSandbox", b"")):
            if number == 1 and isinstance(value, bytes):
                name = _first_text(value)
                self._call("StopPodSandbox", text(1, name))
                self._call("RemovePodSandbox", text(1, name))

    def wait(self) -> None:
        """Wait until the runtime serves, and knows the image."""
        deadline = time.monotonic() + 20
        while True:
            try:
                self._call("ListPodSandbox", b"")
                images = self._call("ListImages", b"", "/runtime.v1.ImageService")
                if NAME.encode() in images:
                    return
            except CriError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _text(self, method: str, asked: bytes) -> str:
        return _first_text(self._call(method, asked))

    def _call(self, method: str, asked: bytes, service: str = SERVICE) -> bytes:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(
            f"{service}/{method}"
        )
        try:
            answer = call(asked, timeout=30)
        except grpc.RpcError as error:
            raise CriError(f"{method}: {error.details()}") from error
        if not isinstance(answer, bytes):
            raise CriError(f"{method}: no bytes")
        return answer


def _first_text(data: bytes) -> str:
    return next((string(v) for n, v in fields(data) if n == 1 and isinstance(v, bytes)), "")


def _label(container: bytes, key: str) -> str:
    for number, value in fields(container):
        if number == LABELS and isinstance(value, bytes) and _first_text(value) == key:
            return next(
                (string(v) for n, v in fields(value) if n == 2 and isinstance(v, bytes)), ""
            )
    return ""


def _map(number: int, entries: Mapping[str, str]) -> bytes:
    return b"".join(message(number, text(1, k) + text(2, v)) for k, v in entries.items())
