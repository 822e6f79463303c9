"""A cluster that exists on paper only, and what becomes of the pods that wait there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from adapters.cli.fleet.fleet import Fleet, NodeState, with_uid
from adapters.cli.input.source import InputError
from adapters.cli.output.report import NOT_PLACED, NodeTexts, PodLine, PodResult
from adapters.cli.output.rows import Row, columns
from adapters.cli.view.listing import Listing
from adapters.dialects import registry
from adapters.wire.kube import Pod, PodStatus, full_name
from adapters.wire.kube_policy import PodGroupObject
from core.ledger.node_ledger import NodeLedger
from core.requests.gang import GangRef

_COLUMNS = columns("NAMESPACE", "POD", "DIALECT", "NOW", "THEN", "REASON")

_KEYS = ("namespace", "pod", "dialect", "now", "then", "placed", "reason", "gang")

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
    moved: dict[str, Pod] = {}
    ended: set[str] = set()
    for pod in chain.from_iterable(fleet.nodes[name].pods for name in names):
        if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references or ()):
            ended.add(full_name(pod))
        kept = {k: v for k, v in (pod.metadata.annotations or {}).items() if k not in keys}
        meta = msgspec.structs.replace(pod.metadata, annotations=kept, deletion_timestamp=None)
        spec = msgspec.structs.replace(pod.spec, node_name=None)
        status = PodStatus("Pending")
        moved[full_name(pod)] = msgspec.structs.replace(
            pod, metadata=meta, spec=spec, status=status
        )
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
            name = f"{each.like}-new-{number}"
            cards = tuple(
                replace(card, node=name, uuid=f"{card.uuid}-{name}") for card in model.node.cards
            )
            metadata = msgspec.structs.replace(model.kube.metadata, name=name)
            nodes[name] = NodeState(
                kube=msgspec.structs.replace(model.kube, metadata=metadata),
                ledger=NodeLedger.of(replace(model.node, name=name, cards=cards)),
                stored=None,
                unreadable=None,
                repairs=(),
                pods=(),
                problems=(),
            )
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs.

    Attributes:
        now: the pending pods on the cluster as it is.
        then: all pods that have to be placed on the changed one.
        moved: ``namespace/name`` of pods whose node is removed.
    """

    now: tuple[PodLine, ...]
    then: tuple[PodLine, ...]
    moved: frozenset[str]

    @classmethod
    def of(
        cls, now: Iterable[PodLine], then: Iterable[PodLine], moved: frozenset[str]
    ) -> "Comparison":
        """Compare two runs, without what they say of each node: 20 KB for a pod that fits none."""

        def short(lines: Iterable[PodLine]) -> tuple[PodLine, ...]:
            return tuple(replace(line, reasons=NodeTexts(), groups=()) for line in lines)

        return cls(short(now), short(then), moved)

    def listing(self) -> Listing:
        """Return one row for each pod that has to be placed in the changed cluster."""
        before = {str(line.pod): line for line in self.now}
        rows: list[Row] = []
        for after in self.then:
            if after.result in (PodResult.BOUND, PodResult.SKIPPED):
                continue
            earlier = before.get(str(after.pod))
            now, then = "new" if earlier is None else _where(earlier), _where(after)
            reason = after.summary if after.result in NOT_PLACED else ""
            if str(after.pod) in self.moved and not reason:
                reason = "moves"
            cells = (after.pod.namespace, after.pod.name, after.dialect or "", now, then, reason)
            fields = {
                "namespace": after.pod.namespace, "pod": after.pod.name, "dialect": after.dialect,
                "now": now, "then": then, "placed": after.node is not None, "reason": reason,
                "gang": None if after.gang is None else after.gang.name,
            }  # fmt: skip
            rows.append(Row(f"pod/{after.pod.name}", cells, fields))
        return Listing("WhatIfList", _COLUMNS, tuple(rows), _KEYS)

    def summary(self) -> str:
        """Say how many pods are placed, now and then."""
        return f"now: {_placed(self.now)}; then: {_placed(self.then)}"


def _where(line: PodLine) -> str:
    if line.result is PodResult.INVALID:
        return "invalid"
    return line.node or "does not fit"


def _placed(lines: tuple[PodLine, ...]) -> str:
    asked = [line for line in lines if line.result not in (PodResult.BOUND, PodResult.SKIPPED)]
    placed = sum(line.result is PodResult.PLACED for line in asked)
    return f"{placed} of {len(asked)} waiting pods placed"
