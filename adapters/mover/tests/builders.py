"""Plans, and an API server that keeps plans and evicts pods, for tests of the mover."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from structlog.testing import LogCapture

from adapters.cluster.api import timestamps
from adapters.cluster.tests.server import Reply, Request, Server, serving

NOW = timestamps.now()


def ago(**past: float) -> str:
    return timestamps.seconds(NOW - timedelta(**past))


def a_time(**past: float) -> datetime:
    return NOW - timedelta(**past)


def a_place(node: str) -> dict[str, Any]:
    grant = {"container": "main", "card": f"GPU-{node}", "memory": 1 << 30, "compute": 50}
    return {"node": node, "grants": [grant]}


def a_move(number: int, namespace: str = "web") -> dict[str, Any]:
    return {
        "namespace": namespace,
        "pod": f"pod-{number}",
        "uid": f"uid-{number}",
        "dialect": "volcano",
        "controller": {"kind": "ReplicaSet", "name": "app", "uid": "rs"},
        "from": a_place("n1"),
        "to": a_place("n2"),
    }


def a_plan(
    moves: int = 1, name: str = "defrag-1", version: int = 1, **status: object
) -> dict[str, Any]:
    """A plan of moves of pod-1, pod-2, ... of the namespace web."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "MovePlan",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"moves": [a_move(number) for number in range(1, moves + 1)]},
        "status": status,
    }


@dataclass
class Cluster:
    """What the API server has, and what was asked of it.

    Attributes:
        plans: objects by name.
        pods: uids of the pods that there are, by ``namespace/name``.
        refusals: answers to Evictions by ``namespace/name``: status and body.
        asked: pods of Evictions with dryRun, in order.
        evicted: uids of pods that were evicted, in order.
        events: reasons of the Events about pods, in order.
        installed: whether it knows the kind.
        refuse_status: HTTP status of the answers to writes of a plan's status; None for no refusal.
        before: is called before each request is answered; may raise to cut the connection.
    """

    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, tuple[int, object]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    installed: bool = True
    refuse_status: int | None = None
    before: Callable[[Request], object] = lambda _: None
    version: int = 100

    def add(self, plan: dict[str, Any], *, pods: bool = True) -> None:
        self.plans[plan["metadata"]["name"]] = plan
        if pods:
            for move in plan["spec"]["moves"]:
                self.pods[f"{move['namespace']}/{move['pod']}"] = move["uid"]

    def status(self, name: str = "defrag-1") -> dict[str, Any]:
        status: dict[str, Any] = self.plans[name]["status"]
        return status

    def phase(self, name: str = "defrag-1") -> str:
        return str(self.status(name).get("phase", ""))

    def write(self, name: str = "defrag-1", **status: object) -> None:
        """What the service writes."""
        self.version += 1
        plan = self.plans[name]
        metadata = {**plan["metadata"], "resourceVersion": str(self.version)}
        self.plans[name] = {**plan, "metadata": metadata, "status": {**plan["status"], **status}}

    async def answer(self, request: Request, reply: Reply) -> None:
        waiting = self.before(request)
        if asyncio.iscoroutine(waiting):
            await waiting
        parts = request.path.strip("/").split("/")
        if parts[-1] == "eviction":
            await self._evict(request, reply, f"{parts[3]}/{parts[5]}")
        elif "events" in parts:
            body = request.json()
            self.events.append(str(body["reason"]))
            await reply.answer(201, body)
        elif not self.installed:
            await reply.answer(404, {"code": 404, "reason": "NotFound"})
        elif parts[-1] == "status" and self.refuse_status is not None:
            await reply.answer(self.refuse_status, {"message": "no"})
        elif parts[-1] == "status":
            await self._patch(request, reply, parts[-2])
        elif parts[-1] != "moveplans":
            plan = self.plans.get(parts[-1])
            await reply.answer(200 if plan else 404, plan or {})
        elif "watch" in request.query:
            await self._watch(request, reply)
        else:
            rows = [*self.plans.values()]
            metadata = {"resourceVersion": str(self.version)}
            await reply.answer(200, {"metadata": metadata, "items": rows})

    async def _evict(self, request: Request, reply: Reply, pod: str) -> None:
        dry = request.query.get("dryRun") == "All"
        options: Any = request.json()["deleteOptions"]
        uid = options["preconditions"]["uid"]
        if dry:
            self.asked.append(pod)
        if pod in self.refusals:
            status, body = self.refusals[pod]
            await reply.answer(status, body)
        elif pod not in self.pods:
            await reply.answer(404, {"code": 404, "reason": "NotFound"})
        elif self.pods[pod] != uid:
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: x"
            await reply.answer(409, {"code": 409, "reason": "Conflict", "message": message})
        else:
            if not dry:
                self.evicted.append(uid)
                del self.pods[pod]
            await reply.answer(201, {})

    async def _patch(self, request: Request, reply: Reply, name: str) -> None:
        plan = self.plans.get(name)
        body: Any = request.json()
        if plan is None:
            await reply.answer(404, {"code": 404, "reason": "NotFound"})
        elif body["metadata"]["resourceVersion"] != plan["metadata"]["resourceVersion"]:
            await reply.answer(409, {"code": 409, "reason": "Conflict", "message": "was modified"})
        else:
            self.write(name, **body["status"])
            await reply.answer(200, self.plans[name])

    async def _watch(self, request: Request, reply: Reply) -> None:
        """Send each version of each plan once."""
        await reply.begin()
        sent: dict[str, str] = {}
        if "sendInitialEvents" not in request.query:
            sent = {name: plan["metadata"]["resourceVersion"] for name, plan in self.plans.items()}
        listed = "sendInitialEvents" not in request.query
        while True:
            for name in sent.keys() - self.plans.keys():
                gone = {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "9"}}
                await reply.lines({"type": "DELETED", "object": gone})
                del sent[name]
            for name, plan in self.plans.items():
                if sent.get(name) != plan["metadata"]["resourceVersion"]:
                    sent[name] = plan["metadata"]["resourceVersion"]
                    await reply.lines({"type": "MODIFIED", "object": plan})
            if not listed:
                listed = True
                end = {"k8s.io/initial-events-end": "true"}
                metadata = {"resourceVersion": str(self.version), "annotations": end}
                await reply.lines({"type": "BOOKMARK", "object": {"metadata": metadata}})
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def api(cluster: Cluster) -> AsyncIterator[Server]:
    async with serving(cluster.answer) as server:
        yield server


def names(log: LogCapture) -> list[str]:
    return [str(entry["event"]) for entry in log.entries]


def budget_refusal(message: str = "it would violate the pod's disruption budget") -> object:
    cause = {"reason": "DisruptionBudget", "message": "the budget web needs 2 and has 2"}
    return {
        "code": 429,
        "reason": "TooManyRequests",
        "message": message,
        "details": {"causes": [cause]},
    }
