"""Which devices of a ResourceClaim a node's ledger takes: the decision of a commit, as values."""

from dataclasses import dataclass, replace

from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.holders import enlarged
from adapters.service.decide.commit.attempt import Decided, LedgerView
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef

IN_USE, QUOTA, UNCLEAR, PLACED = "in_use", "quota", "unclear", "placed"
"""Causes of a refusal: the devices are in use; the quota of the namespace has less; nothing says
which cards they are; the API server's claim has devices, or is another one."""


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim does not get devices.

    Attributes:
        cause: in one word, for a metric: ``in_use``, ``quota``, ``unclear`` or ``placed``.
        text: in words.
        node: whose ledger cannot have the claim; empty where no ledger is the cause.
    """

    cause: str
    text: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class ClaimOption:
    """Devices that a claim could get: those that its scheduler chose, or others as good.

    Attributes:
        claim: with these devices.
        asked: what it would hold of the node's cards.
    """

    claim: Claim
    asked: Allocation

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.asked.node


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    """A claim that wants devices of one node; an ``Attempt``.

    Attributes:
        options: one or more, all on one node; the first that is free is allocated.
    """

    options: tuple[ClaimOption, ...]

    @property
    def holder(self) -> PodRef:
        """The claim, with its uid."""
        return self.options[0].claim.ref

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.options[0].node

    def decide(self, view: LedgerView) -> Decided[ClaimOption | ClaimRefusal]:
        """Decide as ``Attempt``; a refusal says why the claim does not get the first option."""
        problems: list[str] = []
        for option in self.options:
            problem = conflict(option.asked, view)
            if problem is None:
                allocation = added(option.asked, view.stored)
                return Decided(view, option, view.stored.allocate(allocation), allocation)
            problems.append(problem)
        return Decided(
            view, ClaimRefusal(IN_USE, f"{self.node}: {problems[0]}", self.node), view.stored
        )


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
