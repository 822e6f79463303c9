"""Containers that do not have what was allocated to them, as the agent of their node reports."""

from collections.abc import Iterator

from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.fleet.fleet import NodeState
from adapters.wire.agent_report import ContainerReport, NodeReport, short
from core.hardware.quantity import format_gib


def container_findings(state: NodeState, report: NodeReport) -> Iterator[Finding]:
    """Everything that is wrong in the containers of one node."""
    node = state.node.name
    if report.unserved:
        what = "1 container runs" if report.unserved == 1 else f"{report.unserved} containers run"
        text = f"{what} without the granted devices; Events ShareMissing name the pods"
        yield Finding(RULES["container-without-share"], text, node=node)
    sizes = {short(card.uuid): (card.uuid, card.memory) for card in state.node.cards}
    for each in report.containers:
        if each.card in sizes:
            yield from _of_container(each, node, *sizes[each.card])


def _of_container(
    container: ContainerReport, node: str, uuid: str, memory: int
) -> Iterator[Finding]:
    granted = container.granted
    if granted is None:
        return
    name = f"container {container.container}"
    limit, used = container.limit, container.used
    if limit is not None and (limit > granted or (limit == 0 and granted < memory)):
        until = f"{format_gib(limit)} GiB" if limit else "no limit"
        text = f"{name}: HAMi-core has {until}, the ledger grants {format_gib(granted)} GiB"
        rule = RULES["limit-above-grant"]
        yield Finding(rule, text, node=node, card=uuid, pod=container.pod)
    if used is not None and used > granted:
        text = f"{name} uses {format_gib(used)} GiB, the ledger grants {format_gib(granted)} GiB"
        rule = RULES["use-above-grant"]
        yield Finding(rule, text, node=node, card=uuid, pod=container.pod)
