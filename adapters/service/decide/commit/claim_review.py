"""What becomes of the devices that a scheduler chose for a ResourceClaim, as functions of values.

A review is hearsay: any pod can send one, and a scheduler can write any text. So it is decided in
this order, and ``endpoints.claim_admission`` does the I/O between the steps:

    ``decide_claim``    what the claim would hold of which node's cards, if that is clear
    ``contradiction``   whether the API server has such a claim, and it has no devices yet
    the commit          the chosen devices are allocated, if they are free (``committer``)
    ``as_good``         else the devices of the same pool and node that may stand in for them
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.consumption import ConsumptionError, PoolName, others, with_shares
from adapters.dialects.dra.devices import Devices, means_cards
from adapters.dialects.dra.holders import holding
from adapters.service.decide.commit.attempt import PLACED, UNCLEAR, ClaimOption, ClaimRefusal
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire import dra
from core.hardware.node import Node
from core.requests.grant import Allocation


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What the answer to a review depends on, beside the ledger that is written.

    Attributes:
        attempt: identifies the write; the ids of shares follow from it.
        claim: as its scheduler allocated it.
        requested: the same claim with what it requests.
        nodes: those with a ledger on which it may have devices, by name.
        devices: of all slices of the cluster.
        pools: the slices of its devices' pools on these nodes, of the newest generation.
        classes: the device classes that it names and that exist, by name.
    """

    attempt: str
    claim: Claim
    requested: dra.RequestedClaim
    nodes: Mapping[str, Node]
    devices: Devices
    pools: Mapping[PoolName, Sequence[dra.ResourceSlice]]
    classes: Mapping[str, dra.DeviceClass]


def decide_claim(facts: ClaimFacts) -> ClaimOption | ClaimRefusal | None:
    """Return what a claim would hold with the devices that were chosen for it, with their shares.

    Returns:
        what is to be committed; why the ledger cannot have it; None where it holds no card.
    """
    claim, nodes, devices = facts.claim, facts.nodes, facts.devices
    missing = node_without_ledger(claim, nodes, devices)
    if missing:
        return ClaimRefusal(UNCLEAR, f"{missing} has no ledger yet", missing)
    problem = ""
    try:
        claim = with_shares(claim, facts.requested, facts.pools, facts.attempt)
    except ConsumptionError as error:
        problem = str(error)
    held = holdings(claim, nodes, devices)
    if not held:
        return None  # whatever its shares of devices are that are no cards
    if problem:
        return ClaimRefusal(UNCLEAR, problem, held[0].node)
    return unclear(held) or ClaimOption(claim, held[0])


def contradiction(claim: Claim, live: dra.ResourceClaim | None) -> ClaimRefusal | None:
    """Return why a claim gets no devices by what the API server has; None where it may get some.

    So a review that the API server did not send changes nothing that a claim has.

    Args:
        claim: by the review.
        live: of this name, as the API server has it; None where there is none.
    """
    if live is None or live.metadata.uid != claim.uid:
        return ClaimRefusal(PLACED, f"the API server has no such claim {claim.name}")
    if allocated(live) is not None:
        return ClaimRefusal(PLACED, f"the API server's {claim.name} has devices already")
    return None


def as_good(facts: ClaimFacts, chosen: ClaimOption) -> tuple[ClaimOption, ...]:
    """Return the claim with each device that may stand in for the chosen one, on the same node.

    A claim of several devices has none, those for administration included.
    """
    results = chosen.claim.all_results
    if len(results) != 1:
        return ()
    first = results[0]
    slices = facts.pools.get((first.driver, first.pool), ())
    found: list[ClaimOption] = []
    for name in others(facts.requested, results, slices, facts.classes):
        result = msgspec.structs.replace(first, device=name)
        claim = replace(chosen.claim, all_results=(result,))
        held = holdings(claim, facts.nodes, facts.devices)
        is_here = [each.node for each in held] == [chosen.node]
        if is_here and unclear(held) is None:
            found.append(ClaimOption(claim, held[0]))
    return tuple(found)


def without_taints(
    options: Iterable[ClaimOption], rules: Iterable[dra.DeviceTaintRule]
) -> tuple[ClaimOption, ...]:
    """Return the options without a device that is tainted: its pods would be evicted."""
    rules = tuple(rules)
    return tuple(
        option
        for option in options
        if not any(
            rule.selects(each.driver, each.pool, each.device)
            for each in option.claim.all_results
            for rule in rules
        )
    )


def nodes_of(claim: Claim, ledgers: LedgerCache) -> dict[str, Node]:
    """Return the nodes with a ledger on which a claim may have devices, by name."""
    names = ledgers.inventory.names() if claim.nodes is None else sorted(claim.nodes)
    found = ((name, ledgers.ledger(name)) for name in names)
    return {name: ledger.node for name, ledger in found if ledger is not None}


def holdings(claim: Claim, nodes: Mapping[str, Node], devices: Devices) -> tuple[Allocation, ...]:
    """Return what a claim would hold, on each node of which it would hold a card.

    Args:
        claim: with devices.
        nodes: as ``nodes_of``.
        devices: of all slices of the cluster.
    """
    found = (holding(claim, node, devices) for node in nodes.values())
    return tuple(each for each in found if each is not None)


def node_without_ledger(claim: Claim, nodes: Iterable[str], devices: Devices) -> str:
    """Return a node without a ledger of which a claim may have a card; empty for none.

    A device that no slice describes may be a card of the node.

    Args:
        claim: with devices.
        nodes: the names of ``nodes_of``.
        devices: of all slices of the cluster.
    """
    for result in claim.results:
        if not means_cards(result.driver):
            continue
        publishing = devices.nodes_of_pool(result.driver, result.pool)
        for node in sorted(publishing if claim.nodes is None else claim.nodes):
            device = devices.get(node, (result.driver, result.pool, result.device))
            is_elsewhere = device is not None and device.node != node
            if is_elsewhere or not (device is None or device.card):
                continue
            if node not in nodes:
                return node
    return ""


def unclear(held: Sequence[Allocation]) -> ClaimRefusal | None:
    """Return why the ledger cannot say what a claim takes; None where it can.

    Args:
        held: what it would hold, on one node or more.
    """
    node = held[0].node
    if len(held) > 1:
        nodes = ", ".join(each.node for each in held)
        return ClaimRefusal(UNCLEAR, f"its devices may be cards of several nodes: {nodes}", node)
    unread = held[0].unread
    return None if unread is None else ClaimRefusal(UNCLEAR, f"{node}: {unread}", node)
