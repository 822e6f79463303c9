"""Pods, Deployments and DaemonSets with what they run: only the fields that the checks read.

Source: k8s.io/api core/v1 and apps/v1 types.go.
"""

from collections.abc import Iterator

from msgspec import field

from adapters.wire.kube import Metadata, Resources, Wire


class VolumeMount(Wire, frozen=True, gc=False):
    """Where a container mounts a volume."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class EnvironmentVariable(Wire, frozen=True, gc=False):
    """A variable of a container's environment."""

    name: str = ""
    value: str = ""


class ProgramContainer(Wire, frozen=True, gc=False):
    """A container with what it runs."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvironmentVariable, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    resources: Resources = Resources()
    restart_policy: str | None = None

    @property
    def words(self) -> list[str]:
        """The command line, also that of a shell's argument, in words."""
        return " ".join((*(self.command or ()), *(self.args or ()))).split()

    @property
    def image_name(self) -> str:
        """The last part of the image's name, without tag and digest."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]

    @property
    def is_service(self) -> bool:
        """Whether it is Dragoman's service, by the chart's name or a part of the image's."""
        parts = (self.name, *self.image.partition("@")[0].split("/"))
        return "serve" in self.words and any(each.startswith("dragoman") for each in parts)


class KeyToPath(Wire, frozen=True, gc=False):
    """A key of a ConfigMap and its file in the volume."""

    key: str = ""
    path: str = ""


class ConfigMapVolume(Wire, frozen=True, gc=False):
    """A volume of a ConfigMap's keys."""

    name: str = ""
    items: tuple[KeyToPath, ...] | None = None


class SecretVolume(Wire, frozen=True, gc=False):
    """A volume of a Secret's keys."""

    secret_name: str = ""


class Volume(Wire, frozen=True, gc=False):
    """A volume of a pod."""

    name: str = ""
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None


class ProgramSpec(Wire, frozen=True, gc=False):
    """The spec of a pod, with what its containers run."""

    containers: tuple[ProgramContainer, ...] = ()
    init_containers: tuple[ProgramContainer, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    host_network: bool = False
    dns_policy: str = "ClusterFirst"
    node_name: str = ""
    service_account_name: str = ""


class Condition(Wire, frozen=True, gc=False):
    """A condition in the status of any object."""

    type: str = ""
    status: str = ""
    message: str = ""


class ProgramStatus(Wire, frozen=True, gc=False):
    """The status of a pod; ``host_ip`` is the address of its node."""

    phase: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[Condition, ...] | None = None


class ProgramPod(Wire, frozen=True, gc=False):
    """A pod with what it runs."""

    metadata: Metadata = Metadata()
    spec: ProgramSpec = ProgramSpec()
    status: ProgramStatus = ProgramStatus()

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def ready(self) -> bool:
        """Whether all of its containers are ready."""
        return has(self.status.conditions, "Ready")

    def resources(self) -> Iterator[str]:
        """Names of all extended resources that a container requests, perhaps repeated."""
        for each in (*self.spec.containers, *(self.spec.init_containers or ())):
            for amounts in (each.resources.limits, each.resources.requests):
                yield from (name for name in amounts or () if "/" in name)


class Template(Wire, frozen=True, gc=False):
    """The template of a workload's pods."""

    spec: ProgramSpec = ProgramSpec()


class WorkloadSpec(Wire, frozen=True, gc=False):
    """The spec of a Deployment or DaemonSet."""

    replicas: int = 1
    template: Template = Template()


class WorkloadStatus(Wire, frozen=True, gc=False):
    """The status of a Deployment or DaemonSet."""

    ready_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0


class Workload(Wire, frozen=True, gc=False):
    """A Deployment or DaemonSet."""

    metadata: Metadata = Metadata()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def has(conditions: tuple[Condition, ...] | None, kind: str) -> bool:
    """Whether a condition is true."""
    return any(each.type == kind and each.status == "True" for each in conditions or ())
