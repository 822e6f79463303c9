"""All nodes in numbers, a list of nodes, one node, and what is used of the nodes' cards."""

from asyncio import sleep
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice

from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.web.dashboard.query import (
    MAX_ROWS,
    NodeQuery,
    QueryError,
    of_node,
)
from adapters.service.web.dashboard.rows import FleetIndex, NodeRow, pod_rows
from adapters.wire.agent_report import NodeReport, short
from core.hardware.quantity import FULL, MIB
from core.ledger.node_ledger import NodeLedger

View = dict[str, object]

AskAgents = Callable[[Sequence[str]], Awaitable[Mapping[str, NodeReport]]]
"""Returns what the agents of these nodes report, without those that do not answer in time."""

COMPARED = 1000
"""Nodes that are compared before the event loop gets its turn."""

FACETS = 500
"""Values of one filter that are listed, the most frequent first."""

DECISIONS = 50
"""Decisions of one node or pod that are shown."""


async def summary(index: FleetIndex) -> View:
    """Return all nodes in numbers, and the values of the filters."""
    models: Counter[str] = Counter()
    namespaces: Counter[str] = Counter()
    dialects: Counter[str] = Counter()
    cards = pods = unhealthy = troubled = memory = granted = 0
    for number, row in enumerate(await index.rows()):
        if number % COMPARED == 0:
            await sleep(0)
        cards += 0 if row.ledger is None else len(row.ledger.node.cards)
        pods += len(row.pods)
        unhealthy += row.unhealthy
        troubled += row.has_problem
        memory += row.memory
        granted += row.granted
        models.update(row.models)
        namespaces.update(row.namespaces)
        dialects.update(row.dialects)
    return {
        "nodes": len(await index.rows()),
        "cards": cards,
        "pods": pods,
        "unhealthyCards": unhealthy,
        "nodesWithProblems": troubled,
        "memoryMiB": memory // MIB,
        "grantedMiB": granted // MIB,
        "models": _facet(models),
        "namespaces": _facet(namespaces),
        "dialects": _facet(dialects),
    }


async def nodes(index: FleetIndex, query: Mapping[str, str]) -> View:
    """Return the nodes that a question asks for, each with its cards.

    Raises:
        QueryError: a parameter is invalid.
    """
    question, rows = NodeQuery.of(query), await index.rows()
    found: list[NodeRow] = []
    for start in range(0, len(rows), COMPARED):
        found += [row for row in rows[start : start + COMPARED] if row.matches(question)]
        await sleep(0)
    found.sort(key=lambda row: row.key(question.sort), reverse=question.reverse)
    return {"total": len(found), "rows": [row.view() for row in question.window.part(found)]}


async def node(index: FleetIndex, history: StructuredDecisionLog, name: str) -> View | None:
    """Return one node with its cards, pods, problems and decisions; None where it is not known."""
    row = next((row for row in await index.rows() if row.name == name), None)
    if row is None:
        return None
    return {
        **row.view(len(row.problems)),
        "holders": [] if row.ledger is None else list(pod_rows(row.ledger)),
        "decisions": list(islice(of_node(history, name), DECISIONS)),
    }


def _facet(counted: Counter[str]) -> list[View]:
    most = counted.most_common(FACETS)
    return [{"name": name, "nodes": count} for name, count in sorted(most)]


async def used(index: FleetIndex, agents: AskAgents | None, query: Mapping[str, str]) -> View:
    """Return the use of the nodes that ``nodes`` names, separated by commas; memory in MiB.

    A card's figure is the driver's. A pod's is HAMi-core's record, which the pod can write: it is
    shown and decides nothing. Only cards and pods of the ledger are in the answer.

    Raises:
        QueryError: there are more than ``MAX_ROWS`` of them.
    """
    names = frozenset(filter(None, query.get("nodes", "").split(",")))
    if len(names) > MAX_ROWS:
        raise QueryError(f"nodes: {len(names)} names: must be {MAX_ROWS} or fewer")
    if agents is None:
        return {"asked": False, "nodes": {}}
    ledgers = {row.name: row.ledger for row in await index.rows() if row.name in names}
    reports = await agents(sorted(ledgers))
    return {
        "asked": True,
        "nodes": {
            name: _used_of_node(ledger, reports[name])
            for name, ledger in ledgers.items()
            if ledger is not None and name in reports
        },
    }


def _used_of_node(ledger: NodeLedger, report: NodeReport) -> View:
    """Return the use of cards and pods; no card has more in use than it has."""
    cards = {short(card.uuid): card for card in ledger.node.cards}
    pods = {allocation.pod for allocation in ledger.allocations.values()}
    by_pod: dict[str, dict[str, int]] = {}
    for each in report.containers:
        card = cards.get(each.card)
        if card is not None and each.used is not None and each.pod in pods:
            of_pod = by_pod.setdefault(each.pod, {})
            share = min(each.used, card.memory) // MIB
            of_pod[card.uuid] = min(of_pod.get(card.uuid, 0) + share, card.memory // MIB)
    return {
        "cards": {
            card.uuid: {
                "usedMiB": None if use.memory is None else min(use.memory, card.memory) // MIB,
                "compute": None if use.compute is None else min(use.compute, FULL),
            }
            for key, use in report.cards.items()
            if (card := cards.get(key)) is not None
        },
        "pods": by_pod,
    }
