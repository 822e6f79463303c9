"""Where a command reads objects from: files, else a live cluster."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from adapters.cli.input.manifests import Manifests
from adapters.cli.input.read_files import read_files
from adapters.cli.output.delayed import delayed
from adapters.wire.visible import visible

if TYPE_CHECKING:
    from adapters.cli.input.agent_report import AgentReports
    from adapters.cli.input.history import PodEvent
    from adapters.cluster.api.kubeconfig import KubeContext
    from adapters.wire.kube import Pod

DEFAULT_NAMESPACE = "default"
"""An object that names none is in this one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's choice of what to read.

    Attributes:
        files: files, folders or ``-``; where there are any, no cluster is read.
        kubeconfig: as in ``ClusterOptions``.
        context: as in ``ClusterOptions``.
    """

    files: Sequence[str] = ()
    kubeconfig: Path | None = None
    context: str | None = None

    def namespace(self) -> str | None:
        """The namespace of the context; None for files, which mean all that they contain.

        Raises:
            InputError: the kubeconfig cannot be used.
        """
        if self.files:
            return None
        return self._context().namespace

    def read(self, *, evictions: bool = False) -> Manifests:
        """Read all objects; a terminal shows the progress.

        Args:
            evictions: read what decides about evictions too: PodDisruptionBudgets and Jobs.

        Raises:
            InputError: the input cannot be read.
        """
        if self.files:
            return read_files(self.files, jobs=evictions)
        with _status() as status:
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
        """The Events of a pod, oldest first; none of files.

        Raises:
            InputError: the cluster did not answer.
        """
        if self.files:
            return ()
        from adapters.cli.input.cluster import call
        from adapters.cli.input.history import history

        namespace, uid = pod.metadata.namespace or DEFAULT_NAMESPACE, pod.metadata.uid
        return call(self._context(), lambda client: history(client, namespace, uid))

    def agents(self, pods: "Iterable[Pod]") -> "AgentReports":
        """What the node agents report; nothing for files, or where no pod is an agent.

        Raises:
            InputError: the kubeconfig cannot be used.
        """
        from adapters.cli.input.agent_report import NO_REPORTS

        if self.files:
            return NO_REPORTS
        from adapters.cli.input.agents import PATIENCE, agent_pods, read_agents
        from adapters.cli.input.cluster import call

        found = agent_pods(pods)
        if not found:
            return NO_REPORTS
        with _status() as status:
            status.update(f"reading {len(found):,} node agents")
            return call(self._context(), lambda client: read_agents(client, found), PATIENCE)

    def _context(self) -> "KubeContext":
        """The chosen context; files need no client of a cluster, so that it is imported here."""
        from adapters.cli.input.cluster import ClusterOptions, context_of

        return context_of(ClusterOptions(self.kubeconfig, self.context))


@contextmanager
def _status() -> Iterator[Status]:
    """A line on standard error, of what takes long; nothing where that is no terminal."""
    console = Console(stderr=True)
    status = Status("reading", console=console)
    if not console.is_terminal:
        yield status
        return
    with delayed(status):
        yield status
