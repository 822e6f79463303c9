"""``dragoman configure`` and ``translate``, which print a changed file of the user."""

from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from adapters.cli.commands.options import bad_input, one_source
from adapters.cli.configure.options import Asked, Scheduler, SchedulerMode
from adapters.cli.input.source import STDIN


def configure(
    scheduler: Annotated[
        Scheduler,
        typer.Argument(
            metavar="SCHEDULER", help="kube-scheduler, koord-scheduler or vc-scheduler."
        ),
    ],
    filename: Annotated[
        str,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="The scheduler's configuration, or - for stdin.",
        ),
    ] = STDIN,
    new: Annotated[
        bool, typer.Option("--new", help="Begin with the default of the scheduler's installer.")
    ] = False,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Of a ConfigMap with several configurations.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Of the service, as the scheduler reaches it."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Of the service, where no --url is given.")
    ] = "dragoman-system",
    ca_file: Annotated[
        str | None,
        typer.Option(
            "--ca-file",
            metavar="PATH",
            help="Authorities of the service, where the scheduler runs.",
        ),
    ] = None,
    ca_data: Annotated[
        Path | None,
        typer.Option("--ca-data", metavar="FILE", help="PEM file to write into the configuration."),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="PATH", help="Of the scheduler, where it runs.")
    ] = None,
    scheduler_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the only profile.")
    ] = None,
    preemption: Annotated[
        bool | None,
        typer.Option(
            "--preemption/--no-preemption",
            help="The scheduler sums resources of nodes up, and asks for pods to evict.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        SchedulerMode | None,
        typer.Option(
            metavar="MODE",
            help="native: its own plugin chooses cards, the webhook decides; or extender.",
        ),
    ] = None,
    keep_deviceshare: Annotated[
        bool | None,
        typer.Option(
            "--keep-deviceshare/--no-keep-deviceshare",
            help="Of koord-scheduler, the same as --mode native or extender.",
            show_default=False,
        ),
    ] = None,
    plain_pods: Annotated[
        bool | None,
        typer.Option(
            "--plain-pods/--no-plain-pods",
            help="vc-scheduler asks about pods of only a device plugin, and waits for the answer.",
            show_default=False,
        ),
    ] = None,
    ask: Annotated[
        Asked | None,
        typer.Option(
            metavar="PODS",
            help="In native mode: others (of the other dialects), none, or all.",
        ),
    ] = None,
    kubernetes_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Of kube-scheduler; from 1.38 on it evicts for shares itself."
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take Dragoman out again.")] = False,
) -> None:
    """Add Dragoman to a scheduler's own configuration, and print the result.

    Reads the configuration or the ConfigMap that has it, and keeps everything else in it.

    Example: dragoman configure kube-scheduler -f scheduler.yaml --diff

    Exit status: 0, or 2 for input that is no such configuration.
    """
    from adapters.cli.configure import command
    from adapters.cli.configure.options import ConfigureOptions, read_authorities, read_version
    from adapters.cli.output.terminal import message, write_file

    with bad_input():
        remedy = "give -f FILE, pipe a configuration in, or begin with --new"
        source = command.default(scheduler) if new else one_source(filename, remedy)
        if undo:
            outcome = command.unconfigure(scheduler, source, key)
        else:
            authorities = read_authorities(ca_data) if ca_data is not None else None
            options = ConfigureOptions(
                url, namespace, ca_file, authorities, kubeconfig, scheduler_name, preemption,
                mode, keep_deviceshare, plain_pods, ask,
                None if kubernetes_version is None else read_version(kubernetes_version),
            )  # fmt: skip
            outcome = command.configure(scheduler, source, options, key)
    for note in outcome.notes:
        message("note", note)
    write_file(command.difference(outcome, source.name) if diff else outcome.after)


class TranslationFormat(Enum):
    """What standard output gets."""

    TEXT = "text"
    JSON = "json"


def translate(
    target: Annotated[
        str,
        typer.Option("--to", metavar="DIALECT", help="Such as volcano."),
    ],
    filename: Annotated[
        str, typer.Option("-f", "--filename", metavar="FILE", help="Or - for standard input.")
    ] = STDIN,
    card_memory: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Of each card of the cluster, such as 80Gi."),
    ] = None,
    card_vendor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of all cards of the cluster: nvidia, metax.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Print no manifest where something is lost.")
    ] = False,
    output: Annotated[
        TranslationFormat,
        typer.Option(
            "-o", "--output", metavar="FORMAT", help="text, or json: losses and manifest."
        ),
    ] = TranslationFormat.TEXT,
) -> None:
    """Translate pods and pod templates of a manifest to another dialect.

    Prints the manifest, and on standard error what the translation does not keep. Everything else
    of the manifest stays as it is, also a pod that is invalid beside others.

    Example: dragoman translate --to koordinator --card-memory 80Gi -f deployment.yaml

    Exit status: 0 translated, 1 something is lost and --strict is set, 2 bad input, also a pod.
    """
    from adapters.cli.input.source import InputError
    from adapters.cli.output.terminal import write_file
    from adapters.cli.translate.translation import as_report, as_table, targets
    from adapters.cli.translate.translation import translate as translated
    from adapters.dialects import registry
    from adapters.dialects.request_writer import CardFacts
    from adapters.wire.quantity import QuantityError, parse_int

    if target not in targets():
        raise typer.BadParameter(f"must be one of {', '.join(targets())}", param_hint="--to")
    with bad_input():
        memory = 0
        if card_memory is not None:
            with suppress(QuantityError):
                memory = parse_int(card_memory)
            if memory < 1:
                problem = f"{card_memory!r}: must be an amount such as 80Gi"
                raise InputError("--card-memory", problem)
        known = sorted({info.vendor for info in registry.DIALECTS if info.vendor})
        if card_vendor is not None and card_vendor not in known:
            raise InputError("--card-vendor", f"{card_vendor!r}: must be one of {', '.join(known)}")
        cards = CardFacts(memory or None, card_vendor)
        source = one_source(filename, "give -f FILE or pipe a manifest in")
        result = translated(source, target, cards)
    refused = strict and not result.exact
    match output:
        case TranslationFormat.JSON:
            typer.echo(as_report(result), nl=False)
        case TranslationFormat.TEXT:
            write_file("" if refused else result.text)
            typer.echo(as_table(result), err=True, nl=False)
    if refused or result.invalid:
        raise typer.Exit(2 if result.invalid else 1)
