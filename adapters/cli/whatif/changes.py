"""Changes of a cluster that exist on paper only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.cli.fleet.fleet import Fleet, NodeState, with_uid
from adapters.cli.input.source import InputError
from adapters.dialects import registry
from adapters.wire.kube import Pod, PodStatus, full_name
from adapters.wire.kube_policy import PodGroupObject
from core.ledger.node_ledger import NodeLedger
from core.requests.gang import GangRef

MOST = 1000
"""Nodes that one option adds, at most."""


@dataclass(frozen=True, slots=True)
class Additional:
    """Nodes to add.

    Attributes:
        like: name of a node of the cluster.
        count: how many, 1 to ``MOST``.
    """

    like: str
    count: int

    @classmethod
    def parse(cls, text: str) -> "Additional":
        """Read ``NODE=COUNT``.

        Raises:
            InputError: it is not of this form.
        """
        like, _, count = text.rpartition("=")
        if not like or not count.isdecimal() or not 1 <= int(count) <= MOST:
            raise InputError("--add", f"{text!r} must be NODE=COUNT, with COUNT from 1 to {MOST}")
        return cls(like, int(count))


def remove(fleet: Fleet, names: Sequence[str]) -> Fleet:
    """Return the cluster without some nodes; their pods wait again, without a record of cards.

    Pods of DaemonSets end with their node.

    Raises:
        InputError: a node does not exist.
    """
    for name in names:
        _node(fleet, name, "--remove")
    keys = registry.service_keys()
    moved = {
        full_name(pod): _unbound(pod, keys) for name in names for pod in fleet.nodes[name].pods
    }
    ended = {
        name
        for name, pod in moved.items()
        if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references or ())
    }
    return replace(
        fleet,
        nodes={name: state for name, state in fleet.nodes.items() if name not in names},
        pods={name: moved.get(name, pod) for name, pod in fleet.pods.items() if name not in ended},
    )


def add(fleet: Fleet, additions: Sequence[Additional]) -> Fleet:
    """Return the cluster with further nodes: cards and labels of existing ones, and no pods.

    Raises:
        InputError: a node does not exist.
    """
    nodes = dict(fleet.nodes)
    for each in additions:
        model = _node(fleet, each.like, "--add")
        number = 0
        for _ in range(each.count):
            number += 1
            while f"{each.like}-new-{number}" in nodes:
                number += 1
            nodes[f"{each.like}-new-{number}"] = _copy(model, f"{each.like}-new-{number}")
    return replace(fleet, nodes=nodes)


def arrive(
    fleet: Fleet, pods: Mapping[str, Pod], groups: Mapping[GangRef, PodGroupObject]
) -> Fleet:
    """Return the cluster with further pods, after those that wait already.

    Args:
        fleet: the cluster.
        pods: by ``namespace/name``.
        groups: objects of their gangs; one that the cluster has is replaced.

    Raises:
        InputError: a pod has the name of an existing one, or is bound.
    """
    for name, pod in pods.items():
        if name in fleet.pods:
            raise InputError("--pods", f"pod {name} exists in the cluster; give it another name")
        if pod.spec.node_name:
            raise InputError("--pods", f"pod {name} is bound to {pod.spec.node_name} already")
    return replace(
        fleet,
        pods={**fleet.pods, **{name: with_uid(pod) for name, pod in pods.items()}},
        groups={**fleet.groups, **groups},
    )


def _node(fleet: Fleet, name: str, option: str) -> NodeState:
    state = fleet.nodes.get(name)
    if state is None:
        known = ", ".join([*fleet.nodes][:20]) or "none"
        raise InputError(option, f"no node {name!r}; nodes: {known}")
    return state


def _copy(model: NodeState, name: str) -> NodeState:
    cards = tuple(replace(card, node=name, uuid=f"{card.uuid}-{name}") for card in model.node.cards)
    metadata = msgspec.structs.replace(model.kube.metadata, name=name)
    return NodeState(
        kube=msgspec.structs.replace(model.kube, metadata=metadata),
        ledger=NodeLedger.of(replace(model.node, name=name, cards=cards)),
        stored=None,
        unreadable=None,
        repairs=(),
        pods=(),
        problems=(),
    )


def _unbound(pod: Pod, keys: frozenset[str]) -> Pod:
    kept = {k: v for k, v in (pod.metadata.annotations or {}).items() if k not in keys}
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations=kept, deletion_timestamp=None),
        spec=msgspec.structs.replace(pod.spec, node_name=None),
        status=PodStatus("Pending"),
    )
