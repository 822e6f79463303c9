"""Objects that run nothing themselves, with only the fields that the checks read.

Source: k8s.io/api core/v1 and admissionregistration/v1 types.go;
k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go.
"""

from msgspec import UNSET, Raw, UnsetType, field

from adapters.cli.doctor.programs import Condition, ProgramPod, Workload
from adapters.wire.budget import Selector
from adapters.wire.dra import DeviceClass
from adapters.wire.kube import Amount, Metadata, Text, Wire


class ServicePort(Wire, frozen=True, gc=False):
    """A port of a Service; ``target_port`` is the number or the name of its pods' port."""

    name: str = ""
    port: int = 0
    target_port: int | str = 0


class ServiceSpec(Wire, frozen=True, gc=False):
    """The spec of a Service."""

    cluster_ip: str = field(default="", name="clusterIP")
    selector: Text | None = None
    ports: tuple[ServicePort, ...] | None = None


class KubeService(Wire, frozen=True, gc=False):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class Named(Wire, frozen=True, gc=False):
    """Any object, with only its metadata."""

    metadata: Metadata = Metadata()


class ServiceReference(Wire, frozen=True, gc=False):
    """The Service of a webhook."""

    name: str = ""
    namespace: str = ""
    port: int = 443


class WebhookClientConfig(Wire, frozen=True, gc=False):
    """How the API server reaches a webhook; ``ca_bundle`` is base64 of PEM."""

    service: ServiceReference | None = None
    ca_bundle: str = ""


class MatchCondition(Wire, frozen=True, gc=False):
    """An expression in CEL that must be true of what a webhook is asked about."""

    expression: str = ""


class Webhook(Wire, frozen=True, gc=False):
    """One webhook of a configuration."""

    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()
    failure_policy: str = "Fail"
    namespace_selector: Selector | None = None
    match_conditions: tuple[MatchCondition, ...] | None = None


class WebhookConfiguration(Wire, frozen=True, gc=False):
    """A MutatingWebhookConfiguration."""

    metadata: Metadata = Metadata()
    webhooks: tuple[Webhook, ...] | None = None


class NodeInfo(Wire, frozen=True, gc=False):
    """What runs on a node."""

    container_runtime_version: str = ""


class ProgramNodeStatus(Wire, frozen=True, gc=False):
    """The status of a node."""

    node_info: NodeInfo = NodeInfo()
    capacity: dict[str, Amount] | None = None
    allocatable: dict[str, Amount] | None = None


class ProgramNode(Wire, frozen=True, gc=False):
    """A node with what runs on it."""

    metadata: Metadata = Metadata()
    status: ProgramNodeStatus = ProgramNodeStatus()


class DefinitionVersion(Wire, frozen=True, gc=False):
    """One version of a kind."""

    name: str = ""
    served: bool = False


class DefinitionSpec(Wire, frozen=True, gc=False):
    """The spec of a CustomResourceDefinition."""

    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(Wire, frozen=True, gc=False):
    """The status of a CustomResourceDefinition."""

    conditions: tuple[Condition, ...] | None = None


class Definition(Wire, frozen=True, gc=False):
    """A CustomResourceDefinition."""

    metadata: Metadata = Metadata()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class LedgerState(Wire, frozen=True, gc=False):
    """A NodeLedger, with what its node agent reported."""

    metadata: Metadata = Metadata()
    status: Raw | UnsetType = UNSET


class Version(Wire, frozen=True, gc=False):
    """The version of the API server."""

    git_version: str = ""


class ReviewStatus(Wire, frozen=True, gc=False):
    """The answer to an access review."""

    allowed: bool = False


class Review(Wire, frozen=True, gc=False):
    """An access review."""

    status: ReviewStatus = ReviewStatus()


def labels(item: Workload | Named | ProgramPod) -> Text:
    """An object's labels, empty where it has none."""
    return item.metadata.labels or {}


class DeviceClassList(Wire, frozen=True, gc=False):
    """All DeviceClasses of a cluster."""

    items: tuple[DeviceClass, ...] = ()
