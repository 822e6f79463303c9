"""What a check found, for people and for programs."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from adapters.cli.output.page import BREAK, Row, TextColumn, TextPage, span


class FindingLevel(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report.

    Attributes:
        check: the subject, such as ``webhooks``.
        level: how bad it is.
        text: what is so, with the names of the objects.
        remedy: what to do; empty where the level is ``OK``.
    """

    check: str
    level: FindingLevel
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> CheckResult:
    """Something is as it must be."""
    return CheckResult(check, FindingLevel.OK, text)


def warning(check: str, text: str, remedy: str) -> CheckResult:
    """Something may be wrong, or could not be checked."""
    return CheckResult(check, FindingLevel.WARNING, text, remedy)


def error(check: str, text: str, remedy: str) -> CheckResult:
    """Something is wrong."""
    return CheckResult(check, FindingLevel.ERROR, text, remedy)


_STYLES = {FindingLevel.OK: "green", FindingLevel.WARNING: "yellow", FindingLevel.ERROR: "bold red"}
_FIXED = TextColumn(folds=False)


def as_plain(findings: list[CheckResult]) -> dict[str, Any]:
    """One object, for JSON and YAML: counts of the levels, and all findings."""
    counts = {level.value: sum(each.level is level for each in findings) for level in FindingLevel}
    return {"counts": counts, "findings": msgspec.to_builtins(findings)}


def show(findings: list[CheckResult], page: TextPage) -> None:
    """Return a line for each finding, with its remedy below it."""
    rows: list[Row] = []
    for each in findings:
        remedy = (BREAK, (f"→ {each.remedy}", "grey50")) if each.remedy else ()
        level = span(each.level.value, _STYLES[each.level])
        rows.append((level, span(each.check), ((each.text, ""), *remedy)))
    page.table((_FIXED, _FIXED, TextColumn()), rows)
    levels = [each.level for each in findings]
    counts = {
        "error": levels.count(FindingLevel.ERROR),
        "warning": levels.count(FindingLevel.WARNING),
        "finding": len(levels),
    }
    page.line(span(", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items())))
