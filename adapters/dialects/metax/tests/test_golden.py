"""The result on a placed pod, byte for byte."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.dialects.metax.tests.builders import GOLDEN, METAX, a_kube_node, place, the_node
from adapters.wire.kube import KubeNode, Pod
from core.ledger.node_ledger import NodeLedger

CASES = sorted(GOLDEN.glob("*.in.json"))


def golden_kube_node(cards: str | dict[str, str]) -> KubeNode:
    if isinstance(cards, dict):
        return a_kube_node(capacity=cards)
    return a_kube_node((GOLDEN / f"{cards}.json").read_text().strip())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removesuffix(".in.json"))
def test_the_result_is_the_golden_one(case: Path, *, rewrite_golden: bool) -> None:
    content: dict[str, Any] = json.loads(case.read_text())
    pod = msgspec.convert(content["pod"], Pod)
    node = the_node(golden_kube_node(content["node"]))

    placement = place(pod, NodeLedger.of(node))
    result = METAX.write_result(pod, METAX.read_request(pod), placement, node, content["now"])

    written = {"annotations": dict(result.annotations), "labels": dict(result.labels)}
    expected = case.with_name(case.name.replace(".in.", ".out."))
    if rewrite_golden:
        expected.write_text(json.dumps(written, indent=2) + "\n")
    assert written == json.loads(expected.read_text())
