"""``dragoman explain``: arguments and exit status."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.cli.commands import options

if TYPE_CHECKING:
    from adapters.cli.fleet.fleet import Fleet
    from adapters.cli.input.origin import Origin
    from adapters.wire.kube import Pod, WorkloadRef


class ExplainFormat(Enum):
    """The format of an explanation."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


_PODS = ("pod", "pods", "po")
_NODES = ("node", "nodes", "no")

_WORKLOADS = {
    "deploy": "deployment", "sts": "statefulset", "rs": "replicaset", "ds": "daemonset",
    "rc": "replicationcontroller", "cj": "cronjob", "job": "job", "lws": "leaderworkerset",
    "isvc": "inferenceservice",
}  # fmt: skip
"""Kinds of workloads by their short names."""


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="pod NAME", help="Or NAMESPACE/NAME, pod/NAME, NAME.", show_default=False
        ),
    ],
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    output: Annotated[
        ExplainFormat, typer.Option("-o", "--output", metavar="FORMAT", help="text, json or yaml.")
    ] = ExplainFormat.TEXT,
    service: options.ServiceUrl = None,
) -> None:
    """Say why a pod is pending, or why it is where it is, and what would make it fit.

    Counts cards, quotas, cordons, taints, nodeSelector and required node affinity. What does not
    count, such as CPU, is joined from the latest message of the pod's scheduler.

    Example: dragoman explain pod training -n ml

    Exit status: 0 the pod has its cards or fits, 1 it does not fit, its scheduler has too little
    of a resource for it, or its cards are unknown, 2 no such pod, bad input or no answer.
    """
    from adapters.cli import explain as explanation
    from adapters.cli.fleet.fleet import read_fleet
    from adapters.cli.fleet.replicas import add_replicas
    from adapters.cli.input.origin import Origin
    from adapters.dialects.dialect import Defaults

    kind, named, name = _named(words)
    if named is not None:
        if namespace not in (None, named):
            raise typer.BadParameter(f"but the pod is named {named}/{name}", param_hint="-n")
        namespace = named
    options.check_service(service, filename, all_namespaces=all_namespaces)
    with options.bad_input():
        origin = Origin(filename or (), kubeconfig, context)
        if service is not None:
            if kind not in _PODS:
                raise typer.BadParameter("answers about pods", param_hint="--service")
            _ask(service, origin, namespace or origin.namespace() or "", name, output)
            return
        chosen = None if all_namespaces and named is None else namespace or origin.namespace()
        read = origin.read(workloads=True)
        owners = add_replicas(read, [node for node, _ in read.nodes.values()])
        fleet = read_fleet(read, Defaults())
        full = None if kind in _PODS else _pod_of(owners, kind, chosen, name)
        pod = _find(fleet, chosen, name) if full is None else fleet.pods[full]
        found = replace(explanation.explain(fleet, pod), history=tuple(origin.history(pod)))
    if output is ExplainFormat.TEXT:
        typer.echo(explanation.as_text(found), nl=False)
    else:
        typer.echo(options.document_text(output, explanation.as_plain(found)), nl=False)
    if not found.well:
        raise typer.Exit(1)


def _ask(service: str, origin: "Origin", namespace: str, name: str, output: ExplainFormat) -> None:
    """Print the service's explanation of a pod."""
    from msgspec import to_builtins

    from adapters.cli.input.service import ask
    from adapters.wire.records.tenant import TenantExplanation
    from adapters.wire.visible import visible

    found = ask(service, origin, "explain", TenantExplanation, namespace=namespace, pod=name)
    if output is ExplainFormat.TEXT:
        typer.echo("".join(f"{visible(line)}\n" for line in found.lines), nl=False)
    else:
        typer.echo(options.document_text(output, to_builtins(found)), nl=False)
    if not found.well:
        raise typer.Exit(1)


def _named(words: list[str]) -> tuple[str, str | None, str]:
    """Return the kind, the namespace, where the words name one, and the name."""
    match words:
        case [kind, rest] if kind in _NODES:
            raise typer.BadParameter(f"explains pods; try dragoman who {rest}", param_hint=kind)
        case [kind, rest]:
            pass
        case [rest]:
            kind, _, after = rest.partition("/")
            if kind in _NODES:
                return _named([kind, after])
            singular = kind.removesuffix("s")
            if kind in _PODS or kind in _WORKLOADS or singular in _WORKLOADS.values():
                rest = after
            else:
                kind = _PODS[0]
        case _:
            kind = rest = ""
    namespace, slash, name = rest.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise typer.BadParameter("must be: pod NAME", param_hint="pod NAME")
    return kind, namespace or None, name


def _pod_of(
    owners: "Mapping[WorkloadRef, str]", kind: str, namespace: str | None, name: str
) -> str:
    """Return the pod of a workload that is explained; those that wait are alike to the answer."""
    kinds = _WORKLOADS.get(kind, kind), kind.removesuffix("s")
    for ref, pod in owners.items():
        if ref.name == name and ref.kind.lower() in kinds and namespace in (None, ref.namespace):
            return pod
    known = ", ".join(str(ref) for ref in [*owners][:5])
    hint = f"; workloads: {known}" if known else ""
    raise typer.BadParameter(f"must be: pod NAME{hint}", param_hint="pod NAME")


def _find(fleet: "Fleet", namespace: str | None, name: str) -> "Pod":
    from adapters.cli.input.source import InputError

    pod = fleet.pods.get(f"{namespace}/{name}")
    if pod is not None:
        return pod
    others = [full for full in fleet.pods if full.partition("/")[2] == name]
    if namespace is not None:
        hint = f"; there is {', '.join(others[:5])}, see -n" if others else ""
        raise InputError(f"pod {name}", f"is not in namespace {namespace}{hint}")
    if len(others) == 1:
        return fleet.pods[others[0]]
    found = f"there are {', '.join(others[:5])}; name one" if others else "is in no namespace"
    raise InputError(f"pod {name}", found)
