"""What is wrong with one node: its cards, its ledger, and who allocates its cards."""

from collections.abc import Iterator, Sequence

from adapters.accounting.published_resources import written
from adapters.accounting.repair_plan import drift
from adapters.accounting.repairs import (
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
from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.audit.pod_rules import edited_record, has_record, record_without_request
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.dialects.dialect import Dialect
from adapters.wire.kube import full_name
from adapters.wire.quantity import QuantityError, parse
from core.ledger.problem import Problem, ProblemKind


def node_findings(name: str, state: NodeState, fleet: Fleet) -> Iterator[Finding]:
    """Everything that is wrong on one node."""
    yield from (
        Finding(RULES["node-description"], problem, node=name) for problem in state.problems
    )
    if state.unreadable is not None:
        yield Finding(RULES["unreadable-ledger"], state.unreadable, node=name)
    yield from (_of_problem(state, problem) for problem in _problems(state, fleet.dialects))
    for uid in state.ledger.allocations.keys() & fleet.unused_claims:
        claim = state.ledger.allocations[uid].pod
        yield Finding(RULES["claim-without-pod"], "no pod uses it", node=name, pod=claim)
    for pod in state.pods:
        yield from edited_record(pod, state.node, fleet.dialects)
        yield from record_without_request(pod, fleet.dialects)
    if state.stored is None:
        yield from _two_allocators(name, state, fleet.dialects)
    else:
        yield from filter(None, (_of_repair(name, repair) for repair in state.repairs))


def _problems(state: NodeState, dialects: Sequence[Dialect]) -> Sequence[Problem]:
    if state.stored is None:
        return state.ledger.problems()
    problems = drift(state.ledger, state.pods, dialects)
    # The record of every pod is compared, not only of those that another scheduler bound.
    return [problem for problem in problems if problem.kind is not ProblemKind.EDITED]


def _of_problem(state: NodeState, problem: Problem) -> Finding:
    rule = RULES[problem.kind.value]
    if problem.kind is ProblemKind.UNREADABLE and not _has_record(state, problem.pod):
        rule = RULES["share-without-record"]
    text = problem.text.removeprefix(f"card {problem.card}: ")
    return Finding(
        rule,
        text,
        node=state.node.name,
        card=problem.card,
        pod=problem.pod,
        namespaces=frozenset(_namespaces(state, problem)),
    )


def _namespaces(state: NodeState, problem: Problem) -> Iterator[str]:
    if problem.pod:
        yield problem.pod.partition("/")[0]
        return
    for card, use in zip(state.node.cards, state.ledger.usages, strict=True):
        if card.uuid == problem.card:
            for share in use.shares:
                yield state.ledger.allocations[share.uid].pod_ref.namespace


def _has_record(state: NodeState, name: str) -> bool:
    return any(has_record(pod) for pod in state.pods if full_name(pod) == name)


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
