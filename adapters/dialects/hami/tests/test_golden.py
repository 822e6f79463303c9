"""Worked examples: input is settings, a node and pods; output is what each pod gets, in order."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.hami.tests.builders import GOLDEN
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialects
from adapters.wire.kube import KubeNode, Pod, full_name
from core.feasibility.fit import fit
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import Request


class _File(msgspec.Struct):
    now: int
    node: KubeNode
    pods: tuple[Pod, ...]
    settings: Mapping[str, Mapping[str, object]] = {}


def results(text: bytes) -> list[dict[str, object]]:
    """The result of each pod; each follows the allocations before it."""
    file = msgspec.json.decode(text, type=_File)
    documents = file.settings.items()
    settings = {(name, key): data[key] for name, data in documents for key in data}
    known = dialects(settings, Defaults())
    node, problems = read_node(file.node, None, known)
    assert problems == ()
    ledger = NodeLedger.of(node)
    lines: list[dict[str, object]] = []
    for pod in file.pods:
        line: dict[str, object] = {"pod": full_name(pod)}
        lines.append(line)
        try:
            dialect = dialect_of(pod, known)
            assert dialect is not None
            request = dialect.read_request(pod)
        except DialectError as error:
            line["rejected"] = str(error)
            continue
        line |= admitted(dialect, pod, request)
        placement = fit(request, ledger)
        if isinstance(placement, Reason):
            line["reason"] = placement.text()
            continue
        ledger = ledger.reserve(Allocation.of(request, placement))
        result = dialect.write_result(pod, request, placement, node, file.now)
        line |= {"annotations": dict(result.annotations), "labels": dict(result.labels)}
    return lines


def admitted(dialect: Dialect, pod: Pod, request: Request) -> dict[str, object]:
    """What the webhook says and adds; the dialect that is shown."""
    added = dialect.admission_defaults(pod, request)
    found = {"limits": added.limits, "variables": added.variables, "warnings": request.notes}
    return {"dialect": dialect.name, **{key: value for key, value in found.items() if value}}


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*.in.json")), ids=lambda path: path.name)
def test_a_worked_example_gives_the_very_same_records(case: Path, *, rewrite_golden: bool) -> None:
    expected = case.with_name(case.name.replace(".in.", ".out."))

    text = json.dumps(results(case.read_bytes()), indent=2) + "\n"

    if rewrite_golden:
        expected.write_text(text)
    assert text == expected.read_text()
