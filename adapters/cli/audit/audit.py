"""Apply all rules to a cluster, and print the findings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from adapters.accounting.gang_members import named
from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.audit.node_rules import container_findings, node_findings
from adapters.cli.fleet.facts import counted, plugin_devices
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputLocation
from adapters.cli.output.rows import Column, Row, table
from adapters.dialects.adoption import may_use_cards
from adapters.dialects.dialect import DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod, full_name
from core.quota.amounts import text as amount_text

NAMED = 5
"""Pods that a finding names, at most."""

_COLUMNS = (
    Column("LEVEL"),
    Column("RULE"),
    Column("NODE"),
    Column("CARD", wide=True),
    Column("POD"),
    Column("FINDING"),
)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit.

    Attributes:
        findings: in the order of the rules, then of the nodes.
        nodes: how many were looked at.
        cards: how many.
        pods: how many have cards.
    """

    findings: tuple[Finding, ...]
    nodes: int
    cards: int
    pods: int


def audit(manifests: Manifests, fleet: Fleet, ignored: Sequence[str] = ()) -> AuditReport:
    """Look for everything that is wrong.

    Args:
        manifests: what the fleet was read from, for the places of findings in files.
        fleet: the cluster.
        ignored: ids of rules without findings.
    """
    order = {rule: position for position, rule in enumerate(RULES)}
    found = [
        _placed(finding, manifests)
        for finding in _findings(fleet)
        if finding.rule.id not in ignored
    ]
    return AuditReport(
        findings=tuple(sorted(dict.fromkeys(found), key=lambda each: order[each.rule.id])),
        nodes=len(fleet.nodes),
        cards=sum(len(state.node.cards) for state in fleet.nodes.values()),
        pods=sum(len(state.ledger.allocations) for state in fleet.nodes.values()),
    )


def in_namespace(report: AuditReport, namespace: str) -> AuditReport:
    """The findings that concern pods of one namespace."""
    kept = (
        finding
        for finding in report.findings
        if namespace in finding.namespaces or finding.pod.startswith(f"{namespace}/")
    )
    return replace(report, findings=tuple(kept))


def as_table(report: AuditReport, *, headers: bool, wide: bool) -> str:
    """One line for each finding, the remedy of each rule, and a summary."""
    rows = []
    for each in report.findings:
        level, rule = each.rule.level.value, each.rule.id
        rows.append(Row(rule, (level, rule, each.node, each.card, each.pod, each.text), {}))
    parts = [table(_COLUMNS, rows, wide=wide, headers=headers)] if rows else []
    if headers:
        remedies = dict.fromkeys(finding.rule for finding in report.findings)
        if remedies:
            parts.append("".join(f"{rule.id}: {rule.remedy}\n" for rule in remedies))
        looked = (
            f"{_count(report.nodes, 'node')}, {_count(report.cards, 'card')},"
            f" {_count(report.pods, 'pod')} with cards"
        )
        number = _count(len(report.findings), "finding") if report.findings else "no findings"
        parts.append(f"{looked}: {number}\n")
    return "\n".join(parts)


def as_plain(report: AuditReport) -> dict[str, object]:
    """The ``AuditReport``, for JSON and YAML."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "AuditReport",
        "nodes": report.nodes,
        "cards": report.cards,
        "pods": report.pods,
        "findings": [
            {
                "rule": finding.rule.id,
                "level": finding.rule.level.value,
                "node": finding.node or None,
                "card": finding.card or None,
                "pod": finding.pod or None,
                "text": finding.text,
                "file": finding.file or None,
                "line": finding.line or None,
            }
            for finding in report.findings
        ],
    }


def _findings(fleet: Fleet) -> Iterator[Finding]:
    yield from (Finding(RULES["node-description"], problem) for problem in fleet.problems)
    for name, state in fleet.nodes.items():
        yield from node_findings(name, state, fleet)
        if name in fleet.agents.nodes:
            yield from container_findings(state, fleet.agents.nodes[name])
    for name, stated in plugin_devices(fleet).nodes.items():
        for problem in stated.problems:
            yield Finding(RULES["device-plugin-labels"], problem, node=name)
    yield from _quota_findings(fleet)
    yield from _gang_findings(fleet)
    for name in fleet.unused_ledgers:
        text = "no node has its name"
        yield Finding(RULES["ledger-without-node"], text, node=name)
    for pod in fleet.pods.values():
        node = pod.spec.node_name or ""
        if may_use_cards(pod) and node not in fleet.nodes and _requests(pod, fleet):
            text = f"is bound to {node}, which does not exist"
            yield Finding(RULES["pod-on-unknown-node"], text, node=node, pod=full_name(pod))


def _quota_findings(fleet: Fleet) -> Iterator[Finding]:
    ledgers = (state.ledger for state in fleet.nodes.values())
    for namespace, quota in counted(fleet.quotas, ledgers).items():
        used = quota.used()
        for name, limit, amount in quota.bounds.with_amounts(used):
            if limit is not None and amount > limit:
                have, allowed = amount_text(name, amount), amount_text(name, limit)
                text = f"namespace {namespace}: {name}: {have} of {allowed} are in use"
                yield Finding(RULES["quota-exceeded"], text, namespaces=frozenset({namespace}))


def _gang_findings(fleet: Fleet) -> Iterator[Finding]:
    """Gangs of which fewer pods are bound than are bound together, while others wait for cards."""
    for gang in fleet.gangs().bound_in_part():
        waiting = [pod for pod in gang.pods if not pod.spec.node_name]
        if not any(_requests(pod, fleet) for pod in waiting):
            continue
        bound = len(gang.pods) - len(waiting)
        names = sorted(map(full_name, waiting))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        text = (
            f"{named(gang)}: {bound} {'pod is' if bound == 1 else 'pods are'} bound;"
            f" {', '.join(names[:NAMED])}{more} {'wait' if len(names) > 1 else 'waits'}"
        )
        namespaces = frozenset(part.ref.namespace for part in gang.parts)
        yield Finding(RULES["gang-bound-in-part"], text, pod=names[0], namespaces=namespaces)


def _requests(pod: Pod, fleet: Fleet) -> bool:
    try:
        return dialect_of(pod, fleet.dialects) is not None
    except DialectError:
        return True


def _placed(finding: Finding, manifests: Manifests) -> Finding:
    """A finding with the place of its pod, else of its node, where it comes from a file."""
    place: InputLocation | None = None
    if finding.pod in manifests.pods:
        place = manifests.pods[finding.pod][1]
    elif finding.node in manifests.nodes:
        place = manifests.nodes[finding.node][1]
    if place is None or not place.line:
        return finding
    return replace(finding, file=place.file, line=place.line)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
