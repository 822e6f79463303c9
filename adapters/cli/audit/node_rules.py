"""What is wrong with one node: its cards, its ledger, its pods, and who allocates its cards."""

from collections.abc import Iterator, Sequence

from adapters.accounting.published_resources import written
from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.dialects import registry
from adapters.dialects.adoption import disagreements
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.repairs.plan import drift
from adapters.repairs.repairs import (
    Adopt,
    Allocate,
    Annotate,
    Describe,
    Keep,
    Mirror,
    Recount,
    Release,
    Repair,
)
from adapters.wire.agent_report import ContainerReport, NodeReport, short
from adapters.wire.kube import Pod, annotations, full_name
from adapters.wire.quantity import QuantityError, parse
from core.hardware.quantity import format_gib
from core.ledger.problem import Problem, ProblemKind


def node_findings(name: str, state: NodeState, fleet: Fleet) -> Iterator[Finding]:
    """Everything that is wrong on one node."""
    yield from (
        Finding(RULES["node-description"], problem, node=name) for problem in state.problems
    )
    if state.unreadable is not None:
        yield Finding(RULES["unreadable-ledger"], state.unreadable, node=name)
    problems = state.ledger.problems()
    if state.stored is not None:
        # the record of every pod is compared below, not only of those that another scheduler bound
        found = drift(state.ledger, state.pods, fleet.dialects)
        problems = tuple(each for each in found if each.kind is not ProblemKind.EDITED)
    yield from (_of_problem(state, problem) for problem in problems)
    for uid, held in state.ledger.allocations.items():
        if uid in fleet.unused_claims:
            yield Finding(RULES["claim-without-pod"], "no pod uses it", node=name, pod=held.pod)
    for pod in state.pods:
        for text in disagreements(pod, state.node, fleet.dialects):
            yield Finding(RULES["edited-record"], text, node=name, pod=full_name(pod))
        yield from _record_without_request(pod, fleet.dialects)
    if state.stored is None:
        yield from _two_allocators(name, state, fleet.dialects)
    else:
        yield from filter(None, (_of_repair(name, repair) for repair in state.repairs))


def _of_problem(state: NodeState, problem: Problem) -> Finding:
    rule = RULES[problem.kind.value]
    pods = (pod for pod in state.pods if full_name(pod) == problem.pod)
    if problem.kind is ProblemKind.UNREADABLE and not any(map(_has_record, pods)):
        rule = RULES["share-without-record"]
    text = problem.text.removeprefix(f"card {problem.card}: ")
    uses = zip(state.node.cards, state.ledger.usages, strict=True)
    shares = [share for card, use in uses if card.uuid == problem.card for share in use.shares]
    refs = [state.ledger.allocations[share.uid].pod_ref for share in shares]
    namespaces = [problem.pod.partition("/")[0]] if problem.pod else [ref.namespace for ref in refs]
    return Finding(
        rule,
        text,
        node=state.node.name,
        card=problem.card,
        pod=problem.pod,
        namespaces=frozenset(namespaces),
    )


def _of_repair(node: str, repair: Repair) -> Finding | None:
    match repair:
        case Describe():
            text = "its NodeLedger has other cards than the node's annotations and Device"
            return Finding(RULES["ledger-describes-other-cards"], text, node=node)
        case Adopt(allocation):
            text = "has cards that the NodeLedger does not know"
            rule = RULES["pod-not-in-ledger"]
            return Finding(rule, text, node=node, pod=allocation.pod)
        case Release(allocation, why):
            rule = RULES["allocation-without-pod"]
            text = f"is in the NodeLedger, but {why.value}"
            return Finding(rule, text, node=node, pod=allocation.pod)
        case Allocate(allocation):
            text = "was bound while the service was away, and waits for its cards"
            rule = RULES["bound-without-cards"]
            return Finding(rule, text, node=node, pod=allocation.pod)
        case Keep() | Mirror() | Recount():
            return None
        case Annotate(pod):
            text = "its annotations name other cards than the NodeLedger, which will repair them"
            rule = RULES["record-differs-from-ledger"]
            return Finding(rule, text, node=node, pod=full_name(pod))


def _two_allocators(name: str, state: NodeState, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Dialects whose components advertise the same cards, each with a scheduler of its own."""
    advertised = {
        resource
        for resource, amount in (state.kube.status.allocatable or {}).items()
        if resource not in written(state.kube) and _positive(amount)
    }
    found: dict[str, tuple[frozenset[str], list[str]]] = {}
    for dialect in dialects:
        own = [card for card in state.node.cards if dialect.name in card.dialects]
        offered = sorted(advertised & dialect.resources(own).keys())
        if offered:
            found[dialect.name] = frozenset(card.uuid for card in own), offered
    shared: dict[tuple[str, ...], list[str]] = {}
    for card in state.node.cards:
        owners = tuple(owner for owner, (cards, _) in found.items() if card.uuid in cards)
        if len(owners) > 1:
            shared.setdefault(owners, []).append(card.uuid)
    for owners, uuids in shared.items():
        parts = " and ".join(f"{owner} ({found[owner][1][0]})" for owner in owners)
        what = f"{len(uuids)} cards" if len(uuids) > 1 else "it"
        text = f"{parts} advertise {what}, and no ledger has the allocations of both"
        only = uuids[0] if len(uuids) == 1 else ""
        yield Finding(RULES["two-allocators"], text, node=name, card=only)


def _positive(amount: object) -> bool:
    try:
        return parse(str(amount)) > 0
    except QuantityError:
        return False


def _has_record(pod: Pod) -> bool:
    """Whether a pod has any annotation by which some scheduler records cards."""
    return bool(registry.own_records(annotations(pod).keys()))


def _record_without_request(pod: Pod, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Find a pod that no dialect takes for its own, and that has a record of one of them."""
    try:
        if not _has_record(pod) or dialect_of(pod, dialects) is not None:
            return
    except DialectError:
        return
    keys = sorted(registry.own_records(annotations(pod).keys()))
    yield Finding(
        RULES["record-without-request"],
        f"has {', '.join(keys)} and requests no share",
        node=pod.spec.node_name or "",
        pod=full_name(pod),
    )


def container_findings(state: NodeState, report: NodeReport) -> Iterator[Finding]:
    """Everything that is wrong in the containers of one node."""
    node = state.node.name
    if report.unserved:
        what = "1 container runs" if report.unserved == 1 else f"{report.unserved} containers run"
        text = f"{what} without the granted devices; Events ShareMissing name the pods"
        yield Finding(RULES["container-without-share"], text, node=node)
    sizes = {short(card.uuid): (card.uuid, card.memory) for card in state.node.cards}
    for each in report.containers:
        if each.card in sizes:
            yield from _of_container(each, node, *sizes[each.card])


def _of_container(
    container: ContainerReport, node: str, uuid: str, memory: int
) -> Iterator[Finding]:
    granted = container.granted
    if granted is None:
        return
    name = f"container {container.container}"
    limit, used = container.limit, container.used
    if limit is not None and (limit > granted or (limit == 0 and granted < memory)):
        until = f"{format_gib(limit)} GiB" if limit else "no limit"
        text = f"{name}: HAMi-core has {until}, the ledger grants {format_gib(granted)} GiB"
        rule = RULES["limit-above-grant"]
        yield Finding(rule, text, node=node, card=uuid, pod=container.pod)
    if used is not None and used > granted:
        text = f"{name} uses {format_gib(used)} GiB, the ledger grants {format_gib(granted)} GiB"
        rule = RULES["use-above-grant"]
        yield Finding(rule, text, node=node, card=uuid, pod=container.pod)
