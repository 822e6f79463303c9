"""The allocated claims of our driver, whose pods need the driver until they have ended.

While the driver is away, the kubelet neither starts such a pod nor lets it finish terminating
(kubernetes/kubernetes#129402).
"""

from collections.abc import Iterator

from adapters.cli.doctor.finding import CheckResult, error, ok
from adapters.cli.doctor.observed import Observed
from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.claims import allocated

CHECK = "claims"

CONTAINER = "dra-driver"
"""The driver's container in the agents' DaemonSet (charts/dragoman/templates/node.yaml)."""


def check(seen: Observed) -> Iterator[CheckResult]:
    """Claims of our driver, with and without an agent that runs it."""
    found = [each for each in map(allocated, seen.claims) if each is not None]
    names = sorted(
        each.name for each in found if any(result.driver == DRIVER for result in each.results)
    )
    if not names or "daemonsets" in seen.unreadable:
        return
    count = f"claims with devices of {DRIVER} are allocated ({len(names)}, such as {names[0]})"
    if any(
        container.name == CONTAINER
        for agent in seen.agents()
        for container in agent.spec.template.spec.containers
    ):
        yield ok(CHECK, f"{count}; their pods must end before dra.driver is turned off")
        return
    yield error(
        CHECK,
        f"{count}, and no agent runs the driver: their pods neither start nor finish terminating",
        "set dra.driver.enabled=true until these pods have ended",
    )
