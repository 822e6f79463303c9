"""The result on a placed pod, byte for byte."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.dialects.koordinator.tests.builders import (
    GOLDEN,
    HAMI_CORE,
    KOORDINATOR,
    a_kube_node,
    place,
    run,
    the_node,
)
from adapters.wire.kube import DeviceObject, Pod
from core.ledger.node_ledger import NodeLedger

CASES = sorted(GOLDEN.glob("*.in.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removesuffix(".in.json"))
def test_the_result_is_the_golden_one(case: Path, *, rewrite_golden: bool) -> None:
    content: dict[str, Any] = json.loads(case.read_text())
    text = (GOLDEN / f"{content['device']}.device.json").read_bytes()
    device = msgspec.json.decode(text, type=DeviceObject)
    node = the_node(device, a_kube_node(HAMI_CORE, device.metadata.name))
    before = [msgspec.convert(pod, Pod) for pod in content["before"]]
    pod = msgspec.convert(content["pod"], Pod)

    placement = place(pod, run(NodeLedger.of(node), *before))
    result = KOORDINATOR.write_result(pod, KOORDINATOR.read_request(pod), placement, node, 0)

    written = {"annotations": dict(result.annotations), "labels": dict(result.labels)}
    expected = case.with_name(case.name.replace(".in.", ".out."))
    if rewrite_golden:
        expected.write_text(json.dumps(written, indent=2) + "\n")
    assert written == json.loads(expected.read_text())
