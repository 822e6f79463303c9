"""Worked examples: input is settings, a node and pods; output is the results on the pods."""

import json
from pathlib import Path

import msgspec
import pytest

from adapters.dialects.dialect import DialectError
from adapters.dialects.merge import read_node
from adapters.dialects.volcano.tests.builders import configured, place, written
from adapters.wire.kube import KubeNode, Pod, full_name
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Reason

GOLDEN = Path(__file__).parent / "golden"


class _File(msgspec.Struct):
    case: str
    now: int
    node: KubeNode
    pods: tuple[Pod, ...]
    settings: dict[str, dict[str, object]] = {}


def results(text: bytes) -> list[dict[str, object]]:
    """The result of each pod, in order; each follows the allocations before it."""
    file = msgspec.json.decode(text, type=_File)
    documents = file.settings.items()
    dialect = configured({(name, key): data[key] for name, data in documents for key in data})
    node, problems = read_node(file.node, None, [dialect])
    assert problems == ()
    ledger = NodeLedger.of(node)
    lines: list[dict[str, object]] = []
    for pod in file.pods:
        line: dict[str, object] = {"pod": full_name(pod)}
        lines.append(line)
        try:
            ledger, answer = place(ledger, pod, dialect)
        except DialectError as error:
            line["rejected"] = str(error)
            continue
        if isinstance(answer, Reason):
            line["reason"] = answer.text()
            continue
        line["annotations"] = written(dialect, pod, answer, node, file.now)
    return lines


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*.in.json")), ids=lambda path: path.name)
def test_a_worked_example_gives_the_very_same_records(case: Path, *, rewrite_golden: bool) -> None:
    expected = case.with_name(case.name.replace(".in.", ".out."))

    text = json.dumps(results(case.read_bytes()), indent=2) + "\n"

    if rewrite_golden:
        expected.write_text(text)
    assert text == expected.read_text()
