"""A client of the container runtime interface, as far as these tests need it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import grpc
from google.protobuf.message import Message

from e2e.harness.node.image import NAME
from e2e.harness.node.proto import cri_pb2 as api
from e2e.harness.processes.waiting import within

RUNTIME, IMAGES = "/runtime.v1.RuntimeService", "/runtime.v1.ImageService"
# The network of the node, and processes of its own for each container.
NAMESPACES = api.NamespaceOption(network=api.NODE, pid=api.CONTAINER)

PATIENCE = 60
"""Seconds until an answer counts as missing, on a machine that does much else."""

AnswerT = TypeVar("AnswerT", bound=Message)


class CriError(RuntimeError):
    """The runtime refuses; the message is its own."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod that was made.

    Attributes:
        id: the runtime's.
        config: with which it was created.
    """

    id: str
    config: api.PodSandboxConfig


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
        config = api.PodSandboxConfig(
            metadata=api.PodSandboxMetadata(name=name, uid=uid, namespace=space),
            log_directory=str(self.logs),
            annotations=annotations or {},
            linux=api.LinuxPodSandboxConfig(
                cgroup_parent=f"{self.group}/{uid}",
                security_context=api.LinuxSandboxSecurityContext(
                    namespace_options=NAMESPACES, privileged=privileged
                ),
            ),
        )
        asked = api.RunPodSandboxRequest(config=config)
        answer = self._call("RunPodSandbox", asked, api.RunPodSandboxResponse)
        return Sandbox(answer.pod_sandbox_id, config)

    def create(
        self,
        sandbox: Sandbox,
        name: str,
        env: Mapping[str, str] | None = None,
        attempt: int = 0,
        *,
        privileged: bool = False,
        mounts: Mapping[str, str] | None = None,
        user: int = 0,
        read_only: bool = False,
    ) -> str:
        """Create a container; its id.

        Args:
            sandbox: its pod.
            name: of the container.
            env: the environment, as the author of the pod or admission wrote it.
            attempt: counts those of one name.
            privileged: whether it gets every device of the node.
            mounts: places of the node by places inside.
            user: of its processes.
            read_only: whether its root file system is.

        Raises:
            CriError: the runtime refuses.
        """
        security = api.LinuxContainerSecurityContext(
            privileged=privileged,
            namespace_options=NAMESPACES,
            run_as_user=api.Int64Value(value=user),
            readonly_rootfs=read_only,
        )
        config = api.ContainerConfig(
            metadata=api.ContainerMetadata(name=name, attempt=attempt),
            image=api.ImageSpec(image=NAME),
            envs=[api.KeyValue(key=k, value=v.encode()) for k, v in (env or {}).items()],
            mounts=[
                api.Mount(container_path=inside, host_path=outside)
                for inside, outside in (mounts or {}).items()
            ],
            log_path=f"{name}.log",
            linux=api.LinuxContainerConfig(security_context=security),
        )
        asked = api.CreateContainerRequest(
            pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config
        )
        return self._call("CreateContainer", asked, api.CreateContainerResponse).container_id

    def start(self, container: str) -> None:
        """Start a container."""
        self._call("StartContainer", api.StartContainerRequest(container_id=container), api.Empty)

    def run(self, sandbox: Sandbox, name: str, env: Mapping[str, str] | None = None) -> str:
        """Create and start a container; its id."""
        container = self.create(sandbox, name, env)
        self.start(container)
        return container

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        self._call("StopContainer", api.StopContainerRequest(container_id=container), api.Empty)
        self._call("RemoveContainer", api.RemoveContainerRequest(container_id=container), api.Empty)

    def exec(self, container: str, words: Sequence[str]) -> str:
        """What a command prints inside a container.

        Raises:
            CriError: it fails.
        """
        asked = api.ExecSyncRequest(container_id=container, cmd=words, timeout=PATIENCE)
        answer = self._call("ExecSync", asked, api.ExecSyncResponse)
        if answer.exit_code:
            printed = (answer.stderr + answer.stdout).decode(errors="replace")
            raise CriError(f"{words}: {answer.exit_code}: {printed}")
        return answer.stdout.decode()

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
        answer = self._call(
            "ListContainers", api.ListContainersRequest(), api.ListContainersResponse
        )
        return {
            each.id: each.labels["io.kubernetes.pod.uid"]
            for each in answer.containers
            if each.state == api.CONTAINER_RUNNING
        }

    def clear(self) -> None:
        """Remove every pod, and what is in it."""
        for each in self._sandboxes():
            stop = api.StopPodSandboxRequest(pod_sandbox_id=each.id)
            self._call("StopPodSandbox", stop, api.Empty)
            remove = api.RemovePodSandboxRequest(pod_sandbox_id=each.id)
            self._call("RemovePodSandbox", remove, api.Empty)

    def wait(self) -> None:
        """Wait until the runtime serves, and knows the image."""
        problems: list[CriError] = []

        def knows_the_image() -> bool:
            try:
                self._sandboxes()
                answer = self._call(
                    "ListImages", api.ListImagesRequest(), api.ListImagesResponse, IMAGES
                )
            except CriError as error:
                problems[:] = [error]
                return False
            return any(NAME in image.repo_tags for image in answer.images)

        within(20, knows_the_image, lambda: problems)

    def _sandboxes(self) -> Sequence[api.PodSandbox]:
        asked = api.ListPodSandboxRequest()
        return self._call("ListPodSandbox", asked, api.ListPodSandboxResponse).items

    def _call(
        self, method: str, asked: Message, answers: type[AnswerT], service: str = RUNTIME
    ) -> AnswerT:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(
            f"{service}/{method}"
        )
        try:
            answer = call(asked.SerializeToString(), timeout=PATIENCE + 10)
        except grpc.RpcError as error:
            raise CriError(f"{method}: {error.details()}") from error
        return answers.FromString(answer)
