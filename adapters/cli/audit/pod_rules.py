"""What is wrong with one pod: its record, and its containers as the agent reports them."""

from collections.abc import Iterator, Sequence

from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.fleet.fleet import NodeState
from adapters.dialects import registry
from adapters.dialects.adoption.adopt import disagreements
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.agent_report import ContainerReport, NodeReport, short
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.node import Node
from core.hardware.quantity import format_gib


def has_record(pod: Pod) -> bool:
    """Whether a pod has any annotation by which some scheduler records cards."""
    return bool(registry.own_records(annotations(pod).keys()))


def edited_record(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Compare a bound pod's record with its request; see ``disagreements``."""
    for text in disagreements(pod, node, dialects):
        yield Finding(RULES["edited-record"], text, node=node.name, pod=full_name(pod))


def record_without_request(pod: Pod, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """A pod that no dialect takes for its own, and that has a record of one of them."""
    try:
        if not has_record(pod) or dialect_of(pod, dialects) is not None:
            return
    except DialectError:
        return
    keys = sorted(registry.own_records(annotations(pod).keys()))
    yield Finding(
        RULES["record-without-request"],
        f"has {', '.join(keys)} and requests no share",
        node=pod.spec.node_name or "",
        pod=full_name(pod),
    )


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
