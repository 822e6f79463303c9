"""The findings, for people and for programs."""

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adapters.cli.doctor.finding import CheckResult, FindingLevel

_STYLES = {FindingLevel.OK: "green", FindingLevel.WARNING: "yellow", FindingLevel.ERROR: "bold red"}


def as_json(findings: list[CheckResult]) -> str:
    """One object: counts of the levels, and all findings."""
    counts = {level.value: sum(each.level is level for each in findings) for level in FindingLevel}
    body = msgspec.json.encode({"counts": counts, "findings": findings})
    return msgspec.json.format(body, indent=2).decode()


def show(findings: list[CheckResult], console: Console) -> None:
    """A line for each finding, with its remedy below it."""
    table = Table(box=None, pad_edge=False, show_header=False, show_edge=False)
    table.add_column("level", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("text", overflow="fold", ratio=1)
    for each in findings:
        text = Text(each.text)
        if each.remedy:
            text.append(f"\n→ {each.remedy}", style="grey50")
        table.add_row(Text(each.level.value, style=_STYLES[each.level]), each.check, text)
    console.print(table)
    errors = sum(each.level is FindingLevel.ERROR for each in findings)
    warnings = sum(each.level is FindingLevel.WARNING for each in findings)
    console.print(f"{errors} errors, {warnings} warnings, {len(findings)} findings")
