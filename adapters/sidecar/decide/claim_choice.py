"""Whether a node's ledger takes the devices of a claim, as a function of values."""

from dataclasses import dataclass, replace

from adapters.dialects.dra import DRA
from adapters.dialects.dra.holders import enlarged
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What the answer depends on.

    Attributes:
        asked: what the claim would hold of the node's cards.
        stored: the node's ledger in the store.
        reserved: the same with this process's reservations.
    """

    asked: Allocation
    stored: NodeLedger
    reserved: NodeLedger


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim does not get devices.

    Attributes:
        cause: in one word, for a metric: ``in_use`` or ``quota``.
        text: in words.
    """

    cause: str
    text: str


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


def conflict(facts: ClaimFacts) -> str | None:
    """Why the devices are not free; None where they are.

    What the claim had on the node before, by an earlier attempt, counts as free.
    """
    asked = facts.asked
    earlier = facts.reserved.allocations.get(asked.uid)
    if earlier is not None:
        if earlier.release_by is not None:
            # Its pods were deleted by force.
            return f"containers of pods that had {asked.pod} before may still run"
        if earlier.unread is not None or earlier.dialect != DRA:
            return f"what {earlier.pod} holds already is not known"
    try:
        facts.reserved.release(asked.uid).reserve(added(asked, facts.reserved))
    except LedgerError as error:
        return str(error)
    return None
