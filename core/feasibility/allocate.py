"""One request against all nodes: the best placement, or why there is none."""

from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.selection import NodeSelection
from core.requests.decision import Decision
from core.requests.node_reasons import NodeReasons


def allocate(
    evaluation: NodeEvaluation, selection: NodeSelection | None = None, *, explain: bool = False
) -> Decision:
    """Find the best node for a request, and its cards there.

    Nodes are compared by the request's ranking; of nodes that are equal by it, the first wins.

    Args:
        evaluation: the request against the inventory.
        selection: the nodes to choose from, in order; None for all of them.
        explain: give the reasons of the nodes that do not fit even where another one fits.

    Returns:
        The decision. A node that is not known counts as one without cards.
    """
    placement = evaluation.best(selection)
    if placement is not None and not explain:
        return Decision(placement, NodeReasons.of({}))
    return Decision(placement, evaluation.explain(selection))
