"""Alerts and dashboards use only metrics and labels that the programs export."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

AGENT = "dragoman_node_"
"""The agent composes its names of this and a stem."""

SUFFIXES = ("_total", "_bucket", "_sum", "_count", "_info")
"""Source: prometheus_client/metrics.py."""

OF_PROMETHEUS = {"le", "pod", "instance"}
"""Labels of histograms and of scrape targets."""


def literals() -> set[str]:
    """Every text in the programs."""
    files = [path for path in (ROOT / "adapters").rglob("*.py") if "tests" not in path.parts]
    return {
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def expressions() -> Iterator[str]:
    rules = yaml.safe_load((ROOT / "configs/prometheus-alerts.yaml").read_text())
    for group in rules["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for file in sorted((ROOT / "charts/dragoman/files/dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            yield from (target["expr"] for target in panel["targets"])


KNOWN = literals()


@pytest.mark.parametrize("expression", [*expressions()])
def test_an_expression_has_metrics_and_labels_that_exist(expression: str) -> None:
    names = re.findall(r"\b(?:dragoman|hami|volcano)_\w+", expression)
    grouped = re.findall(r"by \(([^)]*)\)", expression)
    labels = {label.strip() for group in grouped for label in group.split(",")}
    labels |= set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression))

    assert names
    assert [name for name in names if not exists(name)] == []
    assert labels - KNOWN - OF_PROMETHEUS == set()


def exists(name: str) -> bool:
    stems = {name, *(name.removesuffix(suffix) for suffix in SUFFIXES)}
    stems |= {stem.removeprefix(AGENT) for stem in stems}
    return bool(stems & KNOWN)
