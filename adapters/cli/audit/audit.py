"""Look for what is wrong with the cards of a cluster by all rules, and print the findings."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter

from adapters.accounting.gang_members import named
from adapters.accounting.published_resources import written
from adapters.cli.audit.finding import RULES, Finding
from adapters.cli.fleet.facts import counted, plugin_devices, requests_cards
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.input.manifests import Manifests
from adapters.cli.output.rows import Row, columns, table
from adapters.cli.output.terminal import first_names
from adapters.dialects import registry
from adapters.dialects.adoption import KUBELET_SHARES, NVIDIA, disagreements, may_use_cards
from adapters.dialects.device_plugins import PluginResource, read_plugin_node
from adapters.dialects.dialect import Dialect
from adapters.dialects.dra import DRA
from adapters.dialects.formats.gpu_fractions import RESERVES, UNKNOWN_PART
from adapters.dialects.formats.koordinator_settings import NAME as KOORDINATOR
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.unread_keys import SHARERS
from adapters.repairs import repairs
from adapters.repairs.plan import drift
from adapters.wire.agent_report import NodeReport, short
from adapters.wire.kube import annotations, full_name
from adapters.wire.quantity import QuantityError, parse
from core.hardware.quantity import format_gib
from core.ledger.problem import Problem, ProblemKind
from core.quota.amounts import text as amount_text
from core.requests.grant import KUBELET
from core.requests.reason import Cause

AGAIN = 5
"""Seconds until a cluster with findings is read again: the service repairs within seconds."""

_COLUMNS = (
    *columns("LEVEL", "RULE", "NODE"),
    *columns("CARD", wide=True),
    *columns("POD", "FINDING"),
)

_FIELDS = ("node", "card", "pod", "text", "file", "line")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit.

    Attributes:
        findings: in the order of the rules, then of the nodes.
        nodes: how many were looked at.
        cards: how many.
        pods: how many have cards.
    """

    findings: tuple[Finding, ...]
    nodes: int
    cards: int
    pods: int


def audit(manifests: Manifests, fleet: Fleet, ignored: Sequence[str] = ()) -> AuditReport:
    """Look for everything that is wrong, but by the rules whose ids are ignored.

    The manifests are what the fleet was read from, for the places of findings in files.
    """
    order = {rule: position for position, rule in enumerate(RULES)}
    found: dict[Finding, None] = {}
    for each in _findings(fleet):
        _, place = manifests.pods.get(each.pod) or manifests.nodes.get(each.node) or (None, None)
        if each.rule.id not in ignored:
            at = replace(each, file=place.file, line=place.line) if place and place.line else each
            found[at] = None
    return AuditReport(
        findings=tuple(sorted(found, key=lambda each: order[each.rule.id])),
        nodes=len(fleet.nodes),
        cards=sum(len(state.node.cards) for state in fleet.nodes.values()),
        pods=sum(len(state.ledger.allocations) for state in fleet.nodes.values()),
    )


def confirmed(report: AuditReport, earlier: AuditReport) -> AuditReport:
    """Return the findings that a report has of what an earlier one found too.

    Objects are read one kind after the other, and pods begin and end meanwhile.
    """
    about = attrgetter("rule.id", "node", "card", "pod")  # texts have amounts, which change
    before = {*map(about, earlier.findings)}
    return replace(
        report, findings=tuple(each for each in report.findings if about(each) in before)
    )


def in_namespace(report: AuditReport, namespace: str) -> AuditReport:
    """Return the findings that concern pods of one namespace."""
    kept = (
        finding
        for finding in report.findings
        if namespace in finding.namespaces or finding.pod.startswith(f"{namespace}/")
    )
    return replace(report, findings=tuple(kept))


def as_table(report: AuditReport, *, headers: bool, wide: bool) -> str:
    """One line for each finding, the remedy of each rule, and a summary."""
    rows = []
    for each in report.findings:
        level, rule = each.rule.level.value, each.rule.id
        rows.append(Row(rule, (level, rule, each.node, each.card, each.pod, each.text), {}))
    parts = [table(_COLUMNS, rows, wide=wide, headers=headers)] if rows else []
    if headers:
        remedies = dict.fromkeys(finding.rule for finding in report.findings)
        if remedies:
            parts.append("".join(f"{rule.id}: {rule.remedy}\n" for rule in remedies))
        looked = (
            f"{_count(report.nodes, 'node')}, {_count(report.cards, 'card')},"
            f" {_count(report.pods, 'pod')} with cards"
        )
        number = _count(len(report.findings), "finding") if report.findings else "no findings"
        parts.append(f"{looked}: {number}\n")
    return "\n".join(parts)


def as_plain(report: AuditReport) -> dict[str, object]:
    """Return the ``AuditReport``, for JSON and YAML."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "AuditReport",
        "nodes": report.nodes,
        "cards": report.cards,
        "pods": report.pods,
        "findings": [
            {"rule": each.rule.id, "level": each.rule.level.value}
            | {name: getattr(each, name) or None for name in _FIELDS}
            for each in report.findings
        ],
    }


def _findings(fleet: Fleet) -> Iterator[Finding]:
    yield from (Finding(RULES["node-description"], problem) for problem in fleet.problems)
    for name, state in fleet.nodes.items():
        yield from _node_findings(name, state, fleet)
        if name in fleet.agents.nodes:
            yield from _container_findings(state, fleet.agents.nodes[name])
    for name, stated in plugin_devices(fleet).nodes.items():
        for problem in stated.problems:
            yield Finding(RULES["device-plugin-labels"], problem, node=name)
    ledgers = (state.ledger for state in fleet.nodes.values())
    for namespace, quota in counted(fleet.quotas, ledgers).items():
        for name, limit, amount in quota.bounds.with_amounts(quota.used()):
            if limit is not None and amount > limit:
                have, allowed = amount_text(name, amount), amount_text(name, limit)
                text = f"namespace {namespace}: {name}: {have} of {allowed} are in use"
                yield Finding(RULES["quota-exceeded"], text, namespaces=frozenset({namespace}))
    yield from _gang_findings(fleet)
    for name in fleet.unused_ledgers:
        yield Finding(RULES["ledger-without-node"], "no node has its name", node=name)
    for pod in fleet.pods.values():
        node = pod.spec.node_name or ""
        if may_use_cards(pod) and node not in fleet.nodes and requests_cards(pod, fleet.dialects):
            text = f"is bound to {node}, which does not exist"
            yield Finding(RULES["pod-on-unknown-node"], text, node=node, pod=full_name(pod))


def _gang_findings(fleet: Fleet) -> Iterator[Finding]:
    """Gangs of which fewer pods are bound than are bound together, while others wait for cards."""
    for gang in fleet.gangs().bound_in_part():
        waiting = [pod for pod in gang.pods if not pod.spec.node_name]
        if not any(requests_cards(pod, fleet.dialects) for pod in waiting):
            continue
        bound = len(gang.pods) - len(waiting)
        names = sorted(map(full_name, waiting))
        text = (
            f"{named(gang)}: {bound} {'pod is' if bound == 1 else 'pods are'} bound;"
            f" {first_names(names)} {'wait' if len(names) > 1 else 'waits'}"
        )
        namespaces = frozenset(part.ref.namespace for part in gang.parts)
        yield Finding(RULES["gang-bound-in-part"], text, pod=names[0], namespaces=namespaces)


def _node_findings(name: str, state: NodeState, fleet: Fleet) -> Iterator[Finding]:
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
    uses = [*zip(state.node.cards, state.ledger.usages, strict=True)]
    given = {card.uuid for card, use in uses if any(not share.blocked for share in use.shares)}
    may_have: set[str] = set()
    known = (None, RESERVES, UNKNOWN_PART, KUBELET_SHARES)
    for held in state.ledger.allocations.values():
        if held.dialect == KUBELET and held.unread not in known:
            text = f"{held.unread}: {_count(len(held.blocked), 'card')} may be in use by it"
            yield Finding(RULES["share-without-record"], text, node=name, pod=held.pod)
            may_have |= held.blocked if held.blocked - given else frozenset()
    for problem in problems:
        if problem.pod == repairs.CLOSED:  # for two minutes after its ledger was deleted
            continue
        # Of the cards that the kubelet may have chosen one is free: no pair is sure to share one.
        is_doubt = problem.text.endswith(Cause.HELD_BY_KUBELET.value)
        if not (is_doubt and problem.card in may_have):
            yield _of_problem(state, problem)
    for uid, held in state.ledger.allocations.items():
        if uid in fleet.unused_claims:
            text = fleet.unused_claims[uid]
            yield Finding(RULES["claim-without-pod"], text, node=name, pod=held.pod)
    for pod in state.pods:
        for text in disagreements(pod, state.node, fleet.dialects):
            yield Finding(RULES["edited-record"], text, node=name, pod=full_name(pod))
        keys = sorted(registry.own_records(annotations(pod).keys()))
        if keys and not requests_cards(pod, fleet.dialects):
            text = f"has {', '.join(keys)} and requests no share"
            yield Finding(RULES["record-without-request"], text, node=name, pod=full_name(pod))
    yield from two_allocators(name, state, fleet.dialects)
    if state.stored is not None:
        yield from filter(None, (_of_repair(name, repair) for repair in state.repairs))


def _of_problem(state: NodeState, problem: Problem) -> Finding:
    rule = RULES[problem.kind.value]
    held = state.ledger.allocations.values()
    is_claim = any(each.pod == problem.pod and each.dialect == DRA for each in held)
    pods = (pod for pod in state.pods if full_name(pod) == problem.pod)
    if is_claim:
        rule = RULES["claim-without-card"]
    elif problem.kind is ProblemKind.UNREADABLE and not any(
        registry.own_records(annotations(pod).keys()) for pod in pods
    ):
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


def _of_repair(node: str, repair: repairs.Repair) -> Finding | None:
    match repair:
        case repairs.Describe():
            text = "its NodeLedger has other cards than the node's annotations and Device"
            return Finding(RULES["ledger-describes-other-cards"], text, node=node)
        case repairs.Adopt(allocation):
            rule, text = "pod-not-in-ledger", "has cards that the NodeLedger does not know"
        case repairs.Release(allocation, why):
            rule, text = "allocation-without-pod", f"is in the NodeLedger, but {why.value}"
        case repairs.Allocate(allocation):
            text = "was bound while the service was away, and waits for its cards"
            rule = "bound-without-cards"
        case repairs.Keep() | repairs.Mirror() | repairs.Recount():
            return None
        case repairs.Annotate(pod):
            text = "its annotations name other cards than the NodeLedger, which will repair them"
            return Finding(RULES["record-differs-from-ledger"], text, node=node, pod=full_name(pod))
    return Finding(RULES[rule], text, node=node, pod=allocation.pod)


def two_allocators(name: str, state: NodeState, dialects: Sequence[Dialect]) -> Iterator[Finding]:
    """Components that advertise the same cards, each with a scheduler or a kubelet that decides.

    A ledger has the allocations of all dialects, and none of the others'.
    """
    mirrored = written(state.kube)
    advertised: dict[str, int] = {}
    for resource, amount in (state.kube.status.allocatable or {}).items():
        with suppress(QuantityError):
            if resource not in mirrored and (number := parse(str(amount))) > 0:
                advertised[resource] = int(number)
    found: dict[str, tuple[frozenset[str], str]] = {}
    expected: dict[str, int] = {}
    for dialect in dialects:
        own = [card for card in state.node.cards if dialect.name in card.dialects]
        amounts = dialect.resources(own)
        offered = sorted(advertised.keys() & amounts.keys())
        if offered:
            found[dialect.name] = frozenset(card.uuid for card in own), offered[0]
            expected |= amounts
    if state.stored is None:
        found |= {source: (uuids, "claims") for source, uuids in state.sliced.items()}
    shared: dict[tuple[str, ...], list[str]] = {}
    for card in state.node.cards if state.stored is None else ():
        owners = tuple(owner for owner, (cards, _) in found.items() if card.uuid in cards)
        if len(owners) > 1:
            shared.setdefault(tuple(f"{each} ({found[each][1]})" for each in owners), []).append(
                card.uuid
            )
    others = _others(advertised.keys(), expected, state, found)
    known = [f"{owner} ({resource})" for owner, (_, resource) in found.items()]
    if others and len(known) + len(others) > 1:
        held = frozenset[str]().union(*(cards for cards, _ in found.values()))
        shared[*known, *others] = sorted(held)
    for owners, uuids in shared.items():
        what = "it" if len(uuids) == 1 else f"{len(uuids)} cards" if uuids else "the node's cards"
        text = f"{' and '.join(owners)} advertise {what}, and no ledger has the allocations of both"
        only = uuids[0] if len(uuids) == 1 else ""
        yield Finding(RULES["two-allocators"], text, node=name, card=only)


def _others(
    advertised: Set[str], expected: Mapping[str, int], state: NodeState, owners: Collection[str]
) -> list[str]:
    """Return who advertises NVIDIA's cards of a node and is no dialect.

    The owners are dialects, whose components state the expected amounts.
    """
    vendors = {card.vendor for card in state.node.cards}
    if vendors and vendors.isdisjoint({NVIDIA, ""}):
        return []
    sharers = dict[str, str]()
    for resource in sorted(advertised - expected.keys()):
        if resource.startswith(SHARERS):
            system = "Volcano's former plugin" if resource.startswith("volcano.sh/") else resource
            sharers.setdefault(system.partition("/")[0], resource)
    found = [f"{system} ({resource})" for system, resource in sharers.items()]
    for each in of_device_plugins(state, expected):
        # koord-scheduler allocates whole cards by the plugin's resource too
        is_koordinator = each.name == GPU and KOORDINATOR in owners
        if each.allocatable and each.name.startswith("nvidia.com/") and not is_koordinator:
            return [*found, f"NVIDIA's device plugin ({each.name})"]
    return found


def of_device_plugins(state: NodeState, expected: Mapping[str, int]) -> Iterator[PluginResource]:
    """Yield what device plugins state of a node beside the service and the dialects' components.

    These state the expected amounts. HAMi's plugin has NVIDIA's resource too, of another amount:
    the sum of its sharers.
    """
    stated, ours = read_plugin_node(state.kube), written(state.kube)
    for name, each in stated.resources.items() if stated else ():
        cards = None if stated is None or stated.cards is None else stated.cards * each.replicas
        is_other = name not in expected or each.allocatable == cards != expected[name]
        if name not in ours and is_other:
            yield each


def _container_findings(state: NodeState, report: NodeReport) -> Iterator[Finding]:
    """Everything that is wrong in the containers of one node."""
    node = state.node.name
    if report.unserved:
        what = "1 container runs" if report.unserved == 1 else f"{report.unserved} containers run"
        text = f"{what} without the granted devices; Events ShareMissing name the pods"
        yield Finding(RULES["container-without-share"], text, node=node)
    sizes = {short(card.uuid): (card.uuid, card.memory) for card in state.node.cards}
    for each in report.containers:
        granted, limit, used = each.granted, each.limit, each.used
        if each.card not in sizes or granted is None:
            continue
        uuid, memory = sizes[each.card]
        name, grants = f"container {each.container}", f"the ledger grants {format_gib(granted)} GiB"
        if limit is not None and (limit > granted or (limit == 0 and granted < memory)):
            until = f"{format_gib(limit)} GiB" if limit else "no limit"
            text = f"{name}: HAMi-core has {until}, {grants}"
            yield Finding(RULES["limit-above-grant"], text, node=node, card=uuid, pod=each.pod)
        if used is not None and used > granted:
            text = f"{name} uses {format_gib(used)} GiB, {grants}"
            yield Finding(RULES["use-above-grant"], text, node=node, card=uuid, pod=each.pod)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
