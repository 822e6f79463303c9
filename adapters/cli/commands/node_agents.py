"""What the node agents report, for the commands that show it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.cli.fleet.fleet import Fleet
    from adapters.cli.input.agent_report import AgentReports
    from adapters.cli.input.origin import Origin


def agents_of(origin: "Origin", fleet: "Fleet") -> "AgentReports":
    """Ask all node agents; standard error names those that cannot be read.

    Raises:
        InputError: the kubeconfig cannot be used.
    """
    from adapters.cli.output.message import message

    reports = origin.agents(fleet.pods.values())
    for sentence in reports.unread:
        message("note", sentence)
    return reports
