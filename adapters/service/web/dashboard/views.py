"""What the page shows of nodes, of pods with cards, and of pods that wait with their reasons."""

from asyncio import sleep
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from adapters.answer.remedies import remedy_lines
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.matching import NO_AMOUNTS, amounts_of
from adapters.service.decide.advice.explain import Explanation, WaitingAnswer
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
    is_about,
    number,
    of_node,
    of_pod,
    words,
)
from adapters.wire.agent_report import UNKNOWN, NodeReport, short
from adapters.wire.kube import Pod, full_name, pod_ref
from core.durations import SECOND
from core.hardware.quantity import FULL, MIB
from core.requests.reason import Cause

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


INVALID, NOT_EVALUATED, FITS = "invalid request", "not evaluated yet", "cards fit, not bound yet"
"""Why a pod waits, beside the causes of the engine."""


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
            _has_state(row, health)
            and all(not one or one in those for one, those in zip(exact, has, strict=True))
            and row.largest >= free
            and all(word in row.text for word in sought)
        ):
            found.append(row)
    found.sort(key=lambda row: row.key(sort), reverse=reverse)
    return {"total": len(found), "rows": [row.view() for row in window.part(found)]}


def _has_state(row: NodeRow, state: str) -> bool:
    """Return whether a node is in one of the states of ``HEALTH``."""
    if state in ("problems", "healthy"):
        return row.has_problem == (state == "problems")
    cells = row.cells
    if state == "full":
        return any(letter in cells for letter in "fxo") or ("p" in cells and "." not in cells)
    return state == "any" or "." in cells


async def node(index: FleetIndex, history: StructuredDecisionLog, name: str) -> View | None:
    """Return one node with its cards, pods, problems and decisions; None where it is not known."""
    row = next((row for row in await index.rows() if row.name == name), None)
    if row is None:
        return None
    return {
        **row.view(len(row.problems)),
        "holders": list(row.holders(index.facts.claims)),
        "decisions": list(islice(of_node(history, name), DECISIONS)),
    }


def _facet(counted: Counter[str]) -> list[View]:
    most = counted.most_common(FACETS)
    return [{"name": name, "count": count} for name, count in sorted(most)]


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
                "memoryMiB": card.memory // MIB,
                "usedMiB": None if use.memory is None else min(use.memory, card.memory) // MIB,
                "compute": None if use.compute is None else min(use.compute, FULL),
            }
            for key, card in cards.items()
            for use in (reports[name].cards.get(key, UNKNOWN),)
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
    namespaces: Counter[str] = Counter()
    dialects: Counter[str] = Counter()
    by_name = {row.name: row for row in await index.rows()}
    for at, row in enumerate(by_name.values()):
        if at % COMPARED == 0:
            await sleep(0)
        for pod, dialect, users in row.dialect_of_pods(index.facts.claims):
            namespaces[pod.partition("/")[0]] += 1
            dialects[dialect] += bool(dialect)
            if (
                query.get("node", row.name) == row.name
                and query.get("dialect", dialect) == dialect
                and (not namespace or pod.startswith(f"{namespace}/"))
                and all(word in f"{pod}\n{row.name}\n{users}".lower() for word in sought)
            ):
                found.append((pod, row.name))
    found.sort()
    shown = window.part(found)
    views = {
        (str(view["pod"]), name): view
        for name in dict.fromkeys(name for _, name in shown)
        for view in by_name[name].holders(index.facts.claims)
    }
    return {
        "total": len(found),
        "rows": [views[each] for each in shown],
        "namespaces": _facet(namespaces),
        "dialects": _facet(dialects),
    }


async def pod(
    index: FleetIndex,
    service: Service,
    history: StructuredDecisionLog,
    unbound: Sequence[Pod],
    name: str,
) -> View | None:
    """Return one pod by ``namespace/name``; None where nothing is known of it."""
    held = [
        view
        for row in await index.rows()
        if name in row.pods or DRA in row.dialects
        for view in row.holders(index.facts.claims)
        if is_about(view, name)
    ]
    decided = of_pod(history, name)
    unplaced = next((each for each in unbound if full_name(each) == name), None)
    if not (held or decided or unplaced):
        return None
    answer = None if unplaced is None else service.waiting_answers.get(unplaced.metadata.uid)
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
        "pending": unplaced is not None,
        "waiting": None if unplaced is None else waiting_pod(service, history, unplaced),
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
    every = await waiting(service, history, unbound)
    exact = [name for name in ("namespace", "dialect", "cause") if name in query]
    found = [
        each
        for each in every
        if all(each[name] == query[name] for name in exact)
        if all(word in f"{each['pod']}\n{each['reason']}".lower() for word in sought)
    ]
    return {
        "total": len(found),
        "rows": window.part(found),
        **{
            f"{name}s": _facet(Counter(str(each[name]) for each in every if each[name]))
            for name in ("namespace", "dialect", "cause")
        },
    }


async def waiting(
    service: Service,
    history: StructuredDecisionLog,
    unbound: Callable[[], Sequence[Pod]],
) -> list[View]:
    """Return all pods that request a share and have no node, those that wait longest first."""
    found: list[View] = []
    for at, each in enumerate(sorted(unbound(), key=oldest_first)):
        if at % READ == 0:
            await sleep(0)
        view = waiting_pod(service, history, each)
        if view is not None:
            found.append(view)
    return found


def requests(service: Service, pod: Pod) -> bool:
    """Return whether a pod requests a share, valid or not."""
    try:
        latest = service.waiting_answers.get(pod.metadata.uid)
        if latest is not None and latest.devices:
            return True
        return service.pod_requests.read(pod) is not None
    except DialectError:
        return True


def oldest_first(pod: Pod) -> tuple[str, str]:
    """Return the key by which pods that wait are listed."""
    return pod.metadata.creation_timestamp or "~", full_name(pod)


def waiting_pod(service: Service, history: StructuredDecisionLog, pod: Pod) -> View | None:
    """Return a pod without a node, what it requests and why it waits; None for no share."""
    answer = service.waiting_answers.get(pod.metadata.uid)
    last = history.refusal(pod.metadata.uid) or {}
    view: View = {
        "pod": full_name(pod),
        "namespace": pod.metadata.namespace,
        "uid": pod.metadata.uid,
        "since": pod.metadata.creation_timestamp,
        "scheduler": pod.spec.scheduler_name or "default-scheduler",
        "priority": pod.spec.priority or 0,
        "time": last.get("time"),
        "checked": None if answer is None else _iso(answer.at),
        "devices": {},
    }
    try:
        read = service.pod_requests.read(pod)
        if read is None and (answer is None or not answer.devices):
            return None
        amounts = NO_AMOUNTS if answer is None else answer.devices
        devices = amounts if read is None else amounts_of(pod, read.request)
    except DialectError as error:
        return view | {
            "dialect": "",
            "containers": [],
            "valid": False,
            "reason": str(error),
            "cause": INVALID,
        }
    return view | {
        "dialect": DRA if read is None else read.dialect.name,
        "containers": [
            {
                "name": container.name,
                "cards": container.count,
                "memoryMiB": None if container.memory is None else container.memory // MIB,
                "memoryPercent": container.memory_percent,
                "compute": container.compute,
                "exclusive": container.exclusive,
            }
            for container in (() if read is None else read.request.containers)
        ],
        "devices": dict(devices),
        "valid": True,
        "reason": last.get("text", "") if answer is None else answer.summary,
        "cause": NOT_EVALUATED if answer is None else cause_of(answer, service.ledgers.problems()),
    }


def cause_of(answer: WaitingAnswer, unreadable: Container[str]) -> str:
    """Return why a pod waits, without amounts: of the nodes that are nearest to a fit.

    A node whose ledger cannot be read counts only where there is no other.
    """
    if answer.summary.startswith("gang "):
        return "gang"
    if answer.best is not None or not answer.groups:
        return FITS if answer.best is not None else answer.summary
    readable = (each for each in answer.groups if each.examples[0] not in unreadable)
    text = next(readable, answer.groups[0]).text.rpartition(" cards: ")[2]
    known = (cause.value for cause in Cause if text.startswith(cause.value))
    return max(known, key=len, default=text)


def _iso(wall: int) -> str:
    return datetime.fromtimestamp(wall / SECOND, UTC).isoformat(timespec="milliseconds")


def explained(found: Explanation) -> dict[str, object]:
    """Return an explanation of one pod whose size does not depend on the number of nodes."""
    answer, ref = found.answer, pod_ref(found.answer.pod)
    unplaced = answer.waits and answer.fits_nowhere
    moves = unplaced and answer.devices is None and not answer.waits_for_gang
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
        "remedies": [*remedy_lines(answer.pod, found.remedies)] if unplaced else [],
        "plan": f"dragoman defrag --for pod/{ref.name} -n {ref.namespace}" if moves else None,
    }
