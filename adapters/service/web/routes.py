"""All routes over HTTP."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice

import orjson

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dialect import DialectError
from adapters.service.decide.ports import LiveClaims
from adapters.service.decide.service import Service, UnknownPod
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.claim_admission import ClaimAdmission
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.volcano_extender import VolcanoExtender
from adapters.service.web.app import JSON, Answer, Call, Route, pod_named, problem
from adapters.wire import body
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Pod, full_name
from core.hardware.quantity import MIB

Endpoint = Callable[[bytes], Awaitable[bytes]]
Routes = dict[tuple[str, str], Route]
View = dict[str, object]

TEXT = "text/plain; version=0.0.4; charset=utf-8"

WEBHOOK_PATHS = frozenset(
    {"/admission/pods", "/admission/bindings", "/admission/claims", "/livez", "/readyz"}
)
"""What the API server's port serves; every pod of the cluster may reach that port."""

MAX_DIGITS = 10
"""Digits of a number that is larger than any cluster."""

_POD = Decoder(Pod)


def schedulers(service: Service, required_plugin: str = "") -> Routes:
    """Return routes for schedulers and the API server."""
    kube, volcano = KubeExtender(service), VolcanoExtender(service)
    admission = Admission(service, required_plugin)
    return {
        # A body with 5,000 whole nodes has 64 MiB, one with 12,500 has 160 MiB.
        ("POST", "/extender/filter"): _endpoint(kube.filter, "filter", 256),
        # As `dragoman configure kube-scheduler --kubernetes-version 1.38` writes it.
        ("POST", "/extender/filter/1.38"): _endpoint(
            partial(kube.filter, proposes_none=True), "filter", 256
        ),
        ("POST", "/extender/prioritize"): _endpoint(kube.prioritize, "prioritize", 256),
        ("POST", "/extender/preempt"): _endpoint(kube.preempt, "preempt", 256),
        ("POST", "/extender/bind"): _endpoint(kube.bind, "bind", 1),
        ("POST", "/volcano/predicate"): _endpoint(volcano.predicate, "predicate", 64),
        # All nodes that passed, each with all its pods; the budget of body bytes is a bound too.
        ("POST", "/volcano/prioritize"): _endpoint(volcano.prioritize, "prioritize", 1024),
        ("POST", "/volcano/allocate"): _endpoint(volcano.allocate, "allocate", 8),
        ("POST", "/volcano/deallocate"): _endpoint(volcano.deallocate, "deallocate", 8),
        ("POST", "/volcano/preemptable"): _endpoint(volcano.preemptable, "preemptable", 256),
        ("POST", "/volcano/reclaimable"): _endpoint(volcano.reclaimable, "reclaimable", 256),
        # An object and the object before it, 1.5 MiB each in etcd, as JSON.
        ("POST", "/admission/pods"): _endpoint(admission.pods, "admit", 8),
        ("POST", "/admission/bindings"): _endpoint(admission.bindings, "binding", 8),
    }


def arbiter(service: Service, catalog: ClaimCache, live: LiveClaims) -> Routes:
    """Return the route by which the API server asks about allocations of ResourceClaims."""
    claims = ClaimAdmission(service, catalog, live)
    return {("POST", "/admission/claims"): _endpoint(claims.statuses, "claim", 8)}


def people(
    service: Service,
    metrics: Callable[[bool], Awaitable[bytes]],
    decisions: Callable[[], list[Mapping[str, object]]],
) -> Routes:
    """Return routes for people, probes and Prometheus.

    ``metrics`` are all as text, with gzip or not; ``decisions`` the latest, newest first.
    """
    ledgers = service.ledgers

    async def live(_: Call) -> Answer:
        return Answer(b"ok\n", kind="text/plain")

    async def ready(_: Call) -> Answer:
        if awaited := service.readiness.text():
            return Answer(f"{awaited}\n".encode(), 503, "text/plain")
        return Answer(b"ok\n", kind="text/plain")

    async def explain(call: Call) -> Answer:
        """Return where a pod fits, and why it does not fit the others; nothing is allocated.

        The pod is in the body, or ``?pod=NAMESPACE/NAME`` names one that the service knows.
        """
        service.check_ready()
        try:
            if call.body:
                pod = body.read(call.body, _POD)
            else:
                named = pod_named(call.query.get("pod", ""), call.query.get("uid", ""))
                pod = await service.find(named)
            service.pod_requests.read(pod)
        except (DialectError, UnknownPod) as error:
            return problem(404 if isinstance(error, UnknownPod) else 422, str(error))
        found = await service.explain(pod)
        answer = found.answer
        shown: View = {
            "pod": full_name(pod),
            "dialect": answer.dialect,
            "summary": answer.summary(),
            "notes": found.notes,
        }
        if answer.is_valid:
            shown |= {
                "best": answer.best,
                "fits": answer.fitting,
                "groups": answer.groups(),
                "nodes": answer.texts(),
                "preemptionMayHelp": found.preemption_may_help,
            }
        return Answer(orjson.dumps(shown))

    return {
        ("GET", "/metrics"): exposition(metrics),
        ("GET", "/livez"): Route(live),
        ("GET", "/readyz"): Route(ready),
        ("GET", "/api/nodes"): Route(_view(lambda _: nodes(ledgers))),
        ("GET", "/api/cards"): Route(_view(lambda call: cards(ledgers, call.query))),
        ("GET", "/api/pods"): Route(_view(lambda _: pods(ledgers))),
        ("GET", "/api/decisions"): Route(_view(lambda _: decisions())),
        ("GET", "/api/explain"): Route(explain),
        ("POST", "/api/explain"): Route(explain),
    }


def exposition(metrics: Callable[[bool], Awaitable[bytes]]) -> Route:
    """Return the route of metrics, which are compressed for clients that read gzip."""

    async def answer(call: Call) -> Answer:
        text = await metrics(call.gzip)
        packed = ((b"content-encoding", b"gzip"),) if call.gzip else ()
        return Answer(text, kind=TEXT, headers=((b"vary", b"accept-encoding"), *packed))

    return Route(answer)


def _endpoint(endpoint: Endpoint, verb: str, max_mib: int) -> Route:
    async def answer(call: Call) -> Answer:
        return Answer(await endpoint(call.body), kind=JSON)

    return Route(answer, verb, max_mib * MIB)


def _view(view: Callable[[Call], object]) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        return Answer(orjson.dumps(view(call)))

    return answer


def nodes(cached: LedgerCache) -> list[View]:
    """Return every node: what is in use, and problems for an operator."""
    readable: list[View] = [
        {
            "name": ledger.node.name,
            "cards": len(ledger.node.cards),
            "healthy": sum(card.healthy for card in ledger.node.cards),
            "pods": len(ledger.allocations),
            "memoryMiB": sum(card.memory for card in ledger.node.cards) // MIB,
            "usedMemoryMiB": sum(use.memory for use in ledger.usages) // MIB,
            "changes": ledger.version,
            "problems": [f"{p.pod}: {p.text}" if p.pod else p.text for p in ledger.problems()],
        }
        for ledger in cached.inventory
    ]
    unreadable: list[View] = [
        {"name": name, "problems": [text]} for name, text in cached.problems().items()
    ]
    return [*readable, *unreadable]


def cards(cached: LedgerCache, query: Mapping[str, str]) -> list[View]:
    """Return the cards of ``node=NAME``, or of the first ``first=NUMBER`` nodes, with sharers.

    Any other number means all nodes. Memory is in MiB, compute in percent of one card.
    """
    node, text = query.get("node"), query.get("first", "")
    first = int(text) if text.isdecimal() and len(text) < MAX_DIGITS else None
    ledgers = (
        islice(cached.inventory, first) if node is None else filter(None, [cached.ledger(node)])
    )
    return [
        {
            "node": ledger.node.name,
            "uuid": card.uuid,
            "index": card.index,
            "vendor": card.vendor,
            "model": card.model,
            "mode": card.mode.value,
            "healthy": card.healthy,
            "problem": card.problem,
            "dialects": sorted(card.dialects),
            "memoryMiB": card.memory // MIB,
            "usedMemoryMiB": use.memory // MIB,
            "compute": card.compute,
            "usedCompute": use.compute,
            "slots": card.slots,
            "usedSlots": use.slots,
            "sharers": [
                {
                    "pod": allocation.pod,
                    "uid": allocation.uid,
                    "dialect": allocation.dialect,
                    "memoryMiB": holder.memory // MIB,
                    "compute": holder.compute,
                    "state": allocation.state.value,
                    "blocking": holder.blocked,
                }
                for holder in use.shares
                for allocation in (ledger.allocations[holder.uid],)
            ],
        }
        for ledger in ledgers
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def pods(cached: LedgerCache) -> list[View]:
    """Return every pod with an allocation."""
    rows: list[View] = []
    for ledger in cached.inventory:
        indexes = {card.uuid: card.index for card in ledger.node.cards}
        for allocation in ledger.allocations.values():
            containers: dict[str, list[View]] = {}
            for grant in allocation.grants:
                share: View = {
                    "uuid": grant.card,
                    "index": indexes.get(grant.card),
                    "memoryMiB": grant.memory // MIB,
                    "compute": grant.compute,
                }
                if grant.slice is not None:
                    share["mig"] = {"profile": grant.slice.profile, "start": grant.slice.start}
                containers.setdefault(grant.container or "*", []).append(share)
            rows.append(
                {
                    "namespace": allocation.pod_ref.namespace,
                    "name": allocation.pod_ref.name,
                    "uid": allocation.uid,
                    "dialect": allocation.dialect,
                    "node": allocation.node,
                    "state": allocation.state.value,
                    "priority": allocation.priority,
                    "containers": containers,
                    "unread": allocation.unread,
                }
            )
    return rows
