"""The options by which every command that reads a cluster chooses it, as kubectl has them."""

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Of the kubeconfig; default: its current one."),
]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Default: that of the context."),
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="Read a file, a folder, or - for standard input in place of a cluster; repeatable.",
    ),
]
