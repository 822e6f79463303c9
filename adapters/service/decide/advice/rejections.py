"""Why a pod fits none of many nodes: one rejection for all nodes that share it.

The nodes of a cluster are of few classes. A reason, its text and its JSON for each of thousands of
nodes would take twenty times as long as to find out that none fits.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

import numpy as np

from core.feasibility.columns import Numbers
from core.feasibility.evaluation import NodeEvaluation, Rejection
from core.feasibility.node_names import NodeNames

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeRejections:
    """Why a request does not fit some nodes.

    Attributes:
        names: of the nodes.
        distinct: the rejections; the node of each reason is one of those that have it.
        of_node: for each name, the position of its rejection.
    """

    names: Sequence[str]
    distinct: tuple[Rejection, ...]
    of_node: Numbers

    def counts(self) -> list[tuple[Rejection, int]]:
        """Each distinct rejection, and how many nodes have it: one or more."""
        nodes = np.bincount(self.of_node, minlength=len(self.distinct))
        return [*zip(self.distinct, nodes.tolist(), strict=True)]

    def texts(self) -> tuple[tuple[str, int], ...]:
        """Each text of a reason, and how many nodes have it, by text."""
        counts: Counter[str] = Counter()
        for rejection, nodes in self.counts():
            counts[rejection.reason.text()] += nodes
        return tuple(sorted(counts.items()))

    def by_node(self, answers: Sequence[T]) -> list[T]:
        """What belongs to the rejection of each name.

        Args:
            answers: one for each distinct rejection.
        """
        return [answers[at] for at in self.of_node.tolist()]

    def where(self, *, unresolvable: bool) -> "NodeRejections":
        """The nodes where preemption cannot help, or those where it may."""
        chosen = np.array([each.unresolvable is unresolvable for each in self.distinct], np.bool_)
        if chosen.all():
            return self
        left = chosen[self.of_node]
        return NodeRejections(
            [*compress(self.names, left.tobytes())], self.distinct, self.of_node[left]
        )


def reject(evaluation: NodeEvaluation, nodes: NodeNames) -> NodeRejections:
    """Why a request does not fit some nodes; those that fit are left out.

    Args:
        evaluation: of the request, whose ``classify`` has returned True for the nodes.
        nodes: their names.
    """
    names: Sequence[str] = nodes.names
    groups = evaluation.groups(nodes.rows(evaluation.inventory))
    _, first, of_node = np.unique(groups, return_index=True, return_inverse=True)
    examples = [names[int(at)] for at in first.tolist()]
    rejections = evaluation.rejections(examples)
    rejected = np.array([name in rejections for name in examples], np.bool_)
    if not rejected.all():
        left = rejected[of_node]
        names = [*compress(names, left.tobytes())]
        of_node = (np.cumsum(rejected) - 1)[of_node[left]]
    distinct = tuple(rejections[name] for name in examples if name in rejections)
    return NodeRejections(names, distinct, of_node)
