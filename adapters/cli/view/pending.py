"""``pending``: pods that request a share and have no node, with the reason."""

from msgspec import to_builtins

from adapters.answer.answer import uncounted_text
from adapters.answer.device_plugins import devices_text
from adapters.answer.eviction import cost, evictions, may_evict
from adapters.answer.judge import Judge
from adapters.answer.words import asked_text, reason_lines
from adapters.cli.fleet.facts import FleetFacts, requests_cards
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.output.rows import Row, columns
from adapters.cli.view.listing import Listing, elsewhere
from adapters.cli.view.pod_meta import Selector, selects
from adapters.dialects.unread_keys import NOT_COUNTED
from adapters.wire.kube import full_name, pod_ref
from adapters.wire.records.tenant import WaitingPod

COLUMNS = (
    *columns("NAMESPACE", "POD", "DIALECT"),
    *columns("SCHEDULER", "GANG", wide=True),
    *columns("REQUEST", "REASON"),
)

KEYS = ("namespace", "pod", "dialect", "scheduler", "request", "fits", "reason", "gang")

MOST_EVICTIONS = 5
"""Pods for which evictions are computed, at most."""


def waiting_row(each: WaitingPod) -> Row:
    """Return the row of a pod that waits."""
    cells = (
        each.namespace, each.pod, each.dialect or "", each.scheduler, each.gang or "", each.request,
        each.reason,
    )  # fmt: skip
    return Row(f"pod/{each.pod}", cells, to_builtins(each), reason_lines(each.reason))


def pending(fleet: Fleet, namespace: str | None, selector: Selector = ()) -> Listing:
    """Return one row for each pod, the oldest first; one that fits waits for its scheduler."""
    facts = FleetFacts(fleet)
    judge = Judge(facts)
    pods = fleet.pending()
    chosen = [
        pod
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "~")
        if namespace in (None, pod_ref(pod).namespace)
        and selects(selector, pod.metadata.labels or {})
    ]
    answers = [judge.answer(pod) for pod in chosen]
    rows: list[Row] = []
    for answer in answers:
        if answer.requests:
            ref = pod_ref(answer.pod)
            scheduler = answer.pod.spec.scheduler_name or "default-scheduler"
            gang = None if answer.gang is None else str(answer.gang.gang.ref)
            if answer.devices is not None:
                request = devices_text(answer.devices.amounts)
            else:
                request = asked_text(answer) or "invalid"
            waiting_pod = WaitingPod(
                ref.namespace, ref.name, answer.dialect, scheduler, request, len(answer.fitting),
                answer.summary(), gang,
            )  # fmt: skip
            rows.append(waiting_row(waiting_pod))
    notes: list[str] = []
    for answer in answers:
        name = full_name(answer.pod)
        notes += (f"{name}: {note}" for note in answer.notes if not note.endswith(NOT_COUNTED))
        if answer.uncounted:
            notes.append(f"{name} {uncounted_text(answer.uncounted)}")
    waiting = sorted(filter(may_evict, answers), key=lambda each: -(each.pod.spec.priority or 0))
    for answer in waiting[:MOST_EVICTIONS]:
        best = min(filter(None, evictions(answer, facts)), key=cost, default=None)
        if best is not None:
            notes.append(f"{full_name(answer.pod)}: {best.text(answer.pod, evicts=None)}")
    hidden = [] if namespace is None else [p for p in pods if pod_ref(p).namespace != namespace]
    others = sum(requests_cards(pod, fleet.dialects) for pod in hidden)
    if not rows:
        what = "no pods with these labels wait" if selector else "no pods wait"
        notes.insert(0, elsewhere(what, namespace, others))
    return Listing(
        "PendingPodList", COLUMNS, tuple(rows), KEYS, notes=tuple(notes), elsewhere=others
    )
