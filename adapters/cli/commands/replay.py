"""``dragoman replay``: arguments and exit status."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adapters.cli.commands.exit_status import bad_input
from adapters.cli.commands.listings import ListFormat, NoHeaders, Output, Sort
from adapters.cli.commands.options import AllNamespaces, OnlyNamespace, PolicyOption, chosen_policy

DIFFERENT = 1
"""Exit status where a decision differs."""

_POLICY = "binpack or spread, for pods that set none, in place of the recorded one."


def replay(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="As decisions.record of the service made it.",
            show_default=False,
        ),
    ] = None,
    filename: Annotated[
        Path | None, typer.Option("-f", "--filename", metavar="FILE", help="The same.")
    ] = None,
    node_policy: Annotated[
        PolicyOption | None, typer.Option(metavar="POLICY", help=_POLICY)
    ] = None,
    device_policy: Annotated[
        PolicyOption | None, typer.Option(metavar="POLICY", help=_POLICY)
    ] = None,
    namespace: OnlyNamespace = None,
    all_namespaces: AllNamespaces = False,
    output: Output = None,
    sort: Sort = None,
    no_headers: NoHeaders = False,
) -> None:
    """Make recorded decisions again, and list those that differ.

    Each decision is made on the ledgers, the request and the policy that it was made on. With the
    recorded policies all are equal; another version or policy shows what it would change.

    Example: dragoman replay decisions.jsonl --device-policy binpack

    Exit status: 0 all decisions are equal, 1 some differ, 2 bad input.
    """
    from adapters.cli.input.source import InputError
    from adapters.cli.output.message import message
    from adapters.cli.output.rows import RowFormat, formatted
    from adapters.cli.replay.differences import listing
    from adapters.cli.replay.recording_file import lines
    from adapters.cli.replay.replayer import Replayed, Replayer, ReplayError
    from adapters.cli.view.listing import of_namespace
    from adapters.cli.view.listing import sort as sorted_by
    from adapters.dialects.dialect import Defaults, DialectError
    from adapters.wire.records.ledger import LedgerRecordError

    recording = file or filename
    if recording is None or (file and filename):
        raise typer.BadParameter("pass one", param_hint="FILE")
    replayer = Replayer(Defaults(chosen_policy(node_policy), chosen_policy(device_policy)))
    count = 0
    different: list[Replayed] = []
    with bad_input():
        try:
            for each in replayer.replay(lines(recording, partial(message, "warning"))):
                count += 1
                if each.before != each.after:
                    different.append(each)
        except (ReplayError, DialectError, LedgerRecordError) as error:
            raise InputError(str(recording), str(error)) from error
        only = None if all_namespaces else namespace
        rows = sorted_by(of_namespace(listing(different), only), sort)
    chosen = None if output is None else RowFormat(output.value)
    headers = not no_headers
    typer.echo(formatted(rows.kind, rows.columns, rows.rows, chosen, headers=headers), nl=False)
    if headers and output in (None, ListFormat.WIDE):
        typer.echo(f"\n{count} decisions replayed, {len(rows.rows)} differ")
    if rows.rows:
        raise typer.Exit(DIFFERENT)
