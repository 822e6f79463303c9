"""Options that several commands have: the cluster as kubectl chooses it, and a policy."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from adapters.dialects.dialect import SchedulingPolicy

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
    typer.Option(
        "-n", "--namespace", metavar="NAME", help="Default: that of the context; of files, all."
    ),
]
OnlyNamespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Its pods only; default: all."),
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


class PolicyOption(Enum):
    """The values of ``SchedulingPolicy``, for help texts, which need no dialect."""

    BINPACK = "binpack"
    SPREAD = "spread"


def chosen_policy(option: PolicyOption | None) -> "SchedulingPolicy | None":
    """The policy that an option names; None for none."""
    from adapters.dialects.dialect import SchedulingPolicy

    return None if option is None else SchedulingPolicy(option.value)
