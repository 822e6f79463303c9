"""``dragoman doctor``: all checks, and what their findings mean for the exit status."""

from collections.abc import Callable, Iterator

from adapters.cli.doctor.checks import (
    agents,
    certificates,
    claim_schedulers,
    claims,
    cluster,
    device_plugins,
    injectors,
    permissions,
    renamed_resources,
    schedulers,
    service,
    unread_settings,
    webhooks,
)
from adapters.cli.doctor.finding import CheckResult, FindingLevel
from adapters.cli.doctor.observed import Observed

CLEAN, FOUND = 0, 1
"""Exit status: all is as it must be; or there is a warning or an error."""

CHECKS: tuple[Callable[[Observed], Iterator[CheckResult]], ...] = (
    cluster.check,
    service.check,
    schedulers.check,
    webhooks.check,
    renamed_resources.check,
    unread_settings.check,
    certificates.check,
    permissions.check,
    agents.check,
    injectors.check,
    device_plugins.check,
    claims.check,
    claim_schedulers.check,
)


def examine(seen: Observed) -> list[CheckResult]:
    """The findings of all checks, in the order in which a reader needs them."""
    return [finding for check in CHECKS for finding in check(seen)]


def exit_status(findings: list[CheckResult]) -> int:
    """0 where every finding is ``OK``, else 1."""
    return CLEAN if all(each.level is FindingLevel.OK for each in findings) else FOUND
