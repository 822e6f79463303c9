"""What is used of the cards of some nodes, as their agents report it; memory in MiB.

A card's figure is the driver's. A pod's is HAMi-core's record, which the pod can write: it is
shown and decides nothing. Only cards and pods of the ledger are in the answer.
"""

from collections.abc import Iterator, Mapping

from adapters.service.web.dashboard.agents import AgentReader
from adapters.service.web.dashboard.fleet_index import FleetIndex
from adapters.service.web.dashboard.query import MAX_ROWS, QueryError
from adapters.wire.agent_report import NodeReport, Use, short
from core.hardware.card import Card
from core.hardware.quantity import FULL, MIB
from core.ledger.node_ledger import NodeLedger

View = dict[str, object]


async def used(index: FleetIndex, agents: AgentReader, query: Mapping[str, str]) -> View:
    """Return the use of the nodes that ``nodes`` names, separated by commas.

    Raises:
        QueryError: there are more than ``MAX_ROWS`` of them.
    """
    names = frozenset(filter(None, query.get("nodes", "").split(",")))
    if len(names) > MAX_ROWS:
        raise QueryError(f"nodes: {len(names)} names: must be {MAX_ROWS} or fewer")
    if not agents.asks:
        return {"asked": False, "nodes": {}}
    ledgers = {row.name: row.ledger for row in await index.rows() if row.name in names}
    reports = await agents.reports(sorted(ledgers))
    return {
        "asked": True,
        "nodes": {
            name: _node(ledger, reports[name])
            for name, ledger in ledgers.items()
            if ledger is not None and name in reports
        },
    }


def _node(ledger: NodeLedger, report: NodeReport) -> View:
    cards = {short(card.uuid): card for card in ledger.node.cards}
    pods = {allocation.pod for allocation in ledger.allocations.values()}
    by_pod: dict[str, dict[str, int]] = {}
    for pod, card, used in _shares(report, cards):
        if pod in pods:
            of_pod = by_pod.setdefault(pod, {})
            of_pod[card.uuid] = min(of_pod.get(card.uuid, 0) + used, card.memory // MIB)
    return {
        "cards": {
            cards[key].uuid: _card(cards[key], use)
            for key, use in report.cards.items()
            if key in cards
        },
        "pods": by_pod,
    }


def _card(card: Card, use: Use) -> View:
    return {
        "usedMiB": None if use.memory is None else min(use.memory, card.memory) // MIB,
        "compute": None if use.compute is None else min(use.compute, FULL),
    }


def _shares(report: NodeReport, cards: Mapping[str, Card]) -> Iterator[tuple[str, Card, int]]:
    """Pod, card, and MiB that one container uses; no card has more in use than it has."""
    for each in report.containers:
        card = cards.get(each.card)
        if card is not None and each.used is not None:
            yield each.pod, card, min(each.used, card.memory) // MIB
