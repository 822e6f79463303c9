"""What would make a waiting pod fit: less of a request, other nodes, or the end of pods."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace

from adapters.answer.answer import NOWHERE, PodAnswer
from adapters.answer.claims import claim_fit, requested
from adapters.answer.eviction import NodeEviction, evictions, is_served
from adapters.answer.judge import Judge
from adapters.answer.words import named
from adapters.dialects.dra import DRA
from adapters.dialects.matching import amounts_of
from adapters.wire.kube import Pod, full_name, gates_of
from core.feasibility.inventory import NodeNames
from core.feasibility.smallest_change import ChangeKind, RequestChange, smallest_changes
from core.hardware.quantity import MIB

SHOWN = 3
"""Evictions that are shown, at most."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What would make a pod fit; nothing where it fits, has a node, or is invalid.

    Attributes:
        excluded: nodes that it fits and may not run on, by name with the cause.
        changes: the smallest changes of the request, each of which makes it fit.
        evictions: by number of pods.
        releases: by node, the fewest pods whose end frees the devices that it requests.
    """

    excluded: Mapping[str, str] = field(default_factory=lambda: NOWHERE)
    changes: tuple[RequestChange, ...] = ()
    evictions: tuple[NodeEviction, ...] = ()
    releases: tuple[tuple[str, tuple[Pod, ...]], ...] = ()


NONE = Remedies()


def remedies(judge: Judge, answer: PodAnswer) -> Generator[None, None, Remedies]:
    """Return what would make a pod fit; it pauses every few milliseconds."""
    pod, request = answer.pod, answer.request
    if pod.spec.node_name or not answer.fits_nowhere:
        return NONE
    excluded = answer.excluded
    causes = {
        name: excluded.distinct[number].text()
        for name, number in zip(excluded.names, excluded.ids, strict=True)
    }
    others: tuple[str, ...] = ()
    changes: list[RequestChange] = []
    if request is not None:
        others = judge.fitting(request, amounts_of(pod, request), NodeNames(excluded.names))
        evaluate, names = judge.facts.evaluate, answer.candidates
        for each in smallest_changes(request, lambda one: evaluate(one).best(names) is not None):
            changes.append(each)
            yield
    elif (asked := requested(pod, judge.facts.claims)) is not None:
        elsewhere = yield from claim_fit(pod, asked, judge.facts, excluded.names)
        others = elsewhere.fitting if elsewhere.is_sure else ()
    found = Remedies({name: causes[name] for name in others}, tuple(changes))
    if gates_of(pod):  # nothing is to end for it
        return found
    evicted: list[NodeEviction] = []
    for step in evictions(answer, judge.facts, any_priority=True):
        evicted += () if step is None else (step,)
        yield
    return replace(
        found,
        releases=() if answer.devices is None else judge.devices.releases(answer.devices),
        evictions=tuple(sorted(evicted, key=lambda each: (len(each.pods), each.node))),
    )


def remedy_lines(pod: Pod, found: Remedies) -> Iterator[str]:
    """Yield what would make a pod fit, in a line each; one line where nothing alone would."""
    lines: list[str] = []
    for change in found.changes:
        less = f"less for {change.container}" if change.container else "without"
        amount = f", {reduced(change)}" if change.container else ""
        lines.append(f"request {less}: {change.kind.value}{amount}")
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
                if is_served(pod)
                else "vc-scheduler does it with its action preempt"
            )
        lines.append(f"{verb} on {eviction.node}: {pods}{then}")
    lines += [
        f"end on {node}: {', '.join(map(full_name, pods))}" for node, pods in found.releases[:SHOWN]
    ]
    nodes: dict[str, list[str]] = {}
    for name, cause in found.excluded.items():
        nodes.setdefault(cause, []).append(name)
    lines += [
        f"let it run on {named(names, len(names))}: {cause}"
        for cause, names in sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    ends = "no pod is to end for it" if gates_of(pod) else "no eviction on one node"
    yield from lines or [f"no single change of the request, and {ends}"]


def reduced(change: RequestChange) -> str | None:
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
