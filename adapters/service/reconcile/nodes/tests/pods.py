"""Pods that request shares, are placed and are bound."""

from collections.abc import Mapping

import msgspec

from adapters.dialects.dialect import Result
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.service.tests.builders import (
    DIALECTS,
    a_node,
    a_pod,
    read_pod,
)
from adapters.wire.kube import Pod, annotations
from core.feasibility.fit import fit
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement

NODE = read_node(a_node("n1"), None, DIALECTS)[0]
SMALLER = read_node(a_node("n1", cards=1), None, DIALECTS)[0]
WISHES = (
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 2000},
    {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 30},
    {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 8192, "volcano.sh/vgpu-cores": 100},
)
GARBLED = {"volcano.sh/vgpu-ids-new": "?", "volcano.sh/vgpu-node": "n1"}


def a_wish(number: int) -> Pod:
    return read_pod(a_pod(f"p{number}", limits=WISHES[number % len(WISHES)]))


def placed(pod: Pod, ledger: NodeLedger) -> Placement | None:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    found = fit(dialect.read_request(pod), ledger)
    return found if isinstance(found, Placement) else None


def allocated(pod: Pod, placement: Placement) -> Allocation:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    return Allocation.of(dialect.read_request(pod), placement)


def written(pod: Pod, placement: Placement, node: Node) -> Result:
    dialect = dialect_of(pod, DIALECTS)
    assert dialect is not None
    return dialect.write_result(pod, dialect.read_request(pod), placement, node, 7)


def bound(pod: Pod, node: str, said: Mapping[str, str] | None = None, phase: str = "") -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    status = msgspec.structs.replace(pod.status, phase=phase or "Running")
    metadata = msgspec.structs.replace(
        pod.metadata, annotations={**annotations(pod), **(said or {})}
    )
    return msgspec.structs.replace(pod, spec=spec, status=status, metadata=metadata)
