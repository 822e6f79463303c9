"""What the node agents report of cards and containers, from the text of their metrics.

Used memory, limits and used compute of containers are HAMi-core's records, which a container can
write itself: they are no proof. What a card has in use is the driver's. The pods of the agents have
only the fields by which the service finds their metrics.
Source: k8s.io/api/core/v1/types.go, PodSpec and PodStatus.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from adapters.wire.kube import Metadata, Wire
from core.hardware.quantity import FULL

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_UUID = 40
"""Characters of a card's uuid in the metrics (``adapters.agent.metrics.collect``)."""

_COMPUTE = "dragoman_container_compute_used_ratio"

_OF_CONTAINERS = {
    "dragoman_container_memory_granted_bytes": "granted",
    "dragoman_container_memory_used_bytes": "used",
    "dragoman_container_memory_limit_bytes": "limit",
    _COMPUTE: "compute",
}
_UNSERVED = "dragoman_node_containers_unserved"

_OF_CARDS = {
    "hami_host_gpu_memory_used_bytes": "memory",
    "hami_host_gpu_utilization_ratio": "compute",
}

_READ = (*_OF_CONTAINERS, *_OF_CARDS, _UNSERVED)

_LARGEST = 2.0**63


@dataclass(frozen=True, slots=True)
class Use:
    """What is in use; None where nothing reports it.

    Attributes:
        memory: bytes.
        compute: percent of one card.
    """

    memory: int | None = None
    compute: int | None = None


UNKNOWN = Use()


@dataclass(frozen=True, slots=True)
class ContainerReport:
    """One container on one card; amounts are None where nothing reports them.

    Attributes:
        pod: ``namespace/name``.
        card: the first 40 characters of its uuid.
        granted: bytes that the agent read in the ledger.
        used: bytes.
        limit: bytes to which HAMi-core limits it; 0 for no limit.
        compute: percent of one card that it uses.
    """

    pod: str
    container: str
    card: str
    granted: int | None = None
    used: int | None = None
    limit: int | None = None
    compute: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node.

    Attributes:
        containers: with a grant or a record.
        cards: what the driver reports, by the first 40 characters of the uuid.
        unserved: containers that run without their share.
    """

    containers: tuple[ContainerReport, ...] = ()
    cards: Mapping[str, Use] = field(default_factory=dict)
    unserved: int = 0


@dataclass(frozen=True, slots=True)
class AgentReports:
    """All nodes whose agent was read.

    Attributes:
        nodes: by name.
        unread: why others were not, as sentences.
    """

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def card(self, node: str, uuid: str) -> Use:
        """Return what a card has in use."""
        report = self.nodes.get(node)
        return UNKNOWN if report is None else report.cards.get(short(uuid), UNKNOWN)

    def pod(self, node: str, pod: str) -> Use:
        """Return what the containers of a pod use of all cards."""
        report = self.nodes.get(node, NodeReport())
        return total(Use(each.used, each.compute) for each in report.containers if each.pod == pod)


NO_REPORTS = AgentReports()


def total(uses: Iterator[Use]) -> Use:
    """Return the sums of what is known; None where nothing is."""
    every = list(uses)
    memory = [use.memory for use in every if use.memory is not None]
    compute = [use.compute for use in every if use.compute is not None]
    return Use(sum(memory) if memory else None, sum(compute) if compute else None)


def short(uuid: str) -> str:
    """Return a card's uuid as the metrics have it."""
    return uuid[:_UUID]


def parse(text: str, node: str) -> NodeReport:
    """Return the report of a node in a text of metrics; what it says of another node is left out.

    Amounts below zero and what is no number are left out too, and those beyond 64 bits count as
    the largest: containers can write them.

    Raises:
        ValueError: the text is no exposition of a node agent.
    """
    containers: dict[tuple[str, str, str], dict[str, int]] = {}
    cards: dict[str, dict[str, int]] = {}
    unserved = 0
    for sample in _samples(text):
        labels = sample.labels
        value = sample.value * FULL if sample.name == _COMPUTE else sample.value
        if not value >= 0 or labels.get("node", node) != node:
            continue
        amount = round(min(value, _LARGEST))
        if sample.name in _OF_CONTAINERS:
            pod = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
            place = pod, labels.get("container", ""), labels.get("uuid", "")
            containers.setdefault(place, {})[_OF_CONTAINERS[sample.name]] = amount
        elif sample.name in _OF_CARDS:
            cards.setdefault(labels.get("device_uuid", ""), {})[_OF_CARDS[sample.name]] = amount
        elif sample.name == _UNSERVED:
            unserved = amount
    return NodeReport(
        tuple(
            ContainerReport(pod, name, card, **amounts)
            for (pod, name, card), amounts in sorted(containers.items())
        ),
        {uuid: Use(**amounts) for uuid, amounts in cards.items()},
        unserved,
    )


def _samples(text: str) -> "Iterator[Sample]":
    """Yield the samples that are read; the parser is slow, so that it gets no other line."""
    # Imported here: most commands ask no agent.
    from prometheus_client.parser import text_string_to_metric_families

    lines = [line for line in text.split("\n") if line.startswith(_READ)]
    if not lines:
        raise ValueError("none is a node agent's")
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            yield from family.samples
    except (OverflowError, KeyError, IndexError) as error:  # as the parser raises them for garbage
        raise ValueError(str(error)) from error


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
