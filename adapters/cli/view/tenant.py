"""Lists that the scheduling service answers about one namespace."""

from adapters.cli.input.origin import Origin
from adapters.cli.input.service import ask
from adapters.cli.view import pending, pod_rows
from adapters.cli.view.listing import Listing, elsewhere
from adapters.cli.view.pod_meta import with_ages
from adapters.wire.agent_report import UNKNOWN
from adapters.wire.kube import Metadata, Pod
from adapters.wire.records.tenant import TenantRows


def asked(url: str, origin: Origin, question: str, namespace: str, place: str) -> Listing:
    """Return the answer to ``pending``, ``pods``, or ``shares`` of ``NODE`` or ``NODE/CARD``.

    Raises:
        InputError: as of ``ask``.
    """
    node, _, card = place.partition("/" if "/" in place else ":")
    query = {"namespace": namespace} | ({"node": node, "card": card} if place else {})
    found = ask(url, origin, question, TenantRows, **query)
    pods = {
        f"{namespace}/{name}": Pod(Metadata(name, namespace, creation_timestamp=at))
        for name, at in found.created.items()
    }
    return with_ages(_listing(found, question, namespace), pods)


def _listing(found: TenantRows, question: str, namespace: str) -> Listing:
    match question:
        case "pending":
            rows = tuple(map(pending.waiting_row, found.pending))
            notes = () if rows else (elsewhere("no pods wait", namespace, 0),)
            return Listing("PendingPodList", pending.COLUMNS, rows, pending.KEYS, notes=notes)
        case "pods":
            rows = tuple(pod_rows.pod_row(each, UNKNOWN) for each in found.pods)
            notes = () if rows else (elsewhere("no pods have cards", namespace, 0),)
            return Listing("PodList", pod_rows.PODS, rows, pod_rows.POD_KEYS, notes=notes)
        case _:
            rows = tuple(map(pod_rows.share_row, found.shares))
            others = "share is" if found.elsewhere == 1 else "shares are"
            notes = (f"{found.elsewhere} {others} of other namespaces",) if found.elsewhere else ()
            return Listing("ShareList", pod_rows.SHARES, rows, pod_rows.SHARE_KEYS, notes=notes)
