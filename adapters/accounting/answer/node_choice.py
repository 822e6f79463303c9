"""The nodes that a pod may run on, as far as node objects and not their cards decide."""

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass

from adapters.accounting.answer.node_rules import node_rule, required_affinity
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.node_names import NodeNames
from core.requests.decision import NodeReasons
from core.requests.reason import Reason

STEP = 500
"""Nodes that are compared before other calls run: about two milliseconds."""

KEPT = 128
"""Choices that are kept; a cluster has few node selectors that differ."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The candidate nodes of one pod.

    Attributes:
        selection: the candidates, in order of the nodes.
        excluded: why each of the other nodes is none.
    """

    selection: NodeNames
    excluded: NodeReasons


class NodeChooser:
    """Finds the candidates of each pod; pods with the same constraints are compared once."""

    def __init__(self, nodes: Mapping[str, KubeNode]) -> None:
        self._nodes = nodes
        self._known: dict[Hashable, NodeChoice] = {}

    def steps(self, pod: Pod) -> Generator[None, None, NodeChoice]:
        """The candidates of a pod; it pauses after every ``STEP`` nodes."""
        spec = pod.spec
        selector = tuple(sorted((spec.node_selector or {}).items()))
        key = (selector, required_affinity(pod), spec.tolerations)
        known = self._known.get(key)
        if known is not None:
            return known
        excluded: dict[str, Reason] = {}
        asks = bool(selector) or key[1] is not None
        for number, (name, node) in enumerate(self._nodes.items(), start=1):
            if asks or node.spec.unschedulable or node.spec.taints:
                reason = node_rule(pod, node)
                if reason is not None:
                    excluded[name] = reason
            if number % STEP == 0:
                yield
        names = NodeNames(name for name in self._nodes if name not in excluded)
        choice = NodeChoice(names, NodeReasons.of(excluded))
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = choice
        return choice
