"""The dashboards are what Grafana imports, and lie on a grid without holes and overlaps."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "charts/dragoman/files/dashboards"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
WIDTH = 24
"""Columns of Grafana's grid."""


def board(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def test_each_dashboard_has_an_identifier_of_its_own() -> None:
    assert NAMES == ["fleet", "namespace", "node"]
    assert len({board(name)["uid"] for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_has_a_title_a_unit_and_the_chosen_data_source(name: str) -> None:
    panels = board(name)["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        references = [target["refId"] for target in panel["targets"]]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert len({*references}) == len(references) > 0
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", NAMES)
def test_panels_do_not_overlap(name: str) -> None:
    places = [panel["gridPos"] for panel in board(name)["panels"]]

    assert all(at["x"] >= 0 and at["x"] + at["w"] <= WIDTH for at in places)
    for left, right in combinations(places, 2):
        beside = left["x"] + left["w"] <= right["x"] or right["x"] + right["w"] <= left["x"]
        below = left["y"] + left["h"] <= right["y"] or right["y"] + right["h"] <= left["y"]
        assert beside or below


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_of_an_expression_is_defined_and_used(name: str) -> None:
    found = board(name)
    defined = {each["name"] for each in found["templating"]["list"]}
    used = {
        variable
        for panel in found["panels"]
        for target in panel["targets"]
        for variable in re.findall(r"\$(\w+)", target["expr"])
    }

    assert used | {"datasource"} == defined
