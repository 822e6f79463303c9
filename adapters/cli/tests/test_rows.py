"""Rows as columns, JSON, YAML, CSV and names."""

import json

import pytest
import yaml

from adapters.cli.output.rows import Column, Row, RowFormat, formatted

COLUMNS = (Column("NAME"), Column("GIB", right=True), Column("UUID", wide=True))
ROWS = (
    Row("node/long-name", ("long-name", "7.5", "GPU-0"), {"name": "long-name", "memory": 8}),
    Row("node/b", ("b", "", "GPU-1"), {"name": "b", "memory": None}),
)


def shown(output: RowFormat | None, *, headers: bool = True) -> str:
    return formatted("NodeList", COLUMNS, ROWS, output, headers=headers)


def test_columns_are_aligned_without_blanks_at_the_end() -> None:
    assert shown(None) == "NAME        GIB\nlong-name   7.5\nb             -\n"


def test_wide_columns_are_shown_on_demand() -> None:
    assert shown(RowFormat.WIDE).splitlines()[1] == "long-name   7.5   GPU-0"


def test_headers_can_be_left_out() -> None:
    assert shown(None, headers=False) == "long-name   7.5\nb             -\n"
    assert shown(RowFormat.CSV, headers=False) == "long-name,8\nb,\n"


def test_without_rows_the_headers_remain() -> None:
    assert formatted("NodeList", COLUMNS, (), None) == "NAME   GIB\n"
    assert formatted("NodeList", COLUMNS, (), None, headers=False) == ""
    assert formatted("NodeList", COLUMNS, (), RowFormat.CSV) == ""


@pytest.mark.parametrize(
    ("output", "load"), [(RowFormat.JSON, json.loads), (RowFormat.YAML, yaml.safe_load)]
)
def test_json_and_yaml_have_the_fields(output: RowFormat, load: object) -> None:
    assert load(shown(output)) == {  # type: ignore[operator]
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "NodeList",
        "items": [{"name": "long-name", "memory": 8}, {"name": "b", "memory": None}],
    }


def test_csv_has_a_line_of_headers() -> None:
    assert shown(RowFormat.CSV) == "name,memory\nlong-name,8\nb,\n"


def test_names_are_one_a_line() -> None:
    assert shown(RowFormat.NAME) == "node/long-name\nnode/b\n"
