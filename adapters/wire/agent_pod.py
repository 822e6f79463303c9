"""The pods of the node agents, with only the fields by which the service finds their metrics.

Source: k8s.io/api/core/v1/types.go, PodSpec and PodStatus.
"""

import msgspec

from adapters.wire.kube import Metadata, Wire

COMPONENT = "dragoman.dev/component"
"""The label of the chart's workloads and pods that no value of the chart changes."""

LABELS = {COMPONENT: "node"}
"""Labels of the agents' pods, as the chart writes them."""


class AgentPodSpec(Wire, frozen=True, gc=False):
    """The spec of an agent's pod."""

    node_name: str = ""


class AgentPodStatus(Wire, frozen=True, gc=False):
    """The status of an agent's pod; ``pod_ip`` is empty until the pod has a network."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class AgentPod(Wire, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata
    spec: AgentPodSpec = AgentPodSpec()
    status: AgentPodStatus = AgentPodStatus()
