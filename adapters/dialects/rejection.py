"""What a person reads of the node that a request does not fit."""

from adapters.dialects import registry
from core.requests.reason import Cause, Reason
from core.requests.request import Request


def rejection_text(request: Request, reason: Reason) -> str:
    """The text of a reason; for a node without cards, also where its cards were looked for."""
    sources = registry.node_sources({request.dialect, *request.alternatives})
    if reason.cause is not Cause.NO_CARDS or not sources:
        return reason.text()
    return f"{reason.text()}: it has neither {' nor '.join(sources)}, nor a report of its agent"
