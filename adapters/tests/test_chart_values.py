"""Every value of the chart is explained: in values.yaml, and in the table of the chart's README."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from yaml.nodes import MappingNode, Node

CHART = Path(__file__).parents[2] / "charts" / "dragoman"
VALUES = (CHART / "values.yaml").read_text()

WHOLE = {"resources", "updateStrategy", "labels"}
"""Mappings that are one value: a user's keys are in them."""


def leaves(node: Node | None, path: str = "") -> Iterator[tuple[str, object, int]]:
    """Each value with its path, its default and its line."""
    assert isinstance(node, MappingNode)
    for key, value in node.value:
        name = f"{path}{key.value}"
        if isinstance(value, MappingNode) and value.value and key.value not in WHOLE:
            yield from leaves(value, f"{name}.")
        else:
            yield name, yaml.safe_load(yaml.serialize(value)), key.start_mark.line


ALL = list(leaves(yaml.compose(VALUES)))


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, _, line in ALL])
def test_every_value_has_a_comment(name: str, line: int) -> None:
    lines = VALUES.splitlines()

    assert name
    assert re.search(r"\s# \S", lines[line]) or lines[line - 1].lstrip().startswith("# ")


def test_the_readme_has_every_value_with_its_default() -> None:
    readme = (CHART / "README.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \| `(.*?)` \| \S.* \|$", readme.partition("## Values")[2], re.M)

    assert {name: yaml.safe_load(default) for name, default in rows} == {
        name: default for name, default, _ in ALL
    }
    assert len(rows) == len(ALL)
