"""The table of a run on standard output, for a terminal or for another program."""

from dataclasses import replace

from rich.console import Console

from adapters.cli.output.report import ScheduleReport
from adapters.cli.output.table import show_report

UNLIMITED = 1 << 16
"""Columns of a line that never wraps."""


def shown_on_terminal(report: ScheduleReport) -> bool:
    """Show the table and the warnings if standard output is a terminal; False if it is not."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        return False
    show_report(report, console)
    return True


def unwrapped(report: ScheduleReport) -> str:
    """The table for another program: lines have any length, and no blanks at their end.

    It has no warnings: these are on standard error.
    """
    report = replace(report, warnings=())
    console = Console(highlight=False, emoji=False, markup=False, width=UNLIMITED)
    with console.capture() as captured:
        show_report(report, console)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
