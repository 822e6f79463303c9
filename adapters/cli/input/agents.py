"""Asks the node agents through the API server, which forwards the request to their pods.

Needs ``get`` on ``pods/proxy``. Without a port in the path the API server takes the first one of
the pod's containers, which is that of the metrics (pkg/registry/core/pod/strategy.go).
"""

from asyncio import Semaphore, gather
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from adapters.cli.input.agent_report import AgentReports
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import PODS
from adapters.cluster.api.transport import Timeouts
from adapters.wire.agent_pod import LABELS
from adapters.wire.agent_report import NodeReport, parse
from adapters.wire.kube import Pod

PATIENCE = Timeouts(read=10.0, total=10.0, attempts=1)
"""One try: what an agent reports is worth no long wait."""

_AT_ONCE = 16
_NAMED = 3
"""Nodes that a sentence names."""


def agent_pods(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The running pods with the labels of the chart's agents, by node."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        labels = pod.metadata.labels or {}
        if (
            pod.spec.node_name
            and pod.status.phase == "Running"
            and LABELS.items() <= labels.items()
        ):
            found.setdefault(pod.spec.node_name, []).append(pod)
    return found


async def read_agents(client: KubeClient, agents: Mapping[str, list[Pod]]) -> AgentReports:
    """Read the metrics of the agents, a few at a time; never fails.

    Anyone may give a pod these labels: where two pods of a node have them, none is read.
    """
    turns = Semaphore(_AT_ONCE)

    async def read(pods: list[Pod]) -> NodeReport | str:
        if len(pods) > 1:
            names = " and ".join(f"{each.metadata.namespace}/{each.metadata.name}" for each in pods)
            return f"{names} both have the labels of its agent"
        async with turns:
            return await _read(client, pods[0])

    answers = await gather(*map(read, agents.values()))
    found = {
        node: answer
        for node, answer in zip(agents, answers, strict=True)
        if isinstance(answer, NodeReport)
    }
    problems: dict[str, list[str]] = {}
    for node, answer in zip(agents, answers, strict=True):
        if isinstance(answer, str):
            problems.setdefault(answer, []).append(node)
    return AgentReports(found, tuple(_sentence(text, at) for text, at in problems.items()))


async def _read(client: KubeClient, pod: Pod) -> NodeReport | str:
    path = PODS.path(pod.metadata.name, pod.metadata.namespace, "proxy/metrics")
    try:
        return parse((await client.get(path)).decode(), pod.spec.node_name or "")
    except ClusterError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return f"get on pods/proxy in namespace {pod.metadata.namespace} is forbidden"
        return f"{error.status or error.reason}: {error.message.replace(pod.metadata.name, 'POD')}"
    except ValueError as error:
        return f"its metrics cannot be read: {error}"


def _sentence(problem: str, nodes: list[str]) -> str:
    named = ", ".join(sorted(nodes)[:_NAMED])
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    plural = "s" if len(nodes) > 1 else ""
    return f"cannot read the agent{plural} of node{plural} {named}{more}: {problem}"
