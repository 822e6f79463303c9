"""``dragoman whatif``: arguments and exit status."""

from typing import Annotated

import typer

from adapters.cli.commands.listings import ListFormat, NoHeaders, Output, Sort
from adapters.cli.commands.options import (
    AllNamespaces,
    Context,
    Files,
    Kubeconfig,
    OnlyNamespace,
    PolicyOption,
    bad_input,
    chosen_policy,
)

NOT_PLACED = 1
"""Exit status where a pod does not fit the changed cluster."""


def whatif(
    filename: Files = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: OnlyNamespace = None,
    all_namespaces: AllNamespaces = False,
    pods: Annotated[
        list[str] | None,
        typer.Option("--pods", metavar="FILE", help="Pods that would come; repeatable."),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NODE=COUNT", help="Empty nodes like NODE; repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NODE", help="Drain a node; repeatable."),
    ] = None,
    node_policy: Annotated[
        PolicyOption | None,
        typer.Option(metavar="POLICY", help="binpack or spread, for pods that set none."),
    ] = None,
    device_policy: Annotated[
        PolicyOption | None,
        typer.Option(metavar="POLICY", help="binpack or spread, for pods that set none."),
    ] = None,
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
    from adapters.cli.input.manifests import Manifests
    from adapters.cli.input.origin import Origin, read_files
    from adapters.cli.output.rows import RowFormat, formatted
    from adapters.cli.schedule import Run, RunOptions
    from adapters.cli.view.listing import of_namespace
    from adapters.cli.view.listing import sort as sorted_by
    from adapters.dialects.dialect import Defaults

    if not any((pods, add, remove, node_policy, device_policy)):
        raise typer.BadParameter(
            "pass a change: --pods, --add, --remove, --node-policy or --device-policy"
        )
    defaults = Defaults(chosen_policy(node_policy), chosen_policy(device_policy))
    with bad_input():
        found = Origin(filename or (), kubeconfig, context).read()
        coming = read_files(pods) if pods else Manifests()
        now = read_fleet(found, Defaults())
        additions = [changes.Additional.parse(text) for text in add or ()]
        then = changes.remove(changes.add(read_fleet(found, defaults), additions), remove or ())
        then = changes.arrive(
            then,
            {name: pod for name, (pod, _) in coming.pods.items()},
            {ref: group for ref, (group, _) in coming.groups.items()},
        )
        moved = frozenset(
            name for name, pod in then.pods.items()
            if not pod.spec.node_name and name in now.pods and now.pods[name].spec.node_name
        )  # fmt: skip
        comparison = changes.Comparison.of(
            Run(now, RunOptions(Defaults(), 0)).place_all(),
            Run(then, RunOptions(defaults, 0)).place_all(),
            moved,
        )
        chosen = None if all_namespaces else namespace
        listing = sorted_by(of_namespace(comparison.listing(), chosen), sort)
    form = None if output is None else RowFormat(output.value)
    rows, headers = listing.rows, not no_headers
    typer.echo(formatted(listing.kind, listing.columns, rows, form, headers=headers), nl=False)
    if headers and output in (None, ListFormat.WIDE):
        typer.echo(f"\n{comparison.summary()}")
    if not all(row.fields["placed"] for row in rows):
        raise typer.Exit(NOT_PLACED)
