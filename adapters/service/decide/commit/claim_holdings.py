"""What a claim would hold of the cards of the cluster."""

from collections.abc import Sequence

from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.devices import Devices, means_cards
from adapters.dialects.dra.holders import holding
from adapters.service.decide.state.ledger_cache import LedgerCache
from core.requests.grant import Allocation


def holdings(claim: Claim, ledgers: LedgerCache, devices: Devices) -> tuple[Allocation, ...]:
    """What the claim would hold, on each node of which it would hold a card."""
    names = ledgers.inventory.names() if claim.nodes is None else sorted(claim.nodes)
    found = (
        holding(claim, ledger.node, devices)
        for name in names
        if (ledger := ledgers.ledger(name)) is not None
    )
    return tuple(each for each in found if each is not None)


def node_without_ledger(claim: Claim, ledgers: LedgerCache, devices: Devices) -> str:
    """A node without a ledger of which the claim may have a card; empty where there is none.

    A device that no slice describes may be a card of the node.
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
            if ledgers.ledger(node) is None:
                return node
    return ""


def unclear(held: Sequence[Allocation]) -> str | None:
    """Why the ledger cannot say what a claim takes; None where it can."""
    if len(held) > 1:
        nodes = ", ".join(each.node for each in held)
        return f"dragoman: its devices may be cards of several nodes: {nodes}"
    return None if held[0].unread is None else f"dragoman: {held[0].node}: {held[0].unread}"
