"""The audit's report as a table, and as what JSON and YAML say."""

from adapters.cli.audit.audit import AuditReport
from adapters.cli.audit.finding import Finding
from adapters.cli.output.rows import Column, Row, table

_COLUMNS = (
    Column("LEVEL"),
    Column("RULE"),
    Column("NODE"),
    Column("CARD", wide=True),
    Column("POD"),
    Column("FINDING"),
)


def as_table(report: AuditReport, *, headers: bool, wide: bool) -> str:
    """One line for each finding, the remedy of each rule, and a summary."""
    rows = [Row(finding.rule.id, _cells(finding), {}) for finding in report.findings]
    parts = [table(_COLUMNS, rows, wide=wide, headers=headers)] if rows else []
    if headers:
        remedies = dict.fromkeys(finding.rule for finding in report.findings)
        if remedies:
            parts.append("".join(f"{rule.id}: {rule.remedy}\n" for rule in remedies))
        parts.append(f"{summary(report)}\n")
    return "\n".join(parts)


def summary(report: AuditReport) -> str:
    """What was looked at, and how much was found."""
    looked = (
        f"{_count(report.nodes, 'node')}, {_count(report.cards, 'card')},"
        f" {_count(report.pods, 'pod')} with cards"
    )
    if not report.findings:
        return f"{looked}: no findings"
    return f"{looked}: {_count(len(report.findings), 'finding')}"


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


def _cells(finding: Finding) -> tuple[str, ...]:
    rule = finding.rule
    text = finding.text
    return rule.level.value, rule.id, finding.node, finding.card, finding.pod, text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
