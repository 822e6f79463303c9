"""What a claim holds of a node's cards, as an allocation of the ledger."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.devices import MEMORY, Devices, PublishedDevice, means_cards, own_name
from adapters.wire.dra import DeviceResult
from adapters.wire.quantity import QuantityError, parse
from core.hardware.card import Card, Mode
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL, MAX_MEMORY
from core.requests.grant import Allocation, Grant

PRIORITY = (1 << 31) - 1
"""Above that of every pod: a scheduler evicts pods, and no claim is one."""

COMPUTE = "cores"
"""The capacity of a device that means its compute, of HAMi's driver."""


class _UnclearResultError(ValueError):
    """A result does not say what it takes of the cards.

    Attributes:
        cards: uuids of those that it may mean.
    """

    def __init__(self, problem: str, cards: Iterable[str]) -> None:
        super().__init__(problem)
        self.cards = frozenset(cards)


def holding(
    claim: Claim, node: Node, devices: Devices, earlier: Allocation | None = None
) -> Allocation | None:
    """Return what a claim holds of a node's cards; None where it holds nothing there.

    As long as the claim has the same allocation, it never holds less than its ledger says, whatever
    the slices say by now: drivers change them, and the kubelet deletes those of its node when it
    starts. A device that has become another card is held beside the earlier one.

    A device without ``shareID`` is held as a whole. Where a result is not clear, all cards of the
    node that it may mean count as in use, and ``unread`` says why: a device of a driver of cards
    that no slice describes may be each card of the node.

    Args:
        claim: with an allocation.
        node: with its cards.
        devices: of all slices of the cluster.
        earlier: what the node's ledger says that the claim holds; None where it lacks the claim.
    """
    found = _by_slices(claim, node, devices)
    if earlier is None:
        return found
    if claim.unread is None and earlier.devices not in ("", claim.devices):
        return found
    kept = replace(earlier, attempt=0, release_by=None)
    if found is None:
        return kept if claim.nodes is None or node.name in claim.nodes else None
    if found.unread is not None:
        if earlier.unread is None:
            return kept
        return replace(found, blocked=found.blocked | earlier.blocked)
    if earlier.unread is not None or not earlier.devices:
        return found
    return replace(kept, grants=enlarged(earlier.grants, found.grants))


def enlarged(earlier: Sequence[Grant], newer: Iterable[Grant]) -> tuple[Grant, ...]:
    """Return what a claim holds whose devices may be by either of two lists: no less than by each.

    Grants of one card, or of one slice of it, are compared in their order.
    """
    found = list(earlier)
    rest = list(range(len(found)))
    for grant in newer:
        where = next((i for i in rest if _place(found[i]) == _place(grant)), None)
        if where is None:
            found.append(grant)
            continue
        rest.remove(where)
        known = found[where]
        # The memory of a whole card is as the node describes it.
        is_whole = known.exclusive and grant.exclusive
        found[where] = replace(
            grant,
            memory=grant.memory if is_whole else max(known.memory, grant.memory),
            compute=max(known.compute, grant.compute),
            exclusive=known.exclusive or grant.exclusive,
        )
    return tuple(found)


def _place(grant: Grant) -> tuple[str, Slice | None]:
    return grant.card, grant.slice


def _by_slices(claim: Claim, node: Node, devices: Devices) -> Allocation | None:
    grants: list[Grant] = []
    problems: list[str] = []
    blocked: set[str] = set()
    if claim.unread is None:
        for result in claim.results:
            try:
                grant = _grant(claim, result, node, devices)
                grants += () if grant is None else (grant,)
            except _UnclearResultError as error:
                problems.append(str(error))
                blocked |= error.cards
    elif claim.nodes is None or node.name in claim.nodes:
        problems.append(claim.unread)
        blocked |= {card.uuid for card in node.cards}
    if not grants and not blocked:
        return None
    return Allocation(
        claim.uid,
        claim.name,
        DRA,
        node.name,
        () if blocked else tuple(grants),
        priority=PRIORITY,
        unread="; ".join(problems) if blocked else None,
        blocked=frozenset(blocked | {grant.card for grant in grants}) if blocked else frozenset(),
        devices=claim.devices,
    )


def _grant(claim: Claim, result: DeviceResult, node: Node, devices: Devices) -> Grant | None:
    """Return the part of a card of the node that a result is; None where it is none of its cards.

    Raises:
        _UnclearResultError: it may be a card of the node, and nothing says which part of which.
    """
    device = devices.get(node.name, (result.driver, result.pool, result.device))
    if device is None or not device.card:
        if not _may_be_here(claim, result, node, devices):
            return None
        what = "no ResourceSlice describes" if device is None else "no card's uuid is stated for"
        raise _UnclearResultError(f"{what} {_name(result)}", (card.uuid for card in node.cards))
    card = next((each for each in node.cards if each.uuid == device.card), None)
    if card is None:
        cards = devices.beside(device) & {each.uuid for each in node.cards}
        if cards:
            raise _UnclearResultError(
                f"no ResourceSlice says which part of a card is {_name(result)}", cards
            )
        return None
    if device.profile:
        wanted = (device.profile.lower(), device.start)
        layouts = card.geometry.layouts if card.mode is Mode.MIG else ()
        for slot in (slot for layout in layouts for slot in layout.slices):
            if (slot.profile.lower(), slot.start) == wanted:
                return Grant("", card.uuid, slot.memory, slot.compute, slice=slot)
        text = f"no layout of card {card.uuid} has the {device.profile} of {_name(result)}"
        raise _UnclearResultError(text, (card.uuid,))
    if result.share_id is None:
        return Grant("", card.uuid, card.memory, FULL, exclusive=True)
    return _of_share(result, device, card)


def _may_be_here(claim: Claim, result: DeviceResult, node: Node, devices: Devices) -> bool:
    uuids = {card.uuid for card in node.cards}
    is_of_cards = means_cards(result.driver) or devices.describe_card(
        result.driver, node.name, uuids
    )
    if result.driver and not is_of_cards:
        return False
    if claim.nodes is not None:
        return node.name in claim.nodes
    publishing = devices.nodes_of_pool(result.driver, result.pool)
    return not publishing or node.name in publishing


def _of_share(result: DeviceResult, device: PublishedDevice, card: Card) -> Grant:
    """Return the share that a result consumes.

    A capacity that it does not state is consumed as a whole. Of two amounts for one, the larger
    counts.

    Raises:
        _UnclearResultError: an amount cannot be parsed, or no card has as much.
    """
    consumed: dict[str, Fraction] = {}
    for name, stated in (result.consumed_capacity or {}).items():
        own = own_name(name, result.driver)
        if own in (MEMORY, COMPUTE):
            try:
                amount = parse(str(stated))
            except QuantityError as error:
                problem = f"consumedCapacity of {_name(result)}: {error}"
                raise _UnclearResultError(problem, (card.uuid,)) from error
            consumed[own] = max(amount, consumed.get(own, amount))
    memory, total = consumed.get(MEMORY), device.amounts.get(MEMORY)
    if memory is None or (total is not None and memory >= total):
        memory = Fraction(card.memory)
    cores = consumed.get(COMPUTE, Fraction(0))
    compute = cores * FULL / (device.amounts.get(COMPUTE) or FULL)
    # A claim that consumes no memory could use all of it: nothing would limit it.
    for amount, is_valid, limits in (
        (memory, 0 < memory <= MAX_MEMORY, f"memory must be more than 0 and at most {MAX_MEMORY}"),
        (compute, 0 <= compute <= FULL, f"compute must be 0 to {FULL} percent of the card"),
    ):
        if not is_valid:
            raise _UnclearResultError(
                f"consumedCapacity of {_name(result)}: {float(amount):g}: {limits}", (card.uuid,)
            )
    return Grant("", card.uuid, ceil(memory), ceil(compute))


def _name(result: DeviceResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"
