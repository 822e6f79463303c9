"""The routes of the dashboard: its files, and its questions below ``/api/dashboard``."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace

from adapters.dialects.dialect import DialectError
from adapters.service.decide.service import Service, UnknownPod
from adapters.service.observe.decision_log import StructuredDecisionLog
from adapters.service.web.app import Answer, Call, Route, pod_named, problem
from adapters.service.web.dashboard import moves as move_views
from adapters.service.web.dashboard import node_views, pod_views
from adapters.service.web.dashboard.content import KINDS, ConditionalView, Content, StaticFiles
from adapters.service.web.dashboard.moves import PlanReader, PlanSource
from adapters.service.web.dashboard.node_views import AskAgents, used
from adapters.service.web.dashboard.pod_views import grouped
from adapters.service.web.dashboard.query import QueryError, decisions
from adapters.service.web.dashboard.rows import FleetIndex
from adapters.wire.kube import Pod
from adapters.wire.records.quota import limited_amounts

Unbound = Callable[[], Sequence[Pod]]
View = Callable[[Call], Awaitable[object]]

INERT = (b"content-security-policy", b"default-src 'none'; sandbox")
"""A picture that is opened as a page loads nothing and runs nothing."""


class NotFoundError(LookupError):
    """There is no such node or pod."""


def dashboard(
    service: Service,
    history: StructuredDecisionLog,
    unbound: Unbound,
    agents: AskAgents | None,
    plans: PlanSource | None,
) -> dict[tuple[str, str], Route]:
    """Return the routes.

    Args:
        service: whose ledgers are shown.
        history: the decision log.
        unbound: the pods that no scheduler has bound.
        agents: asks the node agents what is used; None where they are not asked.
        plans: of moves; None where none is carried out, and then there is no question about them.
    """
    index, static = FleetIndex(service.ledgers), StaticFiles()

    async def summary(_: Call) -> object:
        awaited, has_moves = service.readiness.text(), plans is not None
        return {**await node_views.summary(index), "awaited": awaited, "moves": has_moves}

    async def nodes(call: Call) -> object:
        return await node_views.nodes(index, call.query)

    async def node(call: Call) -> object:
        name = call.query.get("name", "")
        return _known(await node_views.node(index, history, name), f"node {name[:80]!r}")

    def quota(call: Call) -> dict[str, object]:
        """Return the quota of the chosen namespace, or None."""
        stored = service.quotas.get(call.query.get("namespace", ""))
        return {"quota": None if stored is None else limited_amounts(stored.quota)}

    async def pods(call: Call) -> object:
        return {**await pod_views.pods(index, call.query), **quota(call)}

    async def pod(call: Call) -> object:
        name = str(pod_named(call.query.get("name", "")))
        found = await pod_views.pod(index, history, service.waiting_answers, unbound(), name)
        return _known(found, f"pod {name[:200]!r}")

    async def pending(call: Call) -> object:
        found = await pod_views.pending(service, history, unbound, call.query)
        return {**found, **quota(call)}

    async def decided(call: Call) -> object:
        return decisions(history, call.query)

    async def explain(call: Call) -> object:
        """Return a pod against all nodes as they are now; nothing is allocated."""
        service.check_ready()
        pod = await service.find(pod_named(call.query.get("name", "")))
        service.pod_requests.read(pod)
        return grouped(await service.explain(pod))

    def ledgers() -> Hashable:
        return index.version(), service.readiness.awaited

    def ledgers_and_decisions() -> Hashable:
        return index.version(), history.recorded

    def ledgers_and_quotas() -> Hashable:
        return index.version(), service.quotas.revision

    views: dict[str, tuple[Callable[[], Hashable], View]] = {
        "summary": (ledgers, summary),
        "nodes": (ledgers, nodes),
        "node": (ledgers_and_decisions, node),
        "pods": (ledgers_and_quotas, pods),
        "pod": (_unknown, pod),
        "pending": (_unknown, pending),
        "used": (_unknown, lambda call: used(index, agents, call.query)),
        "decisions": (lambda: history.recorded, decided),
        "explain": (_unknown, explain),
    }
    return {
        ("GET", "/"): Route(static.page),
        ("GET", "/static/"): Route(static.file),
        **({} if plans is None else _move_routes(service, plans)),
        **{
            ("GET", f"/api/dashboard/{name}"): Route(_answered(ConditionalView(*each).answer))
            for name, each in views.items()
        },
    }


def _move_routes(service: Service, plans: PlanSource) -> dict[tuple[str, str], Route]:
    """Return the plans of moves, and the picture of one."""
    reader, drawing = PlanReader(plans), asyncio.Lock()

    async def moves(call: Call) -> object:
        return await move_views.moves(service.ledgers.inventory, await reader.read(), call.query)

    async def picture(call: Call) -> Answer:
        name, recent = call.query.get("plan", ""), await reader.read()
        async with drawing:  # in a thread: a plan of many nodes takes long, and schedulers wait
            drawn = await asyncio.to_thread(
                move_views.plan_picture, service.ledgers.inventory, recent, name
            )
        if drawn is None:
            raise NotFoundError(f"there is no picture of a plan {name[:80]!r}")
        answer = Content.of(drawn.encode(), KINDS[".svg"]).answer(call)
        return replace(answer, headers=(*answer.headers, INERT))

    return {
        ("GET", "/api/dashboard/moves"): Route(_answered(ConditionalView(_unknown, moves).answer)),
        ("GET", "/api/dashboard/picture"): Route(_answered(picture)),
    }


def _unknown() -> Hashable:
    """Return the version of what other components change too."""
    return None


def _known(view: dict[str, object] | None, what: str) -> object:
    if view is None:
        raise NotFoundError(f"{what} is not known to this service")
    return view


def _answered(handler: Callable[[Call], Awaitable[Answer]]) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        try:
            return await handler(call)
        except QueryError as error:
            return problem(400, str(error))
        except (NotFoundError, UnknownPod) as error:
            return problem(404, str(error))
        except DialectError as error:
            return problem(422, str(error))

    return answer
