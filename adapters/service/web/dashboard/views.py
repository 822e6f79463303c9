"""What the page shows of nodes, of pods with cards, and of pods that wait with their reasons."""

from asyncio import sleep
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from adapters.dialects.dialect import DialectError
from adapters.service.decide.advice.explain import Explanation, WaitingAnswers
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.web.dashboard.rows import (
    HEALTH,
    MAX_DIGITS,
    MAX_ROWS,
    ORDERS,
    SORTS,
    FleetIndex,
    NodeRow,
    QueryError,
    Window,
    choice,
    number,
    of_node,
    of_pod,
    pod_rows,
    words,
)
from adapters.wire.agent_report import NodeReport, short
from adapters.wire.kube import Pod, full_name
from core.durations import SECOND
from core.hardware.quantity import FULL, MIB

View = dict[str, object]

AskAgents = Callable[[Sequence[str]], Awaitable[Mapping[str, NodeReport]]]
"""Returns what the agents of these nodes report, without those that do not answer in time."""

FITTING = 20
"""Nodes that fit and are named."""

READ = 200
"""Pods whose request is read before the event loop gets its turn."""

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
    for at, row in enumerate(await index.rows()):
        if at % COMPARED == 0:
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

    ``q`` has words that all occur in the node's name, or in the uuids, models or pods of its cards;
    ``node``, ``model``, ``namespace`` and ``dialect`` are exact, ``freeMiB`` is the least of its
    largest free share.

    Raises:
        QueryError: a parameter is invalid.
    """
    sought, window, health = words(query), Window.of(query), choice(query, "health", HEALTH)
    free = number(query, "freeMiB", 0, 10**MAX_DIGITS) * MIB
    sort, reverse = choice(query, "sort", SORTS), choice(query, "order", ORDERS) == ORDERS[1]
    exact = [query.get(name, "") for name in ("node", "model", "namespace", "dialect")]
    rows, found = await index.rows(), list[NodeRow]()
    for at, row in enumerate(rows):
        if at % COMPARED == 0:
            await sleep(0)
        has = ((row.name,), row.models, row.namespaces, row.dialects)
        if (
            (health == "any" or row.has_problem == (health == "problems"))
            and all(not one or one in those for one, those in zip(exact, has, strict=True))
            and row.largest >= free
            and all(word in row.text for word in sought)
        ):
            found.append(row)
    found.sort(key=lambda row: row.key(sort), reverse=reverse)
    return {"total": len(found), "rows": [row.view() for row in window.part(found)]}


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
    shown and decides nothing. Only cards and pods of the ledger are in the answer, and no card has
    more in use than it has.

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
    shown: dict[str, View] = {}
    for name, ledger in ledgers.items():
        if ledger is None or name not in reports:
            continue
        cards = {short(card.uuid): card for card in ledger.node.cards}
        pods = {allocation.pod for allocation in ledger.allocations.values()}
        by_pod: dict[str, dict[str, int]] = {}
        for each in reports[name].containers:
            card = cards.get(each.card)
            if card is not None and each.used is not None and each.pod in pods:
                of_pod = by_pod.setdefault(each.pod, {})
                share = min(each.used, card.memory) // MIB
                of_pod[card.uuid] = min(of_pod.get(card.uuid, 0) + share, card.memory // MIB)
        by_card = {
            card.uuid: {
                "usedMiB": None if use.memory is None else min(use.memory, card.memory) // MIB,
                "compute": None if use.compute is None else min(use.compute, FULL),
            }
            for key, use in reports[name].cards.items()
            if (card := cards.get(key)) is not None
        }
        shown[name] = {"cards": by_card, "pods": by_pod}
    return {"asked": True, "nodes": shown}


async def pods(index: FleetIndex, query: Mapping[str, str]) -> View:
    """Return the pods with cards: ``q``, ``namespace``, ``dialect`` and ``node`` choose among them.

    Raises:
        QueryError: a parameter is invalid.
    """
    sought, window, namespace = words(query), Window.of(query), query.get("namespace", "")
    found: list[tuple[str, str]] = []
    by_name = {row.name: row for row in await index.rows()}
    for at, row in enumerate(by_name.values()):
        if at % COMPARED == 0:
            await sleep(0)
        if row.ledger is None or query.get("node", row.name) != row.name:
            continue
        found += [
            (each.pod, row.name)
            for each in row.ledger.allocations.values()
            if query.get("dialect", each.dialect) == each.dialect
            if not namespace or each.pod.startswith(f"{namespace}/")
            if all(word in f"{each.pod}\n{row.name}".lower() for word in sought)
        ]
    found.sort()
    shown = window.part(found)
    views = {
        (str(view["pod"]), name): view
        for name in dict.fromkeys(name for _, name in shown)
        if (ledger := by_name[name].ledger) is not None
        for view in pod_rows(ledger)
    }
    return {"total": len(found), "rows": [views[each] for each in shown]}


async def pod(
    index: FleetIndex,
    history: StructuredDecisionLog,
    answers: WaitingAnswers,
    unbound: Sequence[Pod],
    name: str,
) -> View | None:
    """Return one pod by ``namespace/name``; None where nothing is known of it."""
    held = [
        view
        for row in await index.rows()
        if name in row.pods and row.ledger is not None
        for view in pod_rows(row.ledger)
        if view["pod"] == name
    ]
    decided = of_pod(history, name)
    waiting = next((each for each in unbound if full_name(each) == name), None)
    if not (held or decided or waiting):
        return None
    answer = None if waiting is None else answers.get(waiting.metadata.uid)
    answered: View | None = None
    if answer is not None:
        answered = {
            "summary": answer.summary,
            "best": answer.best,
            "fitting": answer.fitting,
            "groups": answer.groups,
            "checked": _iso(answer.at),
        }
    return {
        "pod": name,
        "pending": waiting is not None,
        "answer": answered,
        "allocations": held,
        "decisions": list(islice(decided, DECISIONS)),
    }


async def pending(
    service: Service,
    history: StructuredDecisionLog,
    unbound: Callable[[], Sequence[Pod]],
    query: Mapping[str, str],
) -> View:
    """Return the pods that request a share and have no node, each with its reason.

    The reason is the latest answer of the background evaluation, with the time at which it held;
    before the first one, the latest refusal.

    Raises:
        QueryError: a parameter is invalid.
    """
    sought, window = words(query), Window.of(query)
    found: list[View] = []
    for at, each in enumerate(sorted(unbound(), key=full_name)):
        if at % READ == 0:
            await sleep(0)
        if query.get("namespace", each.metadata.namespace) != each.metadata.namespace:
            continue
        answer = service.waiting_answers.get(each.metadata.uid)
        last = history.refusal(each.metadata.uid) or {}
        view: View = {
            "pod": full_name(each),
            "uid": each.metadata.uid,
            "scheduler": each.spec.scheduler_name or "default-scheduler",
            "priority": each.spec.priority or 0,
            "time": last.get("time"),
            "checked": None if answer is None else _iso(answer.at),
        }
        try:
            read = service.pod_requests.read(each)
        except DialectError as error:
            view |= {"dialect": "", "containers": [], "valid": False, "reason": str(error)}
        else:
            if read is None:
                continue
            view |= {
                "dialect": read.dialect.name,
                "containers": [
                    {
                        "name": container.name,
                        "cards": container.count,
                        "memoryMiB": None if container.memory is None else container.memory // MIB,
                        "memoryPercent": container.memory_percent,
                        "compute": container.compute,
                        "exclusive": container.exclusive,
                    }
                    for container in read.request.containers
                ],
                "valid": True,
                "reason": last.get("text", "") if answer is None else answer.summary,
            }
        if query.get("dialect", view["dialect"]) != view["dialect"]:
            continue
        text = f"{view['pod']}\n{view['reason']}".lower()
        if all(word in text for word in sought):
            found.append(view)
    return {"total": len(found), "rows": window.part(found)}


def _iso(wall: int) -> str:
    return datetime.fromtimestamp(wall / SECOND, UTC).isoformat(timespec="milliseconds")


def explained(found: Explanation) -> dict[str, object]:
    """Return an explanation of one pod whose size does not depend on the number of nodes."""
    answer = found.answer
    return {
        "dialect": answer.dialect,
        "summary": answer.summary(),
        "notes": found.notes,
        "best": answer.best,
        "fitting": len(answer.fitting),
        "fits": answer.fitting[:FITTING],
        "rejected": len(answer.rejected),
        "groups": answer.groups(),
        "preemption": len(found.preemption_may_help),
    }
