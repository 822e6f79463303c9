"""``dragoman top``, ``who``, ``pending`` and ``whatif``: arguments, formats and watching."""

import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from enum import Enum
from io import StringIO
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.cli.commands import options

if TYPE_CHECKING:
    from adapters.cli.fleet.fleet import Fleet
    from adapters.cli.view.listing import Listing


class TopKind(Enum):
    """What ``top`` lists."""

    NODES = "nodes"
    CARDS = "cards"
    PODS = "pods"
    NAMESPACES = "namespaces"


_SHORT = {"no": "nodes", "po": "pods", "ns": "namespaces"}


def _top_kind(word: "str | TopKind") -> TopKind:
    """Return what a word means, such as ``pod``, ``pods`` or ``po``; the default is a kind."""
    if isinstance(word, TopKind):
        return word
    names = [kind.value for kind in TopKind]
    name = next((each for each in names if word == each[:-1]), _SHORT.get(word, word))
    if name not in names:
        known = ", ".join(map(repr, names))
        raise typer.BadParameter(f"{word!r} is not one of {known}.")
    return TopKind(name)


def _top_kinds(begun: str) -> list[str]:
    return [kind.value for kind in TopKind if kind.value.startswith(begun)]


def _formats(begun: str) -> list[str]:
    known = ("wide", "json", "yaml", "csv", "name", "jsonpath=", "custom-columns=")
    return [each for each in known if each.startswith(begun)]


Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help="wide, json, yaml, csv, name, jsonpath=... or custom-columns=...",
        autocompletion=_formats,
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        "--sort-by",
        metavar="FIELD",
        help="A field of -o json; numbers descend, texts ascend.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "-l",
        "--selector",
        metavar="LABELS",
        help="Pods with these labels; of top nodes and top cards, nodes.",
    ),
]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="Read again and again.")]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Between two readings.")
]
Policy = Annotated[
    options.PolicyOption | None,
    typer.Option(metavar="POLICY", help="binpack or spread, for pods that set none."),
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Without a line of headers.")]


def top(
    kind: Annotated[
        TopKind,
        typer.Argument(
            metavar="nodes|cards|pods|namespaces",
            help="What to list; node, card, pod and namespace too.",
            parser=_top_kind,
            autocompletion=_top_kinds,
        ),
    ] = TopKind.NODES,
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    output: Output = None,
    sort: Sort = None,
    labels: Labels = None,
    watch: Watch = False,
    interval: Interval = 5.0,
    no_headers: NoHeaders = False,
    service: options.ServiceUrl = None,
    used: Annotated[
        bool, typer.Option("--used", help="Ask the node agents what is used; -o wide does, too.")
    ] = False,
) -> None:
    """List what is allocated of cards, and what is left.

    LARGEST is the largest share of one card that still fits; STRANDED is free memory that no
    request can use, because its card has no compute or no slot left, is unhealthy, or is in
    exclusive use. USED is what the node agents report, read through the API
    server: of nodes and cards the driver's figure, of pods HAMi-core's, which a pod can forge.

    Example: dragoman top nodes --sort strandedMiB

    Exit status: 0, or 2 for bad input or no answer.
    """
    from adapters.cli.output.terminal import message
    from adapters.cli.view import node_rows, pod_rows
    from adapters.cli.view.listing import of_namespace

    if namespace is not None and kind in (TopKind.NODES, TopKind.CARDS):
        message("note", f"{kind.value} are shown with the pods of all namespaces; -n is for pods")
    if labels is not None and kind is TopKind.NAMESPACES:
        raise typer.BadParameter("is for nodes, cards and pods", param_hint="-l")

    if service is not None and (kind is not TopKind.PODS or used):
        raise typer.BadParameter("answers top pods, without --used", param_hint="--service")
    options.check_service(service, filename, all_namespaces=all_namespaces)

    def listing(fleet: "Fleet", chosen: str | None) -> "Listing":
        for text in fleet.without_cards():
            message("warning", text)
        match kind:
            case TopKind.NODES:
                return node_rows.top_nodes(fleet)
            case TopKind.CARDS:
                return node_rows.top_cards(fleet)
            case TopKind.PODS:
                return pod_rows.top_pods(fleet, chosen)
            case TopKind.NAMESPACES:
                return of_namespace(pod_rows.top_namespaces(fleet), namespace)

    _show(
        (filename, kubeconfig, context),
        listing,
        _Shown(
            output, sort, watch, interval, no_headers, namespace, all_namespaces, service, "pods",
            used=used or output == "wide", labels=labels,
        ),
    )  # fmt: skip


def who(
    place: Annotated[
        str, typer.Argument(metavar="NODE[/CARD]|UUID", help="A card by its index or UUID.")
    ],
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.OnlyNamespace = None,
    all_namespaces: options.AllNamespaces = False,
    output: Output = None,
    sort: Sort = None,
    labels: Labels = None,
    watch: Watch = False,
    interval: Interval = 5.0,
    no_headers: NoHeaders = False,
    service: options.ServiceUrl = None,
) -> None:
    """List the pods on a node's cards, or on one card.

    Example: dragoman who gpu-1/0

    Exit status: 0, or 2 for an unknown node or card, bad input or no answer.
    """
    from adapters.cli.view import pod_rows
    from adapters.cli.view.listing import of_namespace

    options.check_service(service, filename, all_namespaces=all_namespaces)
    everywhere = all_namespaces or (namespace is None and service is None)

    def rows(fleet: "Fleet", chosen: str | None) -> "Listing":
        found = of_namespace(pod_rows.who(fleet, place), chosen)
        is_default = namespace is None and not all_namespaces and not filename
        more = ("pods of all namespaces are shown, see -n",) if is_default and found.rows else ()
        return replace(found, notes=(*found.notes, *more))

    _show(
        (filename, kubeconfig, context),
        rows,
        _Shown(
            output, sort, watch, interval, no_headers, namespace, everywhere, service, "shares",
            place, labels=labels,
        ),
    )  # fmt: skip


def pending(
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    output: Output = None,
    sort: Sort = None,
    labels: Labels = None,
    watch: Watch = False,
    interval: Interval = 5.0,
    no_headers: NoHeaders = False,
    service: options.ServiceUrl = None,
) -> None:
    """List pods that request a share and have no node, with the reason.

    The reason is that of dragoman explain pod, the service and its page. Where cards fit, what the
    pod's scheduler said last stands beside it.

    Example: dragoman pending -A

    Exit status: 0, or 2 for bad input or no answer.
    """
    from adapters.cli.view.pending import pending as rows
    from adapters.cli.view.pod_meta import parse_selector

    options.check_service(service, filename, all_namespaces=all_namespaces)

    _show(
        (filename, kubeconfig, context),
        lambda fleet, chosen: rows(fleet, chosen, parse_selector(labels) if labels else ()),
        _Shown(
            output, sort, watch, interval, no_headers, namespace, all_namespaces, service,
            "pending", labels=labels,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shown:
    """How a list is shown.

    Attributes:
        namespace: of the rows; None is that of the context.
        all_namespaces: whether the rows of all namespaces are shown.
        service: to ask in place of the cluster; None for none.
        question: that it answers.
        place: the node or card of the question.
        used: whether to ask the node agents.
        labels: of the pods or nodes that are shown.
    """

    output: str | None
    sort: str | None
    watch: bool
    interval: float
    no_headers: bool
    namespace: str | None = None
    all_namespaces: bool = False
    service: str | None = None
    question: str = ""
    place: str = ""
    used: bool = False
    labels: str | None = None


def _show(
    place: tuple[options.Files, options.Kubeconfig, options.Context],
    rows: "Callable[[Fleet, str | None], Listing]",
    shown: _Shown,
) -> None:
    from adapters.cli.fleet.fleet import read_fleet
    from adapters.cli.input.origin import Origin
    from adapters.cli.input.source import STDIN
    from adapters.cli.output.terminal import message
    from adapters.cli.view.listing import sort, writer
    from adapters.cli.view.pod_meta import parse_selector, selected, with_ages
    from adapters.dialects.dialect import Defaults

    origin = Origin(place[0] or (), *place[1:])
    if shown.labels is not None and shown.service is not None:
        raise typer.BadParameter("does not go with --service", param_hint="-l")
    if shown.watch and STDIN in origin.files:
        raise typer.BadParameter("standard input can be read once only", param_hint="--watch")

    def read() -> "Listing":
        namespace = None if shown.all_namespaces else shown.namespace or origin.namespace()
        if shown.service is not None:
            from adapters.cli.view.tenant import asked

            return asked(shown.service, origin, shown.question, namespace or "", shown.place)
        fleet = read_fleet(origin.read(), Defaults())
        if shown.used:
            fleet = replace(fleet, agents=origin.agents(fleet.pods.values()))
        listing = with_ages(rows(fleet, namespace), fleet.pods)
        if shown.labels is not None:
            listing = selected(listing, parse_selector(shown.labels), fleet)
        return listing

    def notes(listing: "Listing") -> list[str]:
        is_part = shown.namespace is None and listing.elsewhere and not listing.empty
        more = [f"{listing.elsewhere} more in other namespaces, see -A"] if is_part else []
        return [*listing.notes, *more]

    with options.bad_input():
        write = writer(shown.output, headers=not shown.no_headers)
        if shown.watch and sys.stdin.isatty() and sys.stdout.isatty():
            _watch(read, lambda listing, key: write(sort(listing, key)), notes, shown)
            return
        while True:
            listing = sort(read(), shown.sort)
            for note in notes(listing):
                message("note", note)
            typer.echo(write(listing), nl=False)
            if not shown.watch:
                return
            time.sleep(shown.interval)


def _watch(
    read: "Callable[[], Listing]",
    write: "Callable[[Listing, str | None], str]",
    notes: "Callable[[Listing], list[str]]",
    shown: _Shown,
) -> None:
    """Show a list in place, and read it again after the interval, until a person ends it."""
    from adapters.cli.output.screen import Screen

    key = shown.sort
    with Screen() as screen:
        while True:
            with redirect_stderr(StringIO()) as said:
                listing = read()
            below = [*said.getvalue().splitlines(), *(f"note: {each}" for each in notes(listing))]
            until = time.monotonic() + shown.interval
            while (left := until - time.monotonic()) > 0:
                words = f"s: sort by the next field ({key or 'none'}), q: quit"
                screen.show(write(listing, key), [*below, words])
                pressed = screen.key(left)
                if pressed == "q":
                    return
                if pressed == "s":
                    keys = listing.sort_keys
                    key = next(iter(keys[keys.index(key) + 1 :] if key in keys else keys), None)


def whatif(
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.OnlyNamespace = None,
    all_namespaces: options.AllNamespaces = False,
    pods: Annotated[
        list[str] | None,
        typer.Option(
            "--pods", metavar="FILE", help="Pods or workloads that would come; repeatable."
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NODE=COUNT", help="Empty nodes like NODE; repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NODE", help="Drain a node; repeatable."),
    ] = None,
    node_policy: Policy = None,
    device_policy: Policy = None,
    output: Output = None,
    sort: Sort = None,
    no_headers: NoHeaders = False,
) -> None:
    """Place waiting pods on a cluster that has other nodes, pods or policies.

    Pods of a removed node wait again; pods of --pods come last. Nothing is changed. Counts cards,
    ShareQuota, schedulability and nodeSelector; not CPU, affinity or taints.

    Example: dragoman whatif --remove gpu-7 --add gpu-1=2

    Exit status: 0 all pods fit then, 1 some do not, 2 bad input or no answer.
    """
    from adapters.cli import whatif as changes
    from adapters.cli.fleet.fleet import read_fleet
    from adapters.cli.fleet.replicas import add_replicas
    from adapters.cli.input.manifests import Manifests
    from adapters.cli.input.origin import Origin, read_files
    from adapters.cli.schedule import Run, RunOptions
    from adapters.cli.view.listing import of_namespace, writer
    from adapters.cli.view.listing import sort as sorted_by
    from adapters.dialects.dialect import Defaults
    from adapters.wire.visible import visible

    if not any((pods, add, remove, node_policy, device_policy)):
        raise typer.BadParameter(
            "pass a change: --pods, --add, --remove, --node-policy or --device-policy"
        )
    defaults = Defaults(options.chosen_policy(node_policy), options.chosen_policy(device_policy))
    with options.bad_input():
        write = writer(output, headers=not no_headers)
        found = Origin(filename or (), kubeconfig, context).read()
        coming = read_files(pods, workloads=True) if pods else Manifests()
        add_replicas(found, [node for node, _ in found.nodes.values()])
        now = read_fleet(found, Defaults())
        then = now if defaults == Defaults() else read_fleet(found, defaults)
        then = changes.remove(changes.add(then, add or ()), remove or ())
        add_replicas(coming, [state.kube for state in then.nodes.values()], now.pods)
        then = changes.arrive(then, coming)
        moved = frozenset(
            name for name, pod in then.pods.items()
            if not pod.spec.node_name and name in now.pods and now.pods[name].spec.node_name
        )  # fmt: skip
        after = Run(then, RunOptions(defaults, 0))
        before = Run(now, RunOptions(Defaults(), 0)).place_all()
        listing, summary = changes.compare(before, after.place_all(), moved)
        listing = changes.with_workloads(listing, after.workloads.values())
        listing = sorted_by(of_namespace(listing, None if all_namespaces else namespace), sort)
    is_document = (output or "").startswith(("json", "yaml"))
    typer.echo(write(listing if is_document else replace(listing, further=None)), nl=False)
    if not no_headers and output in (None, "wide"):
        workloads = listing.further.rows if listing.further else ()
        typer.echo("\n".join(("", summary, *(visible(row.name) for row in workloads))))
    if not all(row.fields["placed"] for row in listing.rows):
        raise typer.Exit(1)
