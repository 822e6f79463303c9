"""``pending``: pods that request a share and have no node, with the reason."""

from adapters.cli.fleet import Fleet
from adapters.cli.output.amounts import request_text
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing, in_namespaces
from adapters.cli.view.verdict import Judge, Verdict
from adapters.wire.kube import Pod, pod_ref

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
    rows = [
        _row(pod, verdict)
        for pod in fleet.pending()
        if namespace in (None, pod.metadata.namespace or "default")
        and ((verdict := judge.verdict(pod)).decision is not None or verdict.problem is not None)
    ]
    return Listing("PendingPodList", _COLUMNS, in_namespaces(rows, namespace), _KEYS)


def _row(pod: Pod, verdict: Verdict) -> Row:
    ref = pod_ref(pod)
    scheduler = pod.spec.scheduler_name or "default-scheduler"
    request = "invalid" if verdict.request is None else request_text(verdict.request)
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
