"""The node agents: whether each node with cards has one, and NRI."""

import re
from collections.abc import Iterator

from msgspec import UNSET

from adapters.cli.configure.options import NAMES
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import ProgramNode, ProgramPod, Workload
from adapters.cli.doctor.observed import AGENT, Observed, nodes_with_cards
from adapters.dialects.device_plugins import plugin_share

CHECK = "agents"

NRI_BY_DEFAULT = (2, 0)
"""The first containerd with NRI enabled; 1.7 has it disabled. Source: containerd RELEASES.md."""

NRI_SINCE = (1, 7)


def check(seen: Observed) -> Iterator[CheckResult]:
    """The DaemonSet, and each node that needs an agent and has none that is ready."""
    agents = seen.agents()
    if not agents:
        if "daemonsets" not in seen.unreadable:
            yield error(
                CHECK,
                f"no DaemonSet has the labels of the chart's component {AGENT}",
                "helm upgrade with node.enabled=true; without the agent, containers with a share"
                " see no card",
            )
        return
    for each in agents:
        ready, wanted = each.status.number_ready, each.status.desired_number_scheduled
        text = f"{ready} of {wanted} agents of {each.metadata.namespace}/{each.metadata.name}"
        logs = f"kubectl -n {each.metadata.namespace} describe pods, and the log of the agent"
        nowhere = "see the nodeSelector and the affinity of node in the values"
        if ready >= wanted > 0:
            yield ok(CHECK, f"{text} are ready")
        else:
            yield warning(CHECK, f"{text} are ready", logs if wanted else nowhere)
    if "pods" in seen.unreadable:
        return
    pods = {pod.spec.node_name: pod for pod in seen.pods if is_agent(pod, agents)}
    reported = {each.metadata.name for each in seen.ledgers if each.status is not UNSET}
    described = nodes_with_cards(seen)
    # no vendor's device plugin serves these by itself
    shares = [name for name in NAMES if plugin_share(name) is None]
    for node in seen.nodes:
        amounts = node.status.allocatable or {}
        states_shares = any(str(amounts.get(name, "0")) != "0" for name in shares)
        if node.metadata.name in described or states_shares:
            yield from _node(node, pods.get(node.metadata.name), reported)


def _node(node: ProgramNode, agent: ProgramPod | None, reported: set[str]) -> Iterator[CheckResult]:
    name, runtime = node.metadata.name, node.status.node_info.container_runtime_version
    if agent is None:
        yield error(
            CHECK,
            f"node {name} states cards, and no agent runs there",
            "see the nodeSelector, affinity and tolerations of node in the values",
        )
    elif not agent.ready:
        yield error(
            CHECK,
            f"the agent {agent.name} on node {name} is not ready ({runtime})",
            f"kubectl -n {agent.metadata.namespace} logs {agent.metadata.name}. {_nri(runtime)}",
        )
    elif name not in reported:
        yield warning(
            CHECK,
            f"the agent on node {name} has reported no cards in the NodeLedger's status",
            "see its log; publish.enabled in node's values may be off",
        )


def _nri(runtime: str) -> str:
    program, _, text = runtime.partition("://")
    found = re.match(r"v?(\d+)\.(\d+)", text)
    version = tuple(map(int, found.groups())) if found else ()
    if program != "containerd":
        return f"NRI must be enabled in {program or 'the runtime'}"
    if version < NRI_SINCE:
        return "NRI needs containerd 1.7 or later"
    if version < NRI_BY_DEFAULT:
        return "NRI is disabled in containerd 1.7 unless its configuration enables it"
    return "See that containerd's configuration does not disable NRI"


def is_agent(pod: ProgramPod, agents: list[Workload]) -> bool:
    """Whether a pod is of one of the agents' DaemonSets."""
    names = [(each.metadata.namespace, each.metadata.name) for each in agents]
    return any(
        pod.metadata.namespace == namespace and pod.metadata.name.startswith(f"{name}-")
        for namespace, name in names
    )
