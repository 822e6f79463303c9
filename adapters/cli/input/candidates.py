"""The nodes that a pod may go to, as far as the nodes and not their cards decide."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.wire.kube import KubeNode, Pod, labels


@dataclass(frozen=True, slots=True)
class CandidateChoice:
    """Where one pod may go.

    Attributes:
        names: the nodes that it may go to, in order of the input.
        excluded: by name of the other nodes, why not.
    """

    names: tuple[str, ...]
    excluded: Mapping[str, str]

    def told(self) -> str:
        """The excluded nodes, counted by cause; empty where there are none."""
        counts = Counter(self.excluded.values())
        return "; ".join(
            f"{count} {'node' if count == 1 else 'nodes'} not considered: {cause}"
            for cause, count in counts.items()
        )


class Candidates:
    """The nodes of the input, asked pod after pod."""

    def __init__(self, nodes: Sequence[KubeNode]) -> None:
        self._nodes = nodes
        self._known: dict[tuple[tuple[str, str], ...], CandidateChoice] = {}

    def of(self, pod: Pod) -> CandidateChoice:
        """Where a pod may go: to nodes that take pods and have the labels that it selects."""
        selector = tuple(sorted((pod.spec.node_selector or {}).items()))
        if selector not in self._known:
            causes = {node.metadata.name: _cause(node, selector) for node in self._nodes}
            self._known[selector] = CandidateChoice(
                names=tuple(name for name, cause in causes.items() if cause is None),
                excluded={name: cause for name, cause in causes.items() if cause is not None},
            )
        return self._known[selector]


def _cause(node: KubeNode, selector: tuple[tuple[str, str], ...]) -> str | None:
    if node.spec.unschedulable:
        return "unschedulable"
    has = labels(node)
    missing = [f"{key}={value}" for key, value in selector if has.get(key) != value]
    return f"has not the label {', '.join(missing)} of the nodeSelector" if missing else None
