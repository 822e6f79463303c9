"""Lists have the same options, and each of them works for each list."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from adapters.cli.main import app
from adapters.cli.tests.builders import node, pod, stream, volcano, volcano_bound, write
from adapters.cli.tests.command import command

LISTS = (
    "top nodes",
    "top cards",
    "top pods -A",
    "top namespaces",
    "who node-a",
    "pending -A",
)
COMMON = {"--filename", "--kubeconfig", "--context"} | {
    "--output", "--sort", "--watch", "--interval", "--no-headers",
}  # fmt: skip
FORMATS = ("wide", "json", "yaml", "csv", "name")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    things = (node(), volcano_bound("a", 6000), volcano_bound("b", 4000), pod("c", volcano(1)))
    return write(tmp_path, "dump.json", stream(*things))


def shown(dump: Path, words: str, *more: str) -> str:
    done = command(*words.split(), "-f", str(dump), *more)
    assert done.exit_code == 0, done.output
    return done.stdout


def options(name: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    return {text for each in group.commands[name].params for text in each.opts}


def rows(text: str, form: str) -> Sequence[object]:
    match form:
        case "json":
            return list(json.loads(text)["items"])
        case "yaml":
            return list(yaml.safe_load(text)["items"])
        case "csv":
            return list(csv.DictReader(io.StringIO(text)))
        case "name":
            return text.splitlines()
        case _:
            return text.splitlines()[1:]


@pytest.mark.parametrize("name", ["top", "who", "pending"])
def test_every_list_has_the_common_options(name: str) -> None:
    assert options(name) >= COMMON | {"-f", "-o", "-w"}


@pytest.mark.parametrize("words", LISTS)
def test_every_format_of_a_list_has_the_same_rows(dump: Path, words: str) -> None:
    table = shown(dump, words)
    lengths = {form: len(rows(shown(dump, words, "-o", form), form)) for form in FORMATS}

    assert lengths == dict.fromkeys(FORMATS, len(table.splitlines()) - 1)
    assert lengths["json"] > 0


@pytest.mark.parametrize("words", LISTS)
def test_headers_can_be_left_out_of_every_list(dump: Path, words: str) -> None:
    for form in ([], ["-o", "wide"], ["-o", "csv"]):
        _, _, below = shown(dump, words, *form).partition("\n")
        assert len(shown(dump, words, *form, "--no-headers").splitlines()) == len(
            below.splitlines()
        )


@pytest.mark.parametrize("words", LISTS)
def test_every_field_of_a_list_sorts_it_and_another_one_is_named(dump: Path, words: str) -> None:
    (first, *_) = json.loads(shown(dump, words, "-o", "json"))["items"]
    sortable = [key for key, value in first.items() if isinstance(value, str | int)]
    assert sortable
    for key in sortable:
        shown(dump, words, "--sort", key)

    done = command(*words.split(), "-f", str(dump), "--sort", "none")
    assert done.exit_code == 2
    assert "none" in done.output
    assert sortable[0] in done.output


@pytest.mark.parametrize("words", LISTS)
def test_no_list_can_watch_standard_input(words: str) -> None:
    done = command(*words.split(), "-f", "-", "--watch")

    assert done.exit_code == 2
    assert "standard input can be read once only" in done.output


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("xml", "'xml': must be wide, json, yaml, csv, name, jsonpath=... or custom-columns=..."),
        ("jsonpath", "is empty; must be such as {.items[*].name}"),
        ("jsonpath={.items[", "'{.items[': must be {...}"),
        ("jsonpath={.items[x]}", "'.items[x]': '[x]': must be .FIELD, ['FIELD'], [*], [NUMBER]"),
        ("jsonpath={end}", "'{end}': must be after {range ...}"),
        ("custom-columns=NODE", "'NODE': must be HEADER:.FIELD"),
        ("custom-columns=NODE:.a..b", "'.a..b': '..b': must be .FIELD"),
        ("jsonpath={'a' 'b'}", "must be .FIELD"),
        ("jsonpath={'a'.b}", "must be .FIELD"),
        (f"jsonpath={{[{'9' * 5000}]}}", "must be .FIELD"),
        ("jsonpath=" + "{range .a}" * 3000, "must be in fewer ranges"),
    ],
)
def test_an_output_that_is_not_valid_is_named_with_what_is(output: str, problem: str) -> None:
    done = command("top", "-f", "/nonexistent", "-o", output)

    assert done.exit_code == 2
    assert problem in done.stderr


def test_templates_have_further_rows_too() -> None:
    plugin = {"metadata": {"name": "t4"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
    things = [node(), {"apiVersion": "v1", "kind": "Node", **plugin}]
    path = "{.devicePlugins[*].allocatable} {.items[0].node}"

    assert command("top", "-o", f"jsonpath={path}", things=things).stdout == "4 node-a"
    found = command("top", "-o", "custom-columns=N:.node,R:.resource", things=things).stdout
    assert found.split() == ["N", "R", "node-a", "<none>", "t4", "nvidia.com/gpu"]
    changed = ("whatif", "--add", "node-a=1", "-o", "custom-columns=NAME:.pod", "--no-headers")
    assert command(*changed, things=[node(), pod("p", volcano(1))]).stdout == "p\n"


def test_text_of_others_is_visible_in_templates() -> None:
    hostile = node(more={"metadata": {**node()["metadata"], "labels": {}}})
    for character in ("\x1b", "\x9b"):
        hostile["metadata"]["name"] = f"node-{character}[2J"
        for output in ("jsonpath={.items[*].node}", "jsonpath={.}", "custom-columns=N:.node"):
            found = command("top", "-o", output, things=[hostile]).stdout
            assert "node-" in found
            assert character not in found
