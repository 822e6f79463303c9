"""What the service itself has written to a node's status, so that it takes back that and no more.

A node that loses its cards states 0 of their resources from then on, as a kubelet does for a
device plugin that has ended. Source: kubernetes pkg/kubelet/nodestatus/setters.go, MachineInfo.
"""

from collections.abc import Collection, Mapping

import msgspec

from adapters.wire.kube import Amount, KubeNode, annotations
from adapters.wire.quantity import QuantityError, parse

MARK = "dragoman.dev/published"
"""Annotation of a node: the amounts that were written, as JSON by the name of the resource."""

_AMOUNTS: msgspec.json.Decoder[dict[str, int]] = msgspec.json.Decoder(dict[str, int])


def written(node: KubeNode) -> dict[str, int]:
    """What was written to a node; nothing where that cannot be read."""
    try:
        return _AMOUNTS.decode(annotations(node).get(MARK, "{}"))
    except msgspec.DecodeError:
        return {}


def states(node: KubeNode, name: str, amount: int) -> bool:
    """Whether a node states this amount, as capacity and as allocatable."""
    status = node.status
    return all(
        _is((said or {}).get(name), amount) for said in (status.capacity, status.allocatable)
    )


def withdrawn(node: KubeNode, wanted: Collection[str]) -> dict[str, str]:
    """What is to be 0: it was written here, still stands as it was written, and is not wanted.

    Args:
        node: the node.
        wanted: names of what it should state.
    """
    return {
        name: "0"
        for name, amount in written(node).items()
        if name not in wanted and amount and states(node, name, amount)
    }


def mark(node: KubeNode, wanted: Mapping[str, int], changed: Collection[str]) -> str | None:
    """The annotation after a write; None where nothing on the node is ours.

    Args:
        node: the node before it.
        wanted: what the node should state.
        changed: names of what is written now.
    """
    ours = {*written(node), *changed}
    kept = {name: amount for name, amount in sorted(wanted.items()) if name in ours}
    return msgspec.json.encode(kept).decode() if kept else None


def _is(said: Amount | None, amount: int) -> bool:
    try:
        return said is not None and parse(str(said)) == amount
    except QuantityError:
        return False
