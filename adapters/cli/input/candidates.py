"""The nodes that a pod can run on, as far as node objects and not their cards decide."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.cli.output.node_texts import NodeTexts
from adapters.wire.kube import KubeNode, Pod, labels
from core.feasibility.node_names import NodeNames


@dataclass(frozen=True, slots=True)
class CandidateChoice:
    """The candidate nodes of one pod.

    Attributes:
        selection: the candidates, in order of the input.
        excluded: by name of the other nodes, the cause.
    """

    selection: NodeNames
    excluded: NodeTexts

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates by name."""
        return self.selection.names

    def summary(self) -> str:
        """The excluded nodes, counted by cause; empty where there are none."""
        counts = Counter(self.excluded.values())
        return "; ".join(
            f"{count} {'node' if count == 1 else 'nodes'} not considered: {cause}"
            for cause, count in counts.items()
        )


class Candidates:
    """Finds the candidates of each pod among the nodes of the input."""

    def __init__(self, nodes: Sequence[KubeNode]) -> None:
        self._nodes = nodes
        self._known: dict[tuple[tuple[str, str], ...], CandidateChoice] = {}

    def of(self, pod: Pod) -> CandidateChoice:
        """The candidates of a pod: schedulable nodes with the labels that it selects."""
        selector = tuple(sorted((pod.spec.node_selector or {}).items()))
        if selector not in self._known:
            causes = {node.metadata.name: _cause(node, selector) for node in self._nodes}
            self._known[selector] = CandidateChoice(
                NodeNames(name for name, cause in causes.items() if cause is None),
                NodeTexts.of({n: cause for n, cause in causes.items() if cause is not None}),
            )
        return self._known[selector]


def _cause(node: KubeNode, selector: tuple[tuple[str, str], ...]) -> str | None:
    if node.spec.unschedulable:
        return "unschedulable"
    has = labels(node)
    missing = [f"{key}={value}" for key, value in selector if has.get(key) != value]
    return f"lacks the label {', '.join(missing)} of the nodeSelector" if missing else None
