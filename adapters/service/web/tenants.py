"""Answers about one namespace, for people who may read its pods and no others.

Of other namespaces they have counts only. Names of nodes, and what an answer about a pod says of
nodes, are in them.
"""

from asyncio import Lock, get_running_loop, sleep
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from adapters.accounting.pod_requests import dialect_name
from adapters.answer.device_plugins import devices_text
from adapters.answer.judge import Judge
from adapters.answer.rows import held_pod, held_shares
from adapters.answer.words import card_lines, head_lines, node_lines, request_text
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.matching import amounts_of
from adapters.service.decide.advice.explain import yielding
from adapters.service.decide.service import Service, UnknownPod
from adapters.service.web.app import Answer, Call, Handler, Route, problem
from adapters.service.web.authorize import RETRY, TENANT, namespace_of
from adapters.service.web.dashboard.views import oldest_first
from adapters.service.web.routes import Routes
from adapters.wire.kube import Pod, full_name
from adapters.wire.records.tenant import HeldPod, TenantExplanation, TenantRows, WaitingPod
from core.requests.request import PodRef

PAUSE = 0.2
"""Seconds between two answers about one namespace: each takes time of the schedulers."""

COMPARED = 500
"""Nodes or pods that are looked at before other calls run."""


def tenants(service: Service, unbound: Callable[[], Sequence[Pod]]) -> Routes:
    """Return the routes; ``unbound`` are the pods that no scheduler has bound."""
    turn, asked, pods_on = Lock(), set[str](), service.ports.objects.pods_on

    async def pods(call: Call) -> Answer:
        """Return the pods of the namespace with shares."""
        namespace, rows, created = namespace_of(call), list[HeldPod](), dict[str, str]()
        for at, ledger in enumerate([*service.ledgers.inventory]):
            if at % COMPARED == 0:
                await sleep(0)
            held = ledger.allocations.values()
            here = (each for each in held if each.pod.startswith(f"{namespace}/"))
            own = [held_pod(each, service.ports.objects.claims) for each in here]
            if own:
                rows += own
                created |= _created(pods_on(ledger.node.name), namespace)
        return _answer(TenantRows(pods=tuple(rows), created=created))

    async def shares(call: Call) -> Answer:
        """Return the shares of the cards of ``node``, or of one ``card``; of its uuid alone too."""
        namespace, node = namespace_of(call), call.query.get("node", "")
        ledger, card = service.ledgers.ledger(node), call.query.get("card", "")
        if ledger is None:
            uuids = (
                (each, one.uuid) for each in service.ledgers.inventory for one in each.node.cards
            )
            ledger, card = next((found for found in uuids if found[1] == node), (None, card))
        if ledger is None:
            return problem(404, f"no node {node[:80]!r} with cards")
        node, found = ledger.node.name, held_shares(ledger, card, service.ports.objects.claims)
        if found is None:
            return problem(404, f"node {node} has no card {card[:80]!r}")
        every = [*found]
        own = tuple(each for each in every if each.namespace == namespace)
        created = _created(pods_on(node), namespace)
        return _answer(TenantRows(shares=own, elsewhere=len(every) - len(own), created=created))

    async def pending(call: Call) -> Answer:
        """Return the pods of the namespace that wait, with the latest answer about each."""
        namespace = namespace_of(call)
        pods = [pod for pod in unbound() if pod.metadata.namespace == namespace]
        rows = list[WaitingPod]()
        for at, pod in enumerate(sorted(pods, key=oldest_first)):
            if at % COMPARED == 0:
                await sleep(0)
            if (row := _waiting(service, pod)) is not None:
                rows.append(row)
        return _answer(TenantRows(pending=tuple(rows), created=_created(pods, namespace)))

    async def explain(call: Call) -> Answer:
        """Return ``pod`` against all nodes; one explanation at a time, as it takes long."""
        service.check_ready()
        name = PodRef(namespace_of(call), call.query.get("pod", ""), "")
        async with turn:
            try:
                return _answer(await _explained(service, await service.find(name)))
            except UnknownPod as error:
                return problem(404, str(error))

    def by_turns(handler: Handler) -> Handler:
        """Answer one question about a namespace at a time, and the next one after a pause."""

        async def answer(call: Call) -> Answer:
            namespace = namespace_of(call)
            if namespace in asked:
                text = f"another question about namespace {namespace} is answered now; try again"
                return replace(problem(429, text), headers=RETRY)
            asked.add(namespace)
            try:
                return await handler(call)
            finally:
                get_running_loop().call_later(PAUSE, asked.discard, namespace)

        return answer

    handlers = {"pods": pods, "shares": shares, "pending": pending, "explain": explain}
    return {("GET", f"{TENANT}{name}"): Route(by_turns(each)) for name, each in handlers.items()}


def _answer(found: object) -> Answer:
    return Answer(msgspec.json.encode(found))


def _created(pods: Iterable[Pod], namespace: str) -> dict[str, str]:
    """Return when the pods of a namespace were created, by name."""
    own = (pod.metadata for pod in pods if pod.metadata.namespace == namespace)
    return {meta.name: meta.creation_timestamp for meta in own if meta.creation_timestamp}


def _waiting(service: Service, pod: Pod) -> WaitingPod | None:
    """Return a row; None where the pod requests no share."""
    latest = service.waiting_answers.get(pod.metadata.uid)
    reason = "was not evaluated yet" if latest is None else latest.summary
    try:
        read = service.pod_requests.read(pod)
        dialect: str | None = DRA if read is None else read.dialect.name
        if read is not None:
            amounts = amounts_of(pod, read.request)
            request = devices_text(amounts) if amounts else request_text(read.request)
        elif latest is not None and latest.devices:
            request = devices_text(latest.devices)
        else:
            return None
    except DialectError as error:
        dialect = dialect_name(pod, service.facts.dialects)
        request, reason = "invalid", str(error)
    gang = service.facts.gang(pod)
    return WaitingPod(
        pod.metadata.namespace,
        pod.metadata.name,
        dialect,
        pod.spec.scheduler_name or "default-scheduler",
        request,
        0 if latest is None else latest.fitting,
        reason,
        None if gang is None else str(gang.ref),
    )


async def _explained(service: Service, pod: Pod) -> TenantExplanation:
    """Return a pod against all nodes; no pod that would have to end is looked for."""
    facts, own = service.facts, f"{pod.metadata.namespace}/"
    answer = await yielding(Judge(facts).steps(pod))

    def sharers(names: list[str]) -> str:
        """Name the pods of the namespace, and count the others."""
        named = [each for each in names if each.startswith(own)]
        others = len(names) - len(named)
        return ", ".join([*named, *([f"{others} of other namespaces"] if others else ())])

    uid = pod.metadata.uid
    ledgers = [facts.inventory.ledger(node) for node in facts.inventory.nodes_of(uid)]
    held = [(each.allocations[uid], each) for each in ledgers]
    allocation = held[0][0] if held else None
    lines = head_lines(answer, allocation, facts.gang(pod))
    for each, ledger in held:
        lines += card_lines(each, ledger, sharers=sharers)
    if not pod.spec.node_name and answer.fits_nowhere:
        lines += node_lines(answer)
    well = all(each.unread is None for each, _ in held) and (
        bool(answer.standing)
        or (answer.problem is None and (not answer.requests or answer.best is not None))
    )
    return TenantExplanation(
        full_name(pod), answer.dialect, answer.summary(), len(answer.fitting), tuple(lines), well
    )
