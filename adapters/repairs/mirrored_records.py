"""Which bound pods of a node have other mirrored records than the ledger asks for.

A Binding brings the mirrors of what is committed then. The rest is written later: of pods that were
adopted, or got their cards late, and of pods that have cards by a ResourceClaim. A mirror that the
ledger does not ask for is removed: its claim is shown by another pod, or another program wrote it.
"""

from collections.abc import Iterator, Sequence

from adapters.dialects import registry
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import claims_of
from adapters.dialects.matching import dialect_of
from adapters.dialects.mirrors import mirrors
from adapters.repairs.repairs import Mirror
from adapters.wire.kube import Pod, UnreadPod, annotations
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


def unmirrored(
    ledger: NodeLedger,
    pods: Sequence[Pod],
    consumers: Sequence[Pod],
    dialects: Sequence[Dialect],
    targets: Sequence[Dialect],
) -> Iterator[Mirror]:
    """Return the mirrored records to write, and after them those to remove.

    So a peer never sees more room than there is where a mirror moves to another pod.

    Args:
        ledger: of the node.
        pods: bound to it, and may use its cards.
        consumers: bound to it, and name ResourceClaims.
        dialects: all dialects.
        targets: those whose records are mirrored.
    """
    shown: dict[str, list[Allocation]] = {}  # of a claim, by one of the pods that name it
    for held in ledger.allocations.values():
        if held.dialect == DRA:
            claim = held.pod_ref
            uids = [
                pod.metadata.uid
                for pod in consumers
                if pod.metadata.namespace == claim.namespace and claim.name in claims_of(pod)
            ]
            if uids:
                shown.setdefault(min(uids), []).append(held)
    by_uid = {pod.metadata.uid: pod for pod in (*consumers, *pods)}
    removed: list[Mirror] = []
    for uid, pod in by_uid.items():
        own = ledger.allocations.get(uid)
        has = (*(() if own is None else (own,)), *shown.get(uid, ()))
        repair = mirror_of(pod, has, ledger, dialects, targets)
        if repair is None:
            continue
        if any(text is not None for text in repair.annotations.values()):
            yield repair
        else:
            removed.append(repair)
    yield from removed


def mirror_of(
    pod: Pod,
    held: Sequence[Allocation],
    ledger: NodeLedger,
    dialects: Sequence[Dialect],
    targets: Sequence[Dialect],
) -> Mirror | None:
    """Return what makes the mirrored records of a bound pod those that the ledger asks for.

    A record without a mark on a pod that requests nothing of a dialect is another component's, and
    a pod that cannot be decoded may have one: both stay as they are. So does what is on a pod that
    requests a share and has none yet.

    Args:
        pod: bound to the node of the ledger.
        held: what it has there, itself and by ResourceClaims.
        ledger: of the node.
        dialects: all dialects.
        targets: those whose records are mirrored.

    Returns:
        None where they are right.
    """
    try:
        own = dialect_of(pod, dialects)
    except DialectError:
        return None
    if isinstance(pod, UnreadPod) or (own is not None and not held):
        return None
    has = annotations(pod)
    if own is None:
        kept = registry.own_records(has.keys())
        targets = [each for each in targets if kept.isdisjoint(each.result_keys)]
    else:
        kept = own.result_keys
    wanted: dict[str, str | None] = {**mirrors(pod, own, held, ledger.node, targets)}
    found = registry.mirror_keys([each.name for each in targets]) & has.keys() - kept
    wanted |= dict.fromkeys(found - wanted.keys())
    needed = {key: text for key, text in wanted.items() if has.get(key) != text}
    return Mirror(pod, tuple(each.uid for each in held), needed) if needed else None
