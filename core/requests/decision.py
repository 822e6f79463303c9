"""The answer to a request, with its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass

from core.requests.grant import Placement
from core.requests.node_reasons import NodeReasons


@dataclass(frozen=True, slots=True)
class Decision:
    """The best placement for a request, or why there is none.

    Attributes:
        placement: the best choice, or None.
        reasons: by node name, why the request does not fit it. Complete where it fits none; else
            only where the caller wants an explanation.
    """

    placement: Placement | None
    reasons: NodeReasons

    def summary(self) -> str:
        """One line over all nodes, such as ``0 of 3 nodes fit: 2 nodes: no cards; ...``."""
        if self.placement is not None:
            return f"placed on {self.placement.node}"
        return rejection_summary(self.reasons.counts())


def rejection_summary(counts: Mapping[str, int]) -> str:
    """One line over nodes of which none fits: the most frequent reasons first.

    Args:
        counts: by text of a reason, how many nodes have it.
    """
    total = sum(counts.values())
    if not total:
        return "no node to choose from"
    causes = "; ".join(
        f"{count} {'node' if count == 1 else 'nodes'}: {text}"
        for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"0 of {total} nodes fit: {causes}"
