"""Why a pod is pending, or why it is where it is: the facts, in words and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from msgspec import to_builtins

from adapters.accounting.gang_cache import Gang
from adapters.answer.answer import PodAnswer, held_devices
from adapters.answer.judge import Judge, finished
from adapters.answer.remedies import NONE, Remedies, reduced, remedies, remedy_lines
from adapters.answer.words import asked_text, card_lines, head_lines, node_lines
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.output.report import GangLine
from adapters.dialects.adoption import FINISHED
from adapters.dialects.matching import NO_AMOUNTS
from adapters.wire.kube import Pod, full_name
from adapters.wire.visible import visible
from core.hardware.quantity import MIB, format_bytes
from core.requests.grant import Allocation

if TYPE_CHECKING:
    from adapters.cli.input.cluster import PodEvent  # it imports the client of a cluster

EVENTS = 10
"""Events that are shown, the latest ones."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One pod.

    Attributes:
        answer: where it fits, counting its own cards as free.
        node: the node that it is bound to; None where it is pending, or unknown.
        allocation: its cards; None where it has none.
        remedies: what would make it fit.
        history: Events of the pod, oldest first.
        claims: what its ResourceClaims have, each with its node.
        devices: of device plugins that a bound pod has and no ledger knows, by resource.
        gang: the pods with which it is bound together; None where it is bound alone.
    """

    answer: PodAnswer
    node: NodeState | None = None
    allocation: Allocation | None = None
    remedies: Remedies = NONE
    history: "tuple[PodEvent, ...]" = ()
    claims: tuple[tuple[NodeState, Allocation], ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
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
    return PodExplanation(
        answer,
        state,
        allocation,
        claims=tuple(
            (state, state.ledger.allocations[claim.uid])
            for claim in fleet.claims.of_pod(uid)
            for state in fleet.nodes.values()
            if claim.uid in state.ledger.allocations
        ),
        devices=held_devices(facts, pod) if allocation is None else NO_AMOUNTS,
        remedies=finished(remedies(judge, answer)),
        gang=facts.gang(pod),
    )


def as_plain(found: PodExplanation) -> dict[str, object]:
    """Return the ``PodExplanation``; amounts are MiB and percent."""
    answer, allocation = found.answer, found.allocation
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "PodExplanation",
        "pod": full_name(found.pod),
        "dialect": answer.dialect or (allocation.dialect if allocation else None),
        "gang": to_builtins(GangLine.of(found.gang)),
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
        "excluded": list(found.remedies.excluded),
        "notes": list(answer.notes),
        "changes": [
            {"what": each.kind.value, "container": each.container or None, "to": reduced(each)}
            for each in found.remedies.changes
        ],
        "evictions": [
            {
                "node": each.node,
                "pods": [victim.pod for victim in each.pods],
                "preemption": each.preemption,
            }
            for each in found.remedies.evictions
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
        yield ""
        yield "What would make it fit"
        yield from (f"  {line}" for line in remedy_lines(found.pod, found.remedies))
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
