"""A cluster that exists on paper only, and what becomes of the pods that wait there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from adapters.cli.fleet.fleet import Fleet, NodeState, with_uid
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError
from adapters.cli.output.report import NOT_PLACED, PodLine, PodResult, WorkloadLine
from adapters.cli.output.rows import Row, columns
from adapters.cli.view.listing import FurtherRows, Listing
from adapters.dialects import registry
from adapters.wire.kube import Pod, PodStatus, full_name
from core.ledger.node_ledger import NodeLedger

_COLUMNS = columns("NAMESPACE", "POD", "DIALECT", "NOW", "THEN", "REASON")

_KEYS = ("namespace", "pod", "dialect", "now", "then", "placed", "reason", "gang")

_NOT_ASKED = (PodResult.BOUND, PodResult.SKIPPED)

MOST = 1000
"""Nodes that one option adds, at most."""


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


def add(fleet: Fleet, additions: Sequence[str]) -> Fleet:
    """Return the cluster with further nodes: cards and labels of existing ones, and no pods.

    Raises:
        InputError: an addition is not ``NODE=COUNT``, or its node does not exist.
    """
    parsed: list[tuple[str, int]] = []
    for text in additions:
        like, _, count = text.rpartition("=")
        if not like or not count.isdecimal() or not 1 <= int(count) <= MOST:
            raise InputError("--add", f"{text!r} must be NODE=COUNT, with COUNT from 1 to {MOST}")
        parsed.append((like, int(count)))
    nodes = dict(fleet.nodes)
    for like, most in parsed:
        model = _node(fleet, like, "--add")
        number = 0
        for _ in range(most):
            number += 1
            while f"{like}-new-{number}" in nodes:
                number += 1
            name = f"{like}-new-{number}"
            cards = tuple(
                replace(card, node=name, uuid=f"{card.uuid}-{name}") for card in model.node.cards
            )
            metadata = msgspec.structs.replace(model.kube.metadata, name=name)
            kube = msgspec.structs.replace(model.kube, metadata=metadata)
            nodes[name] = NodeState(
                kube, NodeLedger.of(replace(model.node, name=name, cards=cards))
            )
    return replace(fleet, nodes=nodes)


def arrive(fleet: Fleet, coming: Manifests) -> Fleet:
    """Return the cluster with further pods, after those that wait already.

    The object of a gang that the cluster has is replaced.

    Raises:
        InputError: a pod has the name of an existing one, or is bound.
    """
    pods = {name: pod for name, (pod, _) in coming.pods.items()}
    for name, pod in pods.items():
        if name in fleet.pods:
            raise InputError("--pods", f"pod {name} exists in the cluster; give it another name")
        if pod.spec.node_name:
            raise InputError("--pods", f"pod {name} is bound to {pod.spec.node_name} already")
    groups = {ref: group for ref, (group, _) in coming.groups.items()}
    return replace(
        fleet,
        pods={**fleet.pods, **{name: with_uid(pod) for name, pod in pods.items()}},
        groups={**fleet.groups, **groups},
        made={**fleet.made, **coming.made},
    )


def with_workloads(listing: Listing, lines: Iterable[WorkloadLine]) -> Listing:
    """Return the list with the workloads that make some of its pods, where there are any."""
    rows = tuple(Row(line.text(), (), line.fields()) for line in lines)
    further = FurtherRows("", "workloads", (), rows, ())
    return replace(listing, further=further) if rows else listing


def _node(fleet: Fleet, name: str, option: str) -> NodeState:
    state = fleet.nodes.get(name)
    if state is None:
        known = ", ".join([*fleet.nodes][:20]) or "none"
        raise InputError(option, f"no node {name!r}; nodes: {known}")
    return state


def compare(
    now: Iterable[PodLine], then: Iterable[PodLine], moved: frozenset[str]
) -> tuple[Listing, str]:
    """Return one row for each pod that has to be placed in the changed cluster, and a summary.

    Those that are moved, by ``namespace/name``, have a node that is removed.
    """
    before: dict[str, str] = {}
    placed, asked = Counter[str](), Counter[str]()
    for line in now:  # none is kept: one that fits no node has 20 KB
        before[str(line.pod)] = _where(line)
        placed["now"] += line.result is PodResult.PLACED
        asked["now"] += line.result not in _NOT_ASKED
    rows: list[Row] = []
    for line in then:
        if line.result in _NOT_ASKED:
            continue
        placed["then"] += line.result is PodResult.PLACED
        earlier, later = before.get(str(line.pod), "new"), _where(line)
        reason = line.summary if line.result in NOT_PLACED else ""
        if str(line.pod) in moved and not reason:
            reason = "moves"
        cells = (line.pod.namespace, line.pod.name, line.dialect or "", earlier, later, reason)
        fields = {
            "namespace": line.pod.namespace, "pod": line.pod.name, "dialect": line.dialect,
            "now": earlier, "then": later, "placed": line.node is not None, "reason": reason,
            "gang": None if line.gang is None else line.gang.name,
        }  # fmt: skip
        rows.append(Row(f"pod/{line.pod.name}", cells, fields))
    asked["then"] = len(rows)
    runs = (f"{run}: {placed[run]} of {asked[run]} waiting pods placed" for run in ("now", "then"))
    return Listing("WhatIfList", _COLUMNS, tuple(rows), _KEYS), "; ".join(runs)


def _where(line: PodLine) -> str:
    if line.result is PodResult.INVALID:
        return "invalid"
    return line.node or "does not fit"
