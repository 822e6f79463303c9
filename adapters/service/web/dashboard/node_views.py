"""All nodes in numbers, a list of nodes, and one node."""

from asyncio import sleep
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from adapters.service.web.dashboard.fleet_index import FleetIndex
from adapters.service.web.dashboard.history import DecisionHistory, of_node
from adapters.service.web.dashboard.node_row import NodeRow
from adapters.service.web.dashboard.pod_row import pod_rows
from adapters.service.web.dashboard.query import NodeQuery
from core.hardware.quantity import MIB

View = dict[str, object]

COMPARED = 1000
"""Nodes that are compared before the event loop gets its turn."""

FACETS = 500
"""Values of one filter that are listed, the most frequent first."""

DECISIONS = 50
"""Decisions of one node or pod that are shown."""


async def summary(index: FleetIndex) -> View:
    """All nodes in numbers, and the values of the filters."""
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
    """The nodes that a question asks for, each with its cards.

    Raises:
        QueryError: a parameter is invalid.
    """
    question = NodeQuery.of(query)
    found = await _matching(await index.rows(), question)
    found.sort(key=lambda row: row.key(question.sort), reverse=question.reverse)
    return {"total": len(found), "rows": [row.view() for row in question.window.part(found)]}


async def node(index: FleetIndex, history: DecisionHistory, name: str) -> View | None:
    """One node with its cards, pods, problems and decisions; None where it is not known."""
    row = next((row for row in await index.rows() if row.name == name), None)
    if row is None:
        return None
    return {
        **row.view(len(row.problems)),
        "holders": [] if row.ledger is None else list(pod_rows(row.ledger)),
        "decisions": list(islice(of_node(history, name), DECISIONS)),
    }


async def _matching(rows: Sequence[NodeRow], question: NodeQuery) -> list[NodeRow]:
    found: list[NodeRow] = []
    for start in range(0, len(rows), COMPARED):
        found += [row for row in rows[start : start + COMPARED] if row.matches(question)]
        await sleep(0)
    return found


def _facet(counted: Counter[str]) -> list[View]:
    most = counted.most_common(FACETS)
    return [{"name": name, "nodes": count} for name, count in sorted(most)]
