"""What a claim has on this node: its devices, each with its grant of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass

from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.claims import Claim
from adapters.wire.dra import DeviceResult
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, AllocationState, Grant
from core.requests.limits import GrantError


@dataclass(frozen=True, slots=True)
class GrantedDevice:
    """A device that a scheduler allocated, and what the ledger grants of its card."""

    result: DeviceResult
    grant: Grant


class NotCommittedError(GrantError):
    """The ledger does not have the claim; it may come."""


def granted_devices(
    claim: Claim, ledger: NodeLedger | None, cards: Mapping[str, str]
) -> tuple[GrantedDevice, ...]:
    """Our driver's devices of a claim, in its order.

    The amounts are the ledger's: the claim only names which device is meant.

    Args:
        claim: with its allocation.
        ledger: of this node; None where it has none.
        cards: uuid of the card of each published device, by the device's name.

    Raises:
        NotCommittedError: the ledger has no allocation of the claim yet.
        GrantError: ledger and claim disagree, or a card is over-allocated.
    """
    own = [each for each in claim.results if each.driver == DRIVER]
    allocation = _allocation(claim, ledger)
    rest = list(allocation.grants)
    found: list[GrantedDevice] = []
    for result in own:
        card = cards.get(result.device)
        if card is None:
            raise GrantError(f"claim {claim.name}: this node has no device {result.device}")
        grant = next((each for each in rest if each.card == card), None)
        if grant is None:
            raise GrantError(
                f"claim {claim.name}: the ledger grants nothing of card {card} for device"
                f" {result.device}"
            )
        rest.remove(grant)
        found.append(GrantedDevice(result, grant))
    _check_cards(claim, ledger, {each.grant.card for each in found})
    return tuple(found)


def _allocation(claim: Claim, ledger: NodeLedger | None) -> Allocation:
    found = None if ledger is None else ledger.allocations.get(claim.uid)
    if found is None or found.state is not AllocationState.COMMITTED:
        raise NotCommittedError(f"claim {claim.name}: the ledger has no allocation of it yet")
    if found.unread is not None:
        raise GrantError(f"claim {claim.name}: {found.unread}")
    if found.release_by is not None:
        raise GrantError(
            f"claim {claim.name}: it was deallocated, and its cards are being released"
        )
    return found


def _check_cards(claim: Claim, ledger: NodeLedger | None, cards: set[str]) -> None:
    """The last gate: where no arbiter was asked, two allocations may have the same part.

    Raises:
        GrantError: a card has less than the ledger's allocations of it.
    """
    for problem in () if ledger is None else ledger.problems():
        if problem.card in cards:
            raise GrantError(f"claim {claim.name}: {problem.text}")
