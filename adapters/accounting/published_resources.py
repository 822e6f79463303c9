"""Records which amounts of a node's status the service wrote, so that it withdraws only these.

A resource whose cards are gone is removed from the status. An amount of 0 would stay, and the
kubelet would reject by it the pods of another dialect that name the same resource; it ignores
resources that a node does not state.
Source: kubernetes pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources.
"""

from collections.abc import Collection, Mapping

import msgspec

from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import KubeNode, annotations
from adapters.wire.quantity import QuantityError, parse

MARK = "dragoman.dev/published"
"""Annotation of a node: the amounts that the service wrote, as JSON by resource name."""

_AMOUNTS = Decoder(dict[str, int])


def written(node: KubeNode) -> dict[str, int]:
    """Return the amounts that the service wrote to a node; none where they cannot be read."""
    try:
        return _AMOUNTS.decode(annotations(node).get(MARK, "{}"))
    except UnreadableError:
        return {}


def states(node: KubeNode, name: str, amount: int) -> bool:
    """Return whether a node has this amount, as capacity and as allocatable."""
    for amounts in (node.status.capacity, node.status.allocatable):
        stated = (amounts or {}).get(name)
        try:
            if stated is None or parse(str(stated)) != amount:
                return False
        except QuantityError:
            return False
    return True


def withdrawn(node: KubeNode, wanted: Collection[str]) -> dict[str, None]:
    """Return None for each amount that the service wrote, is unchanged and is no longer wanted.

    Args:
        node: the node.
        wanted: names of the resources that its status should have.
    """
    return {
        name: None
        for name, amount in written(node).items()
        if name not in wanted and states(node, name, amount)
    }


def mark(node: KubeNode, wanted: Mapping[str, int], changed: Collection[str]) -> str | None:
    """Return the annotation after a write; None where no amount of the node is ours.

    Args:
        node: the node before the write.
        wanted: the amounts that its status should have.
        changed: names of the resources in the write.
    """
    ours = {*written(node), *changed}
    kept = {name: amount for name, amount in sorted(wanted.items()) if name in ours}
    return msgspec.json.encode(kept).decode() if kept else None
