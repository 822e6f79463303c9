"""The objects that doctor reads, with only the fields that the checks need.

Source: k8s.io/api core/v1, apps/v1, admissionregistration/v1 and networking/v1 types.go;
k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Raw, UnsetType, field

from adapters.wire.api import TypeMeta
from adapters.wire.decode.decoder import Int64
from adapters.wire.dra import DeviceClass
from adapters.wire.kube import (
    Container,
    EnvVar,
    KubeNode,
    Metadata,
    NodeStatus,
    PodCondition,
    Text,
    Wire,
)
from adapters.wire.kube_policy import Selector, matches


class _VolumeMount(Wire, frozen=True, gc=False):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class _EnvironmentVariable(EnvVar, frozen=True, gc=False):
    value: str = ""


class ProgramContainer(Container, frozen=True, gc=False):
    """A container with what it runs."""

    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[_EnvironmentVariable, ...] | None = None
    volume_mounts: tuple[_VolumeMount, ...] | None = None

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


class _KeyToPath(Wire, frozen=True, gc=False):
    key: str = ""
    path: str = ""


class _ConfigMapVolume(Wire, frozen=True, gc=False):
    name: str = ""
    items: tuple[_KeyToPath, ...] | None = None


class _SecretVolume(Wire, frozen=True, gc=False):
    secret_name: str = ""


class _Volume(Wire, frozen=True, gc=False):
    name: str = ""
    config_map: _ConfigMapVolume | None = None
    secret: _SecretVolume | None = None


class _ProgramSpec(Wire, frozen=True, gc=False):
    containers: tuple[ProgramContainer, ...] = ()
    init_containers: tuple[ProgramContainer, ...] | None = None
    volumes: tuple[_Volume, ...] | None = None
    host_network: bool = False
    dns_policy: str = "ClusterFirst"
    node_name: str = ""
    service_account_name: str = ""
    priority: Int64 | None = None


class _ProgramStatus(Wire, frozen=True, gc=False):
    """The status of a pod; ``host_ip`` is the address of its node."""

    phase: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] | None = None


class ProgramPod(Wire, frozen=True, gc=False):
    """A pod with what it runs."""

    metadata: Metadata = Metadata()
    spec: _ProgramSpec = _ProgramSpec()
    status: _ProgramStatus = _ProgramStatus()

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


class _Template(Wire, frozen=True, gc=False):
    spec: _ProgramSpec = _ProgramSpec()


class _ControllerSpec(Wire, frozen=True, gc=False):
    replicas: int = 1
    template: _Template = _Template()


class _ControllerStatus(Wire, frozen=True, gc=False):
    ready_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0


class ProgramController(Wire, frozen=True, gc=False):
    """A Deployment or DaemonSet."""

    metadata: Metadata = Metadata()
    spec: _ControllerSpec = _ControllerSpec()
    status: _ControllerStatus = _ControllerStatus()


def has(conditions: tuple[PodCondition, ...] | None, kind: str) -> bool:
    """Whether a condition is true."""
    return any(each.type == kind and each.status == "True" for each in conditions or ())


class _ServicePort(Wire, frozen=True, gc=False):
    """A port of a Service; ``target_port`` is the number or the name of its pods' port."""

    port: int = 0
    target_port: int | str = 0


class _ServiceSpec(Wire, frozen=True, gc=False):
    cluster_ip: str = field(default="", name="clusterIP")
    selector: Text | None = None
    ports: tuple[_ServicePort, ...] | None = None


class KubeService(Wire, frozen=True, gc=False):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: _ServiceSpec = _ServiceSpec()


class _ServiceReference(Wire, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _WebhookClientConfig(Wire, frozen=True, gc=False):
    """How the API server reaches a webhook; ``ca_bundle`` is base64 of PEM."""

    service: _ServiceReference | None = None
    ca_bundle: str = ""


class _MatchCondition(Wire, frozen=True, gc=False):
    expression: str = ""


class Webhook(Wire, frozen=True, gc=False):
    """One webhook of a configuration."""

    name: str = ""
    client_config: _WebhookClientConfig = _WebhookClientConfig()
    failure_policy: str = "Fail"
    namespace_selector: Selector | None = None
    match_conditions: tuple[_MatchCondition, ...] | None = None


class WebhookConfiguration(Wire, frozen=True, gc=False):
    """A MutatingWebhookConfiguration."""

    metadata: Metadata = Metadata()
    webhooks: tuple[Webhook, ...] | None = None


class _NodeInfo(Wire, frozen=True, gc=False):
    container_runtime_version: str = ""


class _ProgramNodeStatus(NodeStatus, frozen=True, gc=False):
    node_info: _NodeInfo = _NodeInfo()


class ProgramNode(KubeNode, frozen=True, gc=False):
    """A node with what runs on it."""

    status: _ProgramNodeStatus = _ProgramNodeStatus()


class _DefinitionVersion(Wire, frozen=True, gc=False):
    name: str = ""
    served: bool = False


class _DefinitionSpec(Wire, frozen=True, gc=False):
    versions: tuple[_DefinitionVersion, ...] = ()


class _DefinitionStatus(Wire, frozen=True, gc=False):
    conditions: tuple[PodCondition, ...] | None = None


class Definition(Wire, frozen=True, gc=False):
    """A CustomResourceDefinition."""

    metadata: Metadata = Metadata()
    spec: _DefinitionSpec = _DefinitionSpec()
    status: _DefinitionStatus = _DefinitionStatus()


class LedgerState(Wire, frozen=True, gc=False):
    """A NodeLedger, with what its node agent reported."""

    metadata: Metadata = Metadata()
    status: Raw | UnsetType = UNSET


class Version(Wire, frozen=True, gc=False):
    """The version of the API server."""

    git_version: str = ""


class _IpBlock(Wire, frozen=True, gc=False):
    cidr: str = ""
    without: tuple[str, ...] | None = field(default=None, name="except")


class Peer(Wire, frozen=True, gc=False):
    """Who may call."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: _IpBlock | None = None


class _PolicyPort(Wire, frozen=True, gc=False):
    port: int | str | None = None


class _IngressRule(Wire, frozen=True, gc=False):
    """Who may call which ports: everyone, and all, where there is no list."""

    ports: tuple[_PolicyPort, ...] | None = None
    callers: tuple[Peer, ...] | None = field(default=None, name="from")


class _NetworkPolicySpec(Wire, frozen=True, gc=False):
    """The spec of a policy. Its types include ``Ingress`` unless it names others."""

    pod_selector: Selector = Selector()
    policy_types: tuple[str, ...] | None = None
    ingress: tuple[_IngressRule, ...] | None = None


class NetworkPolicy(Wire, frozen=True, gc=False):
    """A NetworkPolicy."""

    metadata: Metadata = Metadata()
    spec: _NetworkPolicySpec = _NetworkPolicySpec()


class DeviceClassList(Wire, frozen=True, gc=False):
    """All DeviceClasses of a cluster."""

    items: tuple[DeviceClass, ...] = ()


def labels(item: ProgramController | TypeMeta | ProgramPod) -> Text:
    """Return an object's labels, empty where it has none."""
    return item.metadata.labels or {}


def selects(selector: Selector | None, own: Mapping[str, str]) -> bool:
    """Whether a selector selects labels; one without any rule selects all."""
    empty = selector is None or not (selector.match_labels or selector.match_expressions)
    return empty or matches(selector, own)
