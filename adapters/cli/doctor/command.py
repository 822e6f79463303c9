"""``dragoman doctor``: all checks, and what their findings mean for the exit status."""

from collections.abc import Callable, Iterator

from adapters.cli.doctor.checks import (
    agents,
    certificates,
    cluster,
    device_plugins,
    permissions,
    schedulers,
    service,
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
    webhooks.check_resources,
    service.check_device_configuration,
    certificates.check,
    permissions.check,
    agents.check,
    device_plugins.check_components,
    device_plugins.check,
    cluster.check_claims,
    permissions.check_claim_schedulers,
)


def examine(seen: Observed) -> list[CheckResult]:
    """The findings of all checks, in the order in which a reader needs them."""
    return [finding for check in CHECKS for finding in check(seen)]


def exit_status(findings: list[CheckResult]) -> int:
    """0 where every finding is ``OK``, else 1."""
    return CLEAN if all(each.level is FindingLevel.OK for each in findings) else FOUND
