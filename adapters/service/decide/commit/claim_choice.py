"""Whether a node's ledger takes the devices of a ResourceClaim, as a function of values."""

from dataclasses import dataclass, replace

from adapters.dialects.dra import DRA
from adapters.dialects.dra.holders import enlarged
from adapters.service.decide.commit.attempt import Decided, LedgerView
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef

IN_USE, QUOTA = "in_use", "quota"
"""Causes of a refusal."""


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim does not get devices.

    Attributes:
        cause: in one word, for a metric: ``in_use`` or ``quota``.
        text: in words.
    """

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    """A claim for which a scheduler chose devices; an ``Attempt``.

    Attributes:
        asked: what the claim would hold of the node's cards.
    """

    asked: Allocation

    @property
    def holder(self) -> PodRef:
        """The claim, with its uid."""
        return self.asked.pod_ref

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.asked.node

    def decide(self, view: LedgerView) -> Decided[ClaimRefusal | None]:
        """Decide as ``Attempt``; the answer is why the claim does not get its devices."""
        problem = conflict(self.asked, view)
        if problem is not None:
            return Decided(view, ClaimRefusal(IN_USE, problem), view.stored)
        allocation = added(self.asked, view.stored)
        return Decided(view, None, view.stored.allocate(allocation), allocation)


def added(asked: Allocation, ledger: NodeLedger) -> Allocation:
    """What the claim would hold after it got its devices: never less than it holds before.

    An earlier attempt may be the one that the API server writes, so it holds its devices too until
    the reconciler has seen which allocation the claim has.

    Args:
        asked: what the scheduler chose.
        ledger: of the node.
    """
    earlier = ledger.allocations.get(asked.uid)
    if earlier is None:
        return asked
    devices = asked.devices if earlier.devices == asked.devices else ""
    return replace(asked, grants=enlarged(earlier.grants, asked.grants), devices=devices)


def conflict(asked: Allocation, view: LedgerView) -> str | None:
    """Why the devices are not free; None where they are.

    What the claim had on the node before, by an earlier attempt, counts as free.

    Args:
        asked: what the scheduler chose.
        view: of the node's ledger.
    """
    earlier = view.reserved.allocations.get(asked.uid)
    if earlier is not None:
        if earlier.release_by is not None:
            # Its pods were deleted by force.
            return f"containers of pods that had {asked.pod} before may still run"
        if earlier.unread is not None or earlier.dialect != DRA:
            return f"what {earlier.pod} holds already is not known"
    try:
        view.reserved.release(asked.uid).reserve(added(asked, view.reserved))
    except LedgerError as error:
        return str(error)
    return None
