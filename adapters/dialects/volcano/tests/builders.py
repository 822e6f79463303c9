"""Pods, nodes and settings of Volcano for tests."""

from collections.abc import Mapping, Sequence

from adapters.dialects.dialect import Defaults, Documents
from adapters.dialects.merge import read_node
from adapters.dialects.tests import pods
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.dialect import Volcano
from adapters.wire.kube import (
    Amount,
    Container,
    KubeNode,
    Metadata,
    NodeStatus,
    Pod,
    Resources,
)
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason

A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"
NOW = 1_700_000_000_123_456_789


def a_container(
    name: str = "main",
    *,
    number: Amount | None = None,
    memory: Amount | None = None,
    percent: Amount | None = None,
    cores: Amount | None = None,
    restart_policy: str | None = None,
    others: Mapping[str, Amount] | None = None,
) -> Container:
    named = {
        keys.COUNT: number,
        keys.MEMORY: memory,
        keys.MEMORY_PERCENT: percent,
        keys.CORES: cores,
        **(others or {}),
    }
    limits = {key: amount for key, amount in named.items() if amount is not None}
    return Container(name, Resources(limits), restart_policy)


def a_pod(
    *containers: Container,
    name: str = "p",
    init: Sequence[Container] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    priority: int | None = None,
) -> Pod:
    return pods.a_pod(
        containers,
        annotations,
        init,
        labels=labels,
        priority=priority,
        name=name,
        namespace="team",
    )


def entry(
    uuid: str = "u0",
    *,
    count: str = "10",
    memory: str = "40960",
    card_type: str = A100,
    health: str = "true",
    mode: str = keys.HAMI_CORE,
) -> str:
    return f"{uuid},{count},{memory},{card_type},{health},{mode}:"


def idle(count: int) -> str:
    return "".join(entry(f"u{index}") for index in range(count))


def a_kube_node(
    register: str, *, name: str = "node-1", allocatable: Mapping[str, Amount] | None = None
) -> KubeNode:
    return KubeNode(
        metadata=Metadata(name=name, annotations={keys.REGISTER: register}),
        status=NodeStatus(allocatable=dict(allocatable or {})),
    )


def volcano(
    device: Mapping[str, object] | None = None,
    arguments: Mapping[str, object] | None = None,
    defaults: Defaults | None = None,
) -> Volcano:
    settings: dict[tuple[str, str], object] = {}
    if device is not None:
        settings[keys.DEVICE_CONFIG] = {"nvidia": device}
    if arguments is not None:
        settings[keys.SCHEDULER_CONFIG] = {
            "tiers": [{"plugins": [{"name": "deviceshare", "arguments": arguments}]}]
        }
    return configured(settings, defaults)


def configured(settings: Documents, defaults: Defaults | None = None) -> Volcano:
    return Volcano.configured(settings, defaults or Defaults())


def a_node(register: str, dialect: Volcano | None = None, name: str = "node-1") -> Node:
    found, _ = read_node(a_kube_node(register, name=name), None, [dialect or volcano()])
    return found


def place(
    ledger: NodeLedger, requested: Pod, dialect: Volcano | None = None
) -> tuple[NodeLedger, Placement | Reason]:
    """Place a pod and enter its allocation in the ledger."""
    request = (dialect or volcano()).read_request(requested)
    answer = fit(request, ledger)
    if isinstance(answer, Reason):
        return ledger, answer
    return ledger.reserve(Allocation.of(request, answer)), answer


def written(
    dialect: Volcano, requested: Pod, placement: Placement, on: Node, now: int = NOW
) -> Mapping[str, str]:
    """The annotations of a placement."""
    request = dialect.read_request(requested)
    return dialect.write_result(requested, request, placement, on, now).annotations


def assigned(dialect: Volcano, ledger: NodeLedger, *pods: Pod) -> list[str]:
    """The annotation of assigned devices of pods in sequence; for a rejected pod the reason."""
    lines: list[str] = []
    for requested in pods:
        ledger, answer = place(ledger, requested, dialect)
        lines.append(
            answer.text()
            if isinstance(answer, Reason)
            else written(dialect, requested, answer, ledger.node)[keys.ASSIGNED]
        )
    return lines
