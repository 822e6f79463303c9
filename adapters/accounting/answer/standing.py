"""What a pod has: the sentence about a pod that does not wait for a node."""

from collections.abc import Mapping, Sequence

from adapters.accounting.answer.cluster_facts import ClusterFacts
from adapters.accounting.answer.device_plugins import devices_text
from adapters.dialects.adoption.adopt import FINISHED, may_use_cards
from adapters.dialects.dialect import DialectError
from adapters.dialects.matching import NO_AMOUNTS, plain_amounts
from adapters.wire.kube import Pod
from core.requests.grant import Allocation, AllocationState


def standing(facts: ClusterFacts, pod: Pod, uncounted: str) -> str:
    """The sentence; empty where the pod waits for a node and has no cards.

    Args:
        facts: of the cluster.
        pod: the pod.
        uncounted: says that it requests what Dragoman does not count; else empty.
    """
    if pod.status.phase in FINISHED:
        return f"has ended ({pod.status.phase}) and uses no cards"
    uid, node = pod.metadata.uid, pod.spec.node_name
    if node:
        return f"is bound to {node}{_bound(facts, pod, node, uncounted)}"
    held = next(iter(committed(facts, uid)), None)
    return "" if held is None else f"has cards of {held.node}, and its Binding is not written yet"


def committed(facts: ClusterFacts, uid: str) -> list[Allocation]:
    """The allocations of a pod or a claim in the ledgers."""
    if not uid:
        return []
    found = (
        facts.inventory.ledger(node).allocations[uid] for node in facts.inventory.nodes_of(uid)
    )
    return [each for each in found if each.state is AllocationState.COMMITTED]


def held_devices(facts: ClusterFacts, pod: Pod) -> Mapping[str, int]:
    """The devices of plugins that a pod has where it is bound."""
    try:
        return plain_amounts(pod, facts.dialects) if may_use_cards(pod) else NO_AMOUNTS
    except DialectError:
        return NO_AMOUNTS


def _bound(facts: ClusterFacts, pod: Pod, node: str, uncounted: str) -> str:
    """What a bound pod has, as the end of a sentence."""
    here = (each for each in committed(facts, pod.metadata.uid) if each.node == node)
    allocation = next(here, None)
    if allocation is not None:
        unread = allocation.unread
        return " and has its cards" if unread is None else _unknown("it has", unread)
    if node in facts.unreadable():
        return _unknown("it has", facts.unreadable()[node])
    claims = [held for uid in facts.claims_of(pod.metadata.uid) for held in committed(facts, uid)]
    if claims:
        return _of_claims(claims)
    is_known = node in facts.nodes()
    devices = held_devices(facts, pod)
    if devices and is_known:
        return f": has {devices_text(devices)} of the device plugin, in no ledger"
    if uncounted:
        return f": {uncounted}"
    missing = "" if is_known else ", which does not exist,"
    return f"{missing} and uses no cards"


def _of_claims(claims: Sequence[Allocation]) -> str:
    unread = next((each.unread for each in claims if each.unread), None)
    return (
        " and has the cards of its claims"
        if unread is None
        else _unknown("its claims have", unread)
    )


def _unknown(what: str, unread: str) -> str:
    return f"; which cards {what} is unknown: {unread}"
