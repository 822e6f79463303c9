"""Kubernetes objects, with only the fields that are read.

Source: k8s.io/api/core/v1/types.go; Device: koordinator-sh/koordinator
apis/scheduling/v1alpha1/device_types.go.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from adapters.wire.decode.decoder import Int64
from core.requests.request import PodRef

Amount = str | int | float
"""A quantity in a manifest: Kubernetes accepts a number in place of text."""

Text = dict[str, str]

Entries = Mapping[str, str]
"""Annotations or labels to set."""

Changes = Mapping[str, str | None]
"""Entries to set, of annotations, labels or others; None removes one."""


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of all objects; unknown fields are ignored."""


class OwnerReference(Wire, frozen=True, gc=False):
    """What created an object; the controller is the one that creates it again."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class WorkloadRef(NamedTuple):
    """The name of an object that makes pods; ``str()`` gives ``deployment NAMESPACE/NAME``."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


class Metadata(Wire, frozen=True, gc=False):
    """Metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Text | None = None
    annotations: Text | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    resource_version: str = ""
    creation_timestamp: str | None = None


class Resources(Wire, frozen=True, gc=False):
    """Resources of a container."""

    limits: dict[str, Amount] | None = None
    requests: dict[str, Amount] | None = None


class SecurityContext(Wire, frozen=True, gc=False):
    """The security context of a container."""

    privileged: bool | None = None


class Container(Wire, frozen=True, gc=False):
    """A container of a pod; ``restart_policy`` ``Always`` makes a sidecar of an init container."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None
    security_context: SecurityContext | None = None


class SchedulingGroup(Wire, frozen=True, gc=False):
    """The pod group of a pod."""

    pod_group_name: str | None = None


class SchedulingGate(Wire, frozen=True, gc=False):
    """What keeps a pod from its scheduler."""

    name: str = ""


class PodClaim(Wire, frozen=True, gc=False):
    """An entry of ``spec.resourceClaims``, or the claim that was made for one with a template.

    Without a claim's name the former has a template, and the latter needs none.
    """

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimedResource(Wire, frozen=True, gc=False):
    """A container's extended resource of which a claim has the devices."""

    container_name: str = ""
    resource_name: str = ""


class ExtendedClaim(Wire, frozen=True, gc=False):
    """The claim that kube-scheduler made for the extended resources of a pod."""

    resource_claim_name: str = ""
    request_mappings: tuple[ClaimedResource, ...] | None = None


class Toleration(Wire, frozen=True, gc=False):
    """A taint that a pod tolerates; an empty key or effect stands for every one."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SelectorRequirement(Wire, frozen=True, gc=False):
    """A condition of a label, or of the field ``metadata.name``, of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Wire, frozen=True, gc=False):
    """Conditions that a node meets together; a term without any matches no node."""

    match_expressions: tuple[SelectorRequirement, ...] | None = None
    match_fields: tuple[SelectorRequirement, ...] | None = None


class RequiredNodeSelector(Wire, frozen=True, gc=False):
    """Terms of which a node meets one."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(Wire, frozen=True, gc=False):
    """The node affinity of a pod; what is only preferred is not read."""

    required: RequiredNodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True, gc=False):
    """The affinity of a pod; only that to nodes is read."""

    node_affinity: NodeAffinity | None = None


class PodSpec(Wire, frozen=True, gc=False):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    node_name: str | None = None
    node_selector: Text | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduler_name: str | None = None
    priority: Int64 | None = None
    preemption_policy: str | None = None
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None
    resources: Resources | None = None
    termination_grace_period_seconds: Int64 | None = None


class ContainerStatus(Wire, frozen=True, gc=False):
    """The status of a container; ``container_id`` is empty until the runtime has created it."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class PodCondition(Wire, frozen=True, gc=False):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Terminated(Wire, frozen=True, gc=False):
    """How a container has ended."""

    exit_code: Int64 = 0


class InitContainerState(Wire, frozen=True, gc=False):
    """The state of a container, as far as it is read."""

    terminated: Terminated | None = None


class InitContainerStatus(ContainerStatus, frozen=True, gc=False):
    """The status of an init container."""

    state: InitContainerState | None = None


class PodStatus(Wire, frozen=True, gc=False):
    """The status of a pod."""

    phase: str | None = None
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[InitContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[PodClaim, ...] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None
    conditions: tuple[PodCondition, ...] | None = None
    nominated_node_name: str | None = None


class Pod(Wire, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Unreadable(NamedTuple):
    """An object that cannot be decoded: its identity, and its JSON for what can be read of it."""

    namespace: str
    name: str
    uid: str
    raw: msgspec.Raw = msgspec.Raw()


class UnreadPod(Pod, frozen=True, gc=False):
    """A pod that cannot be decoded, with its identity, and its node, texts and group if these can.

    Attributes:
        node_known: whether ``node_name`` is what the object says; else it may be on any node.
    """

    problem: str = ""
    node_known: bool = False


class Taint(Wire, frozen=True, gc=False):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True, gc=False):
    """The spec of a node."""

    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Wire, frozen=True, gc=False):
    """The status of a node."""

    capacity: dict[str, Amount] | None = None
    allocatable: dict[str, Amount] | None = None


class KubeNode(Wire, frozen=True, gc=False):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class DeviceTopology(Wire, frozen=True, gc=False):
    """The position of a device; ``node_id`` is the NUMA node."""

    socket_id: Int64 = msgspec.field(default=-1, name="socketID")
    node_id: Int64 = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class DeviceInfo(Wire, frozen=True, gc=False):
    """One device of a Device object."""

    type: str = ""
    labels: Text | None = None
    id: str = ""
    minor: Int64 | None = None
    health: bool = False
    resources: dict[str, Amount] | None = None
    topology: DeviceTopology | None = None


class DeviceSpec(Wire, frozen=True, gc=False):
    """The spec of a Device object."""

    devices: tuple[DeviceInfo, ...] | None = None


class DeviceObject(Wire, frozen=True, gc=False):
    """Koordinator's inventory of one node, which has the same name."""

    metadata: Metadata = Metadata()
    spec: DeviceSpec = DeviceSpec()


class ConfigMap(Wire, frozen=True, gc=False):
    """A config map."""

    metadata: Metadata = Metadata()
    data: Text | None = None


class Secret(Wire, frozen=True, gc=False):
    """A Secret; the values of its data are in base64."""

    metadata: Metadata = Metadata()
    data: Text | None = None


def annotations(item: Pod | KubeNode | DeviceObject) -> Text:
    """Return an object's annotations, empty where it has none."""
    return item.metadata.annotations or {}


def labels(item: Pod | KubeNode | DeviceObject) -> Text:
    """Return an object's labels, empty where it has none."""
    return item.metadata.labels or {}


def rejection_of(pod: Pod) -> PodCondition | None:
    """Return the condition by which a scheduler says that it could not place a pod, if it does."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition
    return None


def gates_of(pod: Pod) -> str:
    """Return the names of a pod's scheduling gates; no scheduler looks at it while it has one."""
    return ", ".join(gate.name for gate in pod.spec.scheduling_gates or ())


def is_ready(pod: Pod) -> bool:
    """Return whether all containers of a pod run, and are ready."""
    conditions = pod.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def full_name(pod: Pod) -> str:
    """Return ``namespace/name``; the namespace is ``default`` where none is written."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def pod_ref(pod: Pod) -> PodRef:
    """Return which pod it is; the namespace is ``default`` where none is written."""
    meta = pod.metadata
    return PodRef(meta.namespace or "default", meta.name, meta.uid)


def with_annotations(pod: Pod, annotations: Text) -> Pod:
    """Return the pod with these annotations in place of its own."""
    metadata = msgspec.structs.replace(pod.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(pod, metadata=metadata)


class EnvVar(Wire, frozen=True, gc=False):
    """A variable of a container; no value is read."""

    name: str = ""


class MarkedContainer(Container, frozen=True, gc=False):
    """A container with its variables."""

    env: tuple[EnvVar, ...] | None = None


class MarkedSpec(PodSpec, frozen=True, gc=False):
    """The spec of a pod whose containers have their variables."""

    containers: tuple[MarkedContainer, ...] = ()
    init_containers: tuple[MarkedContainer, ...] | None = None


class MarkedPod(Pod, frozen=True, gc=False):
    """A pod whose containers have their variables."""

    spec: MarkedSpec = MarkedSpec()


def has_variable(container: Container, name: str) -> bool:
    """Return whether a container has a variable; False where they were not decoded."""
    variables = container.env if isinstance(container, MarkedContainer) else None
    return any(variable.name == name for variable in variables or ())
