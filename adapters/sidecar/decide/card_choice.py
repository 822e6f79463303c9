"""Which cards of a node a pod gets: the decision of a commit, as a function of values."""

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.sidecar.decide.validate import answers, is_valid
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Committed:
    """The allocation that a pod has now.

    Attributes:
        placement: on its node.
        new: False where the store had the allocation before.
        claim_accepted: it is the choice of cards that came with the request.
        since: of the allocation: it identifies this attempt to bind.
    """

    placement: Placement
    new: bool
    claim_accepted: bool = False
    since: int = 0

    @property
    def is_untouched(self) -> bool:
        """Whether the pod gets nothing of the ledger: a device plugin serves it on its node."""
        return not self.placement.grants and not self.placement.blocked


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What the choice depends on beside the request.

    Attributes:
        stored: the node's ledger in the store.
        reserved: the same with this process's reservations.
        own: the pod's reservation, on any node.
        claimed: a choice of cards that is accepted if it is valid.
    """

    stored: NodeLedger
    reserved: NodeLedger
    own: Allocation | None
    claimed: Sequence[Grant] = ()


def choose_cards(request: Request, facts: CommitFacts) -> Committed | Reason:
    """What the pod has already, else its reservation, else its claim, else what fits."""
    stored, own, claimed = facts.stored, facts.own, tuple(facts.claimed)
    node = stored.node.name
    earlier = stored.allocations.get(request.uid)
    if earlier is not None and earlier.unread is not None and request.plugin is None:
        return Reason(node, len(stored.node.cards), cause=Cause.BLOCKED)
    if earlier is not None and earlier.unread is None:
        if not answers(request, earlier.grants, stored.node):
            return Reason(node, len(stored.node.cards), cause=Cause.OTHER_REQUEST)
        return Committed(Placement(node, earlier.grants), new=False)
    if (
        own is not None
        and own.node == node
        and claimed in ((), own.grants)
        and is_valid(request, own.grants, stored)
    ):
        return Committed(Placement(node, own.grants), new=True, claim_accepted=bool(claimed))
    ledger = facts.reserved.release(request.uid)
    if claimed and is_valid(request, claimed, ledger):
        return Committed(Placement(node, claimed), new=True, claim_accepted=True)
    result = fit(request, ledger)
    return result if isinstance(result, Reason) else Committed(result, new=True)
