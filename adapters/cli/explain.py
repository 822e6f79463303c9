"""Why a pod is pending, or why it is where it is: the facts, in words and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.accounting.gang_cache import Gang
from adapters.answer.answer import PodAnswer, held_devices
from adapters.answer.eviction import HIGHEST, NodeEviction, evicting, evictions, is_served
from adapters.answer.judge import Judge
from adapters.answer.words import asked_text, card_lines, head_lines, named, node_lines
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.output.report import GangLine, gang_fields
from adapters.dialects.adoption import FINISHED
from adapters.dialects.dra import DRA
from adapters.dialects.matching import NO_AMOUNTS, amounts_of
from adapters.wire.kube import Pod, full_name, gates_of
from adapters.wire.visible import visible
from core.feasibility.inventory import NodeNames
from core.feasibility.smallest_change import ChangeKind, RequestChange, smallest_changes
from core.hardware.quantity import MIB, format_bytes
from core.requests.grant import Allocation

if TYPE_CHECKING:
    from adapters.cli.input.cluster import PodEvent  # it imports the client of a cluster

EVENTS = 10
"""Events that are shown, the latest ones."""

SHOWN = 3
"""Evictions that are shown, at most."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One pod.

    Attributes:
        answer: where it fits, counting its own cards as free.
        node: the node that it is bound to; None where it is pending, or unknown.
        allocation: its cards; None where it has none.
        excluded: nodes that it fits and may not run on, by name with the cause.
        changes: the smallest changes of the request, each of which makes it fit.
        evictions: by number of pods.
        history: Events of the pod, oldest first.
        claims: what its ResourceClaims have, each with its node.
        devices: of device plugins that a bound pod has and no ledger knows, by resource.
        releases: by node, the fewest pods whose end frees the devices that it requests.
        gang: the pods with which it is bound together; None where it is bound alone.
    """

    answer: PodAnswer
    node: NodeState | None = None
    allocation: Allocation | None = None
    excluded: Mapping[str, str] | None = None
    changes: tuple[RequestChange, ...] = ()
    evictions: tuple[NodeEviction, ...] = ()
    history: "tuple[PodEvent, ...]" = ()
    claims: tuple[tuple[NodeState, Allocation], ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    releases: tuple[tuple[str, tuple[Pod, ...]], ...] = ()
    gang: Gang | None = None

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.answer.pod

    @property
    def well(self) -> bool:
        """Whether there is nothing to repair: it has its cards, fits, or needs none."""
        if self.pod.status.phase in FINISHED:
            return True
        if self.pod.spec.node_name:
            held = (self.allocation, *(each for _, each in self.claims))
            return all(each is None or each.unread is None for each in held)
        return self.answer.problem is None and (
            not self.answer.requests
            or (self.answer.best is not None and not self.answer.is_refused)
        )


def explain(fleet: Fleet, pod: Pod) -> PodExplanation:
    """Explain one pod of a cluster."""
    facts = FleetFacts(fleet)
    judge = Judge(facts)
    answer = judge.answer(pod)
    uid = pod.metadata.uid
    # One that is being bound has cards and no node yet.
    holders = (each for each in fleet.nodes.values() if uid in each.ledger.allocations)
    state = fleet.nodes.get(pod.spec.node_name or "") or next(holders, None)
    allocation = None if state is None else state.ledger.allocations.get(uid)
    found = PodExplanation(
        answer,
        state,
        allocation,
        claims=tuple(
            (state, state.ledger.allocations[claim])
            for claim in fleet.claims.get(uid, ())
            for state in fleet.nodes.values()
            if claim in state.ledger.allocations
        ),
        devices=held_devices(facts, pod) if allocation is None else NO_AMOUNTS,
        gang=facts.gang(pod),
    )
    request = answer.request
    if pod.spec.node_name or request is None or answer.fitting:
        return found
    amounts = amounts_of(pod, request)
    causes = dict(
        zip(
            answer.excluded.names,
            (answer.excluded.distinct[number].text() for number in answer.excluded.ids),
            strict=True,
        )
    )
    others = judge.fitting(request, amounts, NodeNames(answer.excluded.names))
    found = replace(
        found,
        excluded={name: causes[name] for name in others},
        changes=tuple(smallest_changes(request, lambda each: judge.fits(each, answer.candidates))),
    )
    if gates_of(pod):  # nothing is to end for it
        return found
    names = [name for name in answer.candidates.names if fleet.nodes[name].unreadable is None]
    ledgers = [fleet.nodes[name].ledger for name in facts.evaluate(request).resolvable(names)]
    evicted = evicting(answer) or replace(request, priority=-HIGHEST)
    emptied = filter(None, evictions(evicted, ledgers, any_priority=True))
    return replace(
        found,
        releases=() if answer.devices is None else judge.devices.releases(answer.devices),
        evictions=tuple(sorted(emptied, key=lambda each: (len(each.pods), each.node))),
    )


def as_plain(found: PodExplanation) -> dict[str, object]:
    """Return the ``PodExplanation``; amounts are MiB and percent."""
    answer, allocation = found.answer, found.allocation
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "PodExplanation",
        "pod": full_name(found.pod),
        "dialect": answer.dialect or (allocation.dialect if allocation else None),
        "gang": gang_fields(GangLine.of(found.gang)),
        "node": found.pod.spec.node_name,
        "request": asked_text(answer),
        "summary": answer.summary(),
        "best": answer.best,
        "cards": _plain_cards(allocation),
        "devices": dict(found.devices),
        "claims": [
            {
                "claim": each.pod,
                "node": each.node,
                "cards": _plain_cards(each),
                "unread": each.unread,
            }
            for _, each in found.claims
        ],
        "unread": allocation.unread if allocation else None,
        "fits": list(answer.fitting),
        "groups": [asdict(each) | {"examples": list(each.examples)} for each in answer.groups()],
        "reasons": answer.texts(),
        "excluded": list(found.excluded or ()),
        "notes": list(answer.notes),
        "changes": [
            {"what": each.kind.value, "container": each.container or None, "to": _to(each)}
            for each in found.changes
        ],
        "evictions": [
            {
                "node": each.node,
                "pods": [victim.pod for victim in each.pods],
                "preemption": each.preemption,
            }
            for each in found.evictions
        ],
        "history": [asdict(each) for each in found.history],
    }


def _plain_cards(allocation: Allocation | None) -> list[dict[str, object]]:
    return [
        {
            "container": grant.container or "*",
            "uuid": grant.card,
            "memoryMiB": grant.memory // MIB,
            "compute": grant.compute,
        }
        for grant in (allocation.grants if allocation else ())
    ]


def as_text(found: PodExplanation) -> str:
    """Return the whole explanation, ending with a newline."""
    return "".join(f"{visible(line)}\n" for line in _lines(found))


def _lines(found: PodExplanation) -> Iterator[str]:
    answer = found.answer
    yield from head_lines(answer, found.allocation, found.gang)
    if found.allocation is not None and found.node is not None:
        yield from card_lines(found.allocation, found.node.ledger)
        yield from _smaller_slices(found)
    for state, claim in found.claims:
        yield from card_lines(claim, state.ledger, f"Cards of ResourceClaim {claim.pod}")
    if not found.pod.spec.node_name and answer.fits_nowhere:
        yield from node_lines(answer)
        yield from _remedies(found)
    if found.history:
        yield ""
        yield "History"
        if len(found.history) > EVENTS:
            yield f"  {len(found.history) - EVENTS} older Events are in -o json"
        for each in found.history[-EVENTS:]:
            times = f" x{each.count}" if each.count > 1 else ""
            yield f"  {each.time}{times} {each.reason} ({each.component}): {each.message}"


def _smaller_slices(found: PodExplanation) -> Iterator[str]:
    """Yield the slices that have less than was requested, because their configured size counts."""
    request = found.answer.request
    containers = {each.name: each for each in (request.containers if request else ())}
    for grant in found.allocation.grants if found.allocation else ():
        asked = containers.get(grant.container)
        if grant.slice is None or asked is None or asked.memory is None:
            continue
        if grant.memory < asked.memory:
            yield (
                f"  {grant.container}: {grant.slice.profile} fits by its configured size;"
                f" {format_bytes(grant.memory)} of the {format_bytes(asked.memory)} requested"
                " are usable"
            )


def _remedies(found: PodExplanation) -> Iterator[str]:
    yield ""
    yield "What would make it fit"
    lines: list[str] = []
    for change in found.changes:
        less = f"less for {change.container}" if change.container else "without"
        amount = f", {_to(change)}" if change.container else ""
        lines.append(f"  request {less}: {change.kind.value}{amount}")
    for eviction in found.evictions[:SHOWN]:
        pods = ", ".join(
            f"ResourceClaim {held.pod}"
            if held.dialect == DRA  # its priority says only that none preempts it
            else f"{held.pod} ({held.dialect}, priority {held.priority})"
            for held in eviction.pods
        )
        verb, then = "end", ""
        if eviction.preemption:
            verb = "evict"
            then = "; of lower priority, so " + (
                "the service does it with preemption.enabled"
                if is_served(found.pod)
                else "vc-scheduler does it with its action preempt"
            )
        lines.append(f"  {verb} on {eviction.node}: {pods}{then}")
    lines += [
        f"  end on {node}: {', '.join(map(full_name, pods))}"
        for node, pods in found.releases[:SHOWN]
    ]
    nodes: dict[str, list[str]] = {}
    for name, cause in (found.excluded or {}).items():
        nodes.setdefault(cause, []).append(name)
    lines += [
        f"  let it run on {named(names, len(names))}: {cause}"
        for cause, names in sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    gated = gates_of(found.pod)
    evictions = "no pod is to end for it" if gated else "no eviction on one node"
    yield from lines or [f"  no single change of the request, and {evictions}"]


def _to(change: RequestChange) -> str | None:
    """Return what a container may request at most; None where it is not about one."""
    container = next((c for c in change.request.containers if c.name == change.container), None)
    if container is None:
        return None
    match change.kind:
        case ChangeKind.MEMORY if container.memory is None:
            return f"at most {container.memory_percent}%"
        case ChangeKind.MEMORY:
            return f"at most {(container.memory or 0) // MIB} MiB"
        case ChangeKind.COMPUTE:
            return f"at most {container.compute}%"
        case ChangeKind.COUNT:
            return f"at most {container.count}"
        case _:
            return "share the card"
