"""``pending``: pods that request a share and have no node, with the reason."""

from adapters.cli.fleet.device_plugins import devices_text
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.output.amounts import request_text
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing, elsewhere
from adapters.cli.view.verdict import Judge, Verdict, requests_cards, uncounted_text
from adapters.wire.kube import Pod, full_name, pod_ref

_COLUMNS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("DIALECT"),
    Column("SCHEDULER", wide=True),
    Column("REQUEST"),
    Column("REASON"),
)

_KEYS = ("namespace", "pod", "dialect", "scheduler", "request", "fits", "reason")


def pending(fleet: Fleet, namespace: str | None) -> Listing:
    """One row for each pod; a pod that fits waits for its scheduler."""
    judge = Judge(fleet)
    pods = fleet.pending()
    chosen = [pod for pod in pods if namespace in (None, pod_ref(pod).namespace)]
    verdicts = [(pod, judge.verdict(pod)) for pod in chosen]
    rows = [_row(pod, verdict) for pod, verdict in verdicts if verdict.requests]
    notes = [
        f"{full_name(pod)} {uncounted_text(verdict.uncounted)}"
        for pod, verdict in verdicts
        if verdict.uncounted
    ]
    hidden = [] if namespace is None else [p for p in pods if pod_ref(p).namespace != namespace]
    others = sum(requests_cards(pod, fleet.dialects) for pod in hidden)
    if not rows:
        notes.insert(0, elsewhere("no pods wait", namespace, others))
    return Listing(
        "PendingPodList", _COLUMNS, tuple(rows), _KEYS, notes=tuple(notes), elsewhere=others
    )


def _row(pod: Pod, verdict: Verdict) -> Row:
    ref = pod_ref(pod)
    scheduler = pod.spec.scheduler_name or "default-scheduler"
    request = _request(verdict)
    reason = verdict.summary()
    return Row(
        f"pod/{ref.name}",
        (ref.namespace, ref.name, verdict.dialect or "", scheduler, request, reason),
        {
            "namespace": ref.namespace, "pod": ref.name, "dialect": verdict.dialect,
            "scheduler": scheduler, "request": request, "fits": len(verdict.fitting),
            "reason": reason,
        },
    )  # fmt: skip


def _request(verdict: Verdict) -> str:
    if verdict.devices is not None:
        return devices_text(verdict.devices.amounts)
    return "invalid" if verdict.request is None else request_text(verdict.request)
