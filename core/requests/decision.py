"""The answer to a request, and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from core.requests.grant import Placement
from core.requests.reason import Reason


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes, or why nowhere.

    Attributes:
        placement: the best choice, or None.
        reasons: by node name, why it will not do. Complete when nothing fits; otherwise only
            when it was asked for.
    """

    placement: Placement | None
    reasons: Mapping[str, Reason]

    def summary(self) -> str:
        """One line over all nodes, such as ``0 of 3 nodes fit: 2 nodes: no cards; ...``."""
        if self.placement is not None:
            return f"placed on {self.placement.node}"
        total = len(self.reasons)
        if not total:
            return "no node to choose from"
        counts = Counter(reason.text() for reason in self.reasons.values())
        told = "; ".join(
            f"{count} {'node' if count == 1 else 'nodes'}: {text}"
            for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        )
        return f"0 of {total} {'node' if total == 1 else 'nodes'} fit: {told}"
