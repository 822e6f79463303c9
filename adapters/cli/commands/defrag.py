"""``dragoman defrag``: arguments and exit status."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.cli.commands import options

if TYPE_CHECKING:
    from adapters.cli.defrag.execution import PlanFile
    from adapters.cli.defrag.planning import Planned

PLANS = {
    "filename": "--filename", "namespace": "--namespace", "pods": "--for",
    "free_nodes": "--free-nodes", "largest_share": "--largest-share", "pool": "--pool",
    "output": "--output", "svg": "--svg", "max_moves": "--max-moves", "states": "--states",
    "seconds": "--seconds",
}  # fmt: skip
"""The options of a plan, which do not go with the file of ``--execute``."""


def defrag(
    command: typer.Context,
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="Of a pod or gang that names none."),
    ] = None,
    pods: Annotated[
        list[str] | None,
        typer.Option(
            "--for", metavar="NAME", help="pod/NAME or gang/NAME that waits; default: all."
        ),
    ] = None,
    free_nodes: Annotated[
        int | None,
        typer.Option("--free-nodes", metavar="N", min=1, help="Empty a number of whole nodes."),
    ] = None,
    largest_share: Annotated[
        str | None,
        typer.Option("--largest-share", metavar="SIZE", help="Free so much of one card, as 40Gi."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool", metavar="POOL", help="KEY=VALUE of a node's label, or a model of cards."
        ),
    ] = None,
    output: Annotated[
        options.DocumentFormat,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml."),
    ] = options.DocumentFormat.TABLE,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw before and after.")
    ] = None,
    max_moves: Annotated[
        int, typer.Option("--max-moves", metavar="N", min=1, help="For one pod or gang, at most.")
    ] = 64,
    states: Annotated[
        int,
        typer.Option("--states", metavar="N", min=1, help="Partial plans to look at for each."),
    ] = 2000,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="N", min=0.1, help="After which the search ends."),
    ] = 60.0,
    execute: Annotated[
        str | None,
        typer.Option(
            "--execute", metavar="[FILE]", help="Carry out a plan of -o yaml or json, or this one."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Of --execute: do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of --execute: only print its steps.")
    ] = False,
) -> None:
    """Plan which pods to move so that others fit; without --execute nothing is changed.

    A moved pod is a deleted one, which its controller creates again. Counts cards, ShareQuota,
    schedulability, nodeSelector, node affinity, taints, CPU and memory, and PodDisruptionBudgets.

    Example: dragoman defrag --for pod/training -n ml

    Exit status: 0 all targets fit, now or after the moves, or the plan was carried out; 1 some do
    not fit, or the plan stopped; 2 bad input or no answer.
    """
    _check_options(command, execute, dry_run=dry_run, yes=yes)
    if execute:
        _execute(execute, kubeconfig, context, dry_run=dry_run)
        return
    from adapters.cli.defrag import goal
    from adapters.cli.defrag.planning import planned
    from adapters.cli.defrag.report import as_object, as_text
    from adapters.cli.fleet.fleet import read_fleet
    from adapters.cli.input.origin import Origin
    from adapters.cli.output.terminal import message, progress
    from adapters.dialects.dialect import Defaults
    from core.moves.make_room import SearchLimits

    chosen = bool(pods) + (free_nodes is not None) + (largest_share is not None)
    if chosen > 1:
        raise typer.BadParameter("pass one of --for, --free-nodes and --largest-share")
    if pool is not None and (pods or not chosen):
        raise typer.BadParameter("is for --free-nodes and --largest-share", param_hint="--pool")
    if pool == "":
        raise typer.BadParameter("is empty", param_hint="--pool")
    if namespace is not None and not pods:
        raise typer.BadParameter("is for --for", param_hint="--namespace")
    with options.bad_input():
        wanted: goal.Goal = goal.PendingPods(tuple(pods or ()), namespace)
        if free_nodes is not None:
            wanted = goal.FreeNodes(free_nodes, pool or "")
        elif largest_share is not None:
            wanted = goal.LargestShare(goal.size(largest_share), pool or "")
        found = Origin(filename or (), kubeconfig, context).read(evictions=True)
        fleet = read_fleet(found, Defaults())
        for warning in fleet.warnings():
            message("warning", warning)
        shown = partial(progress, least=2, verb="Making room for")
        plan = planned(fleet, found, wanted, SearchLimits(max_moves, states), shown, seconds)
        if svg is not None:
            _draw(plan, svg)
    is_table = output is options.DocumentFormat.TABLE
    text = as_text(plan) if is_table else options.document_text(output, as_object(plan))
    typer.echo(text, nl=False)
    if execute is not None and plan.moves:
        count = f"{len(plan.moves)} {'pod' if len(plan.moves) == 1 else 'pods'}"
        if not (dry_run or yes or typer.confirm(f"Evict {count}?", err=True)):
            message("note", "no plan was created")
            raise typer.Exit(1)
        from adapters.cli.defrag.execution import file_of

        with options.bad_input():
            _carry_out(file_of(plan), kubeconfig, context, dry_run=dry_run)
        return
    if execute is not None:
        message("note", "the plan has no moves: there is nothing to carry out")
    if not plan.complete:
        raise typer.Exit(1)


def _check_options(
    command: typer.Context, execute: str | None, *, dry_run: bool, yes: bool
) -> None:
    if execute is None:
        for option, is_set in (("--dry-run", dry_run), ("--yes", yes)):
            if is_set:
                raise typer.BadParameter("is for --execute", param_hint=option)
        return
    if not (execute or dry_run or yes or sys.stdin.isatty()):
        problem = "cannot ask without a terminal: pass --yes, or --dry-run"
        raise typer.BadParameter(problem, param_hint="--execute")
    alone = ("filename", "output")  # the plan is of the cluster, and for people
    for name, option in PLANS.items():
        source = command.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and (execute or name in alone):
            raise typer.BadParameter("does not go with --execute", param_hint=option)


def _execute(file: str, kubeconfig: Path | None, context: str | None, *, dry_run: bool) -> None:
    """Carry out the plan of a file."""
    from adapters.cli.defrag.execution import read_plan
    from adapters.cli.output.terminal import message

    with options.bad_input():
        plan = read_plan(file)
        if plan.spec.moves:
            _carry_out(plan, kubeconfig, context, dry_run=dry_run)
        else:
            message("note", f"plan {plan.name} has no moves: there is nothing to carry out")


def _carry_out(
    plan: "PlanFile", kubeconfig: Path | None, context: str | None, *, dry_run: bool
) -> None:
    from adapters.cli.defrag.execution import step_line, target_lines
    from adapters.wire.visible import visible

    if not dry_run:
        _follow(plan, kubeconfig, context)
        return
    steps = range(1, len(plan.spec.moves) + 1)
    for line in (*(step_line(plan.spec, each) for each in steps), *target_lines(plan.spec)):
        typer.echo(visible(line))


def _follow(plan: "PlanFile", kubeconfig: Path | None, context: str | None) -> None:
    from adapters.cli.defrag.execution import Execution
    from adapters.cli.input.cluster import call, context_of
    from adapters.cli.input.source import InputError
    from adapters.cli.output.terminal import StepDisplay, message

    chosen = "" if context is None else f" --context {context}"
    goes_on = (
        f"the plan goes on; the same command follows it again, and"
        f" kubectl{chosen} delete moveplan {plan.name} stops it"
    )
    with StepDisplay() as display:
        execution = Execution(plan, display)
        try:
            finished = call(context_of(kubeconfig, context), execution.run)
        except KeyboardInterrupt:
            message("note", goes_on if execution.exists else "no plan was created")
            raise typer.Exit(130) from None  # as a shell says it
        except InputError as error:
            if execution.exists:
                raise InputError(error.location, f"{error.problem}; {goes_on}") from error
            raise
    if not finished:
        raise typer.Exit(1)


def _draw(plan: "Planned", file: Path) -> None:
    from adapters.accounting.moves_picture import picture
    from adapters.cli.input.source import InputError

    moved = {move.pod.request.uid for move in plan.moves}
    try:
        file.write_text(picture(plan.before, plan.after, moved), encoding="utf-8")
    except OSError as error:
        raise InputError("--svg", f"cannot write {file}: {error.strerror}") from error
