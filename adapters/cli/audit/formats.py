"""The audit's report as a table, JSON, SARIF or JUnit.

Sources: SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), section 3; JUnit XML as Jenkins and
GitLab read it (testsuites, testsuite, testcase, failure).
"""

from importlib.metadata import version
from itertools import groupby
from xml.etree import ElementTree

from adapters.cli.audit.audit import AuditReport
from adapters.cli.audit.finding import RULES, Finding, Rule
from adapters.cli.output.encoded import as_json
from adapters.cli.output.rows import Column, Row, table
from adapters.wire.visible import visible

_COLUMNS = (
    Column("LEVEL"),
    Column("RULE"),
    Column("NODE"),
    Column("CARD", wide=True),
    Column("POD"),
    Column("FINDING"),
)
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


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


def to_sarif(report: AuditReport) -> str:
    """SARIF for code scanning."""
    positions = {rule: number for number, rule in enumerate(RULES)}
    driver = {
        "name": "dragoman",
        "version": version("dragoman"),
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.title},
                "help": {"text": rule.remedy},
                "defaultConfiguration": {"level": rule.level.value},
            }
            for rule in RULES.values()
        ],
    }
    results = [
        {
            "ruleId": finding.rule.id,
            "ruleIndex": positions[finding.rule.id],
            "level": finding.rule.level.value,
            "message": {"text": sentence(finding)},
            "locations": [_location(finding)],
        }
        for finding in report.findings
    ]
    run = {"tool": {"driver": driver}, "results": results}
    return as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def to_junit(report: AuditReport) -> str:
    """One test case for each rule; it fails with its findings."""
    by_rule = {
        rule: list(findings)
        for rule, findings in groupby(report.findings, key=lambda each: each.rule)
    }
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="dragoman audit",
        tests=str(len(RULES)),
        failures=str(len(by_rule)),
        errors="0",
    )
    for rule in RULES.values():
        case = ElementTree.SubElement(suite, "testcase", classname="dragoman.audit", name=rule.id)
        if rule in by_rule:
            _failure(case, rule, by_rule[rule])
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return f"{text.decode()}\n"


def sentence(finding: Finding) -> str:
    """The finding with the objects that it concerns."""
    named = (("node", finding.node), ("card", finding.card), ("pod", finding.pod))
    where = ", ".join(f"{kind} {name}" for kind, name in named if name)
    return f"{where}: {finding.text}" if where else finding.text


def _failure(case: ElementTree.Element, rule: Rule, findings: list[Finding]) -> None:
    message = f"{_count(len(findings), 'finding')}: {rule.title}"
    failure = ElementTree.SubElement(case, "failure", type=rule.level.value, message=message)
    failure.text = "\n".join(visible(sentence(finding)) for finding in findings)


def _location(finding: Finding) -> dict[str, object]:
    path = [
        f"{kind}/{name}"
        for kind, name in (("node", finding.node), ("card", finding.card), ("pod", finding.pod))
        if name
    ]
    location: dict[str, object] = {
        "logicalLocations": [{"fullyQualifiedName": "/".join(path) or "cluster"}]
    }
    if finding.line:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": finding.file},
            "region": {"startLine": finding.line},
        }
    return location


def _cells(finding: Finding) -> tuple[str, ...]:
    rule = finding.rule
    text = finding.text
    return rule.level.value, rule.id, finding.node, finding.card, finding.pod, text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
