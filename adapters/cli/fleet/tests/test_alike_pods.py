"""Pods that differ in name and uid alone are parsed once."""

from typing import Any

import pytest

from adapters.accounting.pod_requests import read
from adapters.cli.fleet import facts
from adapters.cli.tests.builders import node, pod, volcano
from adapters.cli.tests.command import as_plain


@pytest.mark.parametrize(("templates", "parsed"), [(128, 1), (0, 3)])
def test_each_of_three_replicas_has_a_request_of_its_own(
    monkeypatch: pytest.MonkeyPatch, templates: int, parsed: int
) -> None:
    asked: list[tuple[Any, ...]] = []

    def counted(*words: Any) -> Any:
        asked.append(words)
        return read(*words)

    monkeypatch.setattr("adapters.cli.fleet.facts.read", counted)
    monkeypatch.setattr(facts, "TEMPLATES", templates)
    things = [node(cards=2), *(pod(name, volcano(6000)) for name in ("a", "b", "c"))]

    rows = as_plain("schedule", things=things)["pods"]

    assert [(row["name"], row["node"]) for row in rows] == [
        ("a", "node-a"),
        ("b", "node-a"),
        ("c", None),
    ]
    assert len(asked) == parsed
