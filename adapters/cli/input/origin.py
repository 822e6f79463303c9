"""Where a command reads objects from: files, else a live cluster; a terminal shows the progress."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.cli.input.manifests import Manifests, Progress, manifests
from adapters.cli.input.source import sources
from adapters.cli.output.terminal import delayed, first_names, message, standard_error
from adapters.wire.agent_report import NO_REPORTS, AgentReports
from adapters.wire.visible import visible

if TYPE_CHECKING:
    from rich.status import Status

    from adapters.cli.input.cluster import PodEvent
    from adapters.cluster.api.credentials import KubeContext
    from adapters.wire.kube import Pod

STEP = 100
"""Objects between two changes of the bar."""

NAMES = 30
"""Columns of the files' names: the number of objects has room on 80."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's choice of what to read; the client of a cluster is imported where it is needed.

    Attributes:
        files: files, folders or ``-``; where there are any, no cluster is read.
        kubeconfig: the only file to read; None for the files that kubectl reads.
        context: of the kubeconfig; None for its current one.
    """

    files: Sequence[str] = ()
    kubeconfig: Path | None = None
    context: str | None = None

    def namespace(self) -> str | None:
        """Return the namespace of the context; None for files, which mean all that they contain.

        Raises:
            InputError: the kubeconfig cannot be used.
        """
        return None if self.files else self._context().namespace

    def read(self, *, evictions: bool = False, workloads: bool = False) -> Manifests:
        """Read all objects; a terminal shows the progress.

        For ``evictions`` PodDisruptionBudgets and Jobs are read too; for ``workloads`` files of
        nothing but workloads are enough.

        Raises:
            InputError: the input cannot be read.
        """
        if self.files:
            return read_files(self.files, jobs=evictions, workloads=workloads)
        with _status() as status:
            from rich.markup import escape

            from adapters.cli.input.cluster import read_cluster

            context = self._context()
            return read_cluster(
                context,
                lambda plural, count: status.update(
                    escape(visible(f"reading {plural} of {context.name}: {count:,}"))
                ),
                evictions=evictions,
            )

    def history(self, pod: "Pod") -> "Sequence[PodEvent]":
        """Read the Events of a pod, oldest first; none of files.

        Raises:
            InputError: the cluster did not answer.
        """
        if self.files:
            return ()
        from adapters.cli.input.cluster import call, pod_events

        namespace, uid = pod.metadata.namespace or "default", pod.metadata.uid
        return call(self._context(), lambda client: pod_events(client, namespace, uid))

    def agents(self, pods: "Iterable[Pod]") -> AgentReports:
        """Ask all node agents; nothing for files, or where no pod is an agent.

        Standard error names those that cannot be read.

        Raises:
            InputError: the kubeconfig cannot be used.
        """
        if self.files:
            return NO_REPORTS
        from adapters.cli.input.cluster import PATIENCE_WITH_AGENTS, agent_pods, call, read_agents

        agents = agent_pods(pods)
        if not agents:
            return NO_REPORTS
        with _status() as status:
            status.update(f"reading {len(agents):,} node agents")
            reports = call(
                self._context(), lambda client: read_agents(client, agents), PATIENCE_WITH_AGENTS
            )
        for sentence in reports.unread:
            message("note", sentence)
        return reports

    def _context(self) -> "KubeContext":
        from adapters.cli.input.cluster import context_of

        return context_of(self.kubeconfig, self.context)


def read_files(names: Sequence[str], *, jobs: bool = False, workloads: bool = False) -> Manifests:
    """Read all objects of files, folders and ``-``; a terminal shows the progress.

    Notes on standard error count the objects of kinds that are not read, and name suspended ones.
    For ``workloads`` an input of nothing but workloads is enough.

    Raises:
        InputError: the input cannot be read.
    """
    with _reading(names) as progress:
        texts = sources(names, sys.stdin.buffer)
        found = manifests(texts, progress, jobs=jobs, workloads=workloads)
    count = found.skipped.total()
    if count:
        kinds, objects = ", ".join(sorted(found.skipped)), "object" if count == 1 else "objects"
        message("note", f"skipped: {count:,} {objects} of kinds without pods ({kinds})")
    suspended = [str(each.ref) for each in found.workloads if workloads and each.is_suspended]
    if suspended:
        message("note", f"without pods, because suspended: {first_names(suspended)}")
    return found


@contextmanager
def _reading(files: Sequence[str]) -> Iterator[Progress | None]:
    """Show on a terminal how many objects were read, where it takes long."""
    console = standard_error()
    if console is None:
        yield None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (MofNCompleteColumn(), BarColumn(20), TextColumn("{task.description}"))
    bar = Bar(*columns, console=console, transient=True)
    names = ", ".join(Path(each).name or each for each in files)
    shown = names if len(names) <= NAMES else f"{names[: NAMES - 1]}…"

    def show(read: int, known: int) -> None:
        if read % STEP == 0 or read == known:
            bar.update(task, completed=read, total=known)

    with delayed(bar):
        task = bar.add_task(escape(visible(f"reading {shown}")), total=None)
        yield show


@contextmanager
def _status() -> Iterator["Status"]:
    """Show a line on standard error, of what takes long; nothing where that is no terminal."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    status = Status("reading", console=console)
    with delayed(status) if console.is_terminal else nullcontext():
        yield status
