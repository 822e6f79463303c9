"""Pods with cards, one pod, and pods that wait for cards with their reasons."""

from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from adapters.dialects.dialect import DialectError
from adapters.service.decide.advice.explain import Explanation
from adapters.service.decide.advice.waiting_answers import WaitingAnswers
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.web.dashboard.node_views import COMPARED, DECISIONS
from adapters.service.web.dashboard.query import Window, of_pod, words
from adapters.service.web.dashboard.rows import FleetIndex, pod_rows
from adapters.service.web.views import groups
from adapters.wire.kube import Pod, full_name
from core.durations import SECOND
from core.hardware.quantity import MIB

View = dict[str, object]

FITTING = 20
"""Nodes that fit and are named."""

READ = 200
"""Pods whose request is read before the event loop gets its turn."""


async def pods(index: FleetIndex, query: Mapping[str, str]) -> View:
    """Return the pods with cards: ``q``, ``namespace``, ``dialect`` and ``node`` choose among them.

    Raises:
        QueryError: a parameter is invalid.
    """
    sought, window, namespace = words(query), Window.of(query), query.get("namespace", "")
    found: list[tuple[str, str]] = []
    by_name = {row.name: row for row in await index.rows()}
    for number, row in enumerate(by_name.values()):
        if number % COMPARED == 0:
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
            "groups": groups(answer.groups),
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
    for number, each in enumerate(sorted(unbound(), key=full_name)):
        if number % READ == 0:
            await sleep(0)
        if query.get("namespace", each.metadata.namespace) != each.metadata.namespace:
            continue
        view = _pending(service, history, each)
        if view is None or query.get("dialect", view["dialect"]) != view["dialect"]:
            continue
        text = f"{view['pod']}\n{view['reason']}".lower()
        if all(word in text for word in sought):
            found.append(view)
    return {"total": len(found), "rows": window.part(found)}


def _pending(service: Service, history: StructuredDecisionLog, pod: Pod) -> View | None:
    """Return one pod; None where it requests no share."""
    answer = service.waiting_answers.get(pod.metadata.uid)
    last = history.refusal(pod.metadata.uid) or {}
    view: View = {
        "pod": full_name(pod),
        "uid": pod.metadata.uid,
        "scheduler": pod.spec.scheduler_name or "default-scheduler",
        "priority": pod.spec.priority or 0,
        "time": last.get("time"),
        "checked": None if answer is None else _iso(answer.at),
    }
    try:
        read = service.pod_requests.read(pod)
    except DialectError as error:
        return {**view, "dialect": "", "containers": [], "valid": False, "reason": str(error)}
    if read is None:
        return None
    return {
        **view,
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


def _iso(wall: int) -> str:
    return datetime.fromtimestamp(wall / SECOND, UTC).isoformat(timespec="milliseconds")


def grouped(found: Explanation) -> dict[str, object]:
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
        "groups": groups(answer.groups()),
        "preemption": len(found.preemption_may_help),
    }
