"""One request against all nodes: the best placement, or why there is none."""

from collections.abc import Sequence

from core.feasibility.evaluation import NodeEvaluation
from core.requests.decision import Decision


def allocate(
    evaluation: NodeEvaluation, names: Sequence[str] | None = None, *, explain: bool = False
) -> Decision:
    """Find the best node for a request, and its cards there.

    Nodes are compared by the request's ranking; of nodes that are equal by it, the first wins.

    Args:
        evaluation: the request against the inventory.
        names: the nodes to choose from, in order; None for all of them.
        explain: give the reasons of the nodes that do not fit even where another one fits.

    Returns:
        The decision. A node that is not known counts as one without cards.
    """
    placement = evaluation.best(names)
    if placement is not None and not explain:
        return Decision(placement, {})
    every = evaluation.inventory.names() if names is None else names
    return Decision(placement, evaluation.reasons(every))
