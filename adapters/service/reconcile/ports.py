"""What the reconciler needs of the API server, and where it reports its repairs."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Pod
from core.requests.request import PodRef


class LivePods(Protocol):
    """Pods as the API server has them now, without a cache."""

    async def get(self, pod: PodRef) -> Pod | None:
        """Return a pod; None where there is none of this name.

        Raises:
            OSError: the API server did not answer.
        """
        ...

    async def annotate(
        self,
        pod: PodRef,
        annotations: Mapping[str, str | None],
        labels: Mapping[str, str | None] | None = None,
    ) -> Pod:
        """Set annotations and labels of the pod with this uid; None removes one.

        Returns:
            the pod after the write.

        Raises:
            OSError: the API server rejected the change, or did not answer.
        """
        ...


class NoClaims:
    """A cluster without claims."""

    async def get(self, claim: PodRef) -> ResourceClaim | None:  # noqa: ARG002
        """Return None."""
        return None


class RepairReporter(Protocol):
    """Reports repairs and problems. Its methods neither wait nor fail."""

    def repaired(self, kind: str) -> None:
        """Count a repair."""
        ...

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Emit an Event about a pod."""
        ...

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Emit an Event about a node."""
        ...

    def inventory(self, node: str, problems: Sequence[str]) -> None:
        """Log what is invalid in a node's description of its cards."""
        ...


class NoReporter:
    """Reports nothing."""

    def repaired(self, kind: str) -> None:
        """Count nothing."""

    def of_pod(self, pod: Pod, reason: str, text: str) -> None:
        """Emit nothing."""

    def of_node(self, node: str, reason: str, text: str) -> None:
        """Emit nothing."""

    def inventory(self, node: str, problems: Sequence[str]) -> None:
        """Log nothing."""
