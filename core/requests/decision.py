"""The answer to a request, with its reasons."""

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
