"""What a check found."""

from dataclasses import dataclass
from enum import Enum


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
