"""Names and messages that others chose: no format lets them act on what shows or reads it."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.output.rows import as_json, as_yaml
from adapters.cli.output.terminal import write_file
from adapters.cli.tests.builders import Plain, node, pod, stream, volcano, volcano_bound
from adapters.cli.tests.command import command
from adapters.wire.visible import visible, visible_cell, visible_lines

ACTS = "\x1b[31m\x07\x00\n\r\t\x7f\x85\x9b\xad\u061c\u200b\u2028\u202e\u2066\ufeff\U000e0041"
"""Escape sequences, C0, C1, line ends, marks of direction, and invisible characters."""

NODE, POD, MODEL = f"node{ACTS}", f"=pod{ACTS}", f"NVIDIA-A{ACTS}"


def things() -> list[Plain]:
    """A node with a card that is allocated twice, and pods that wait, with hostile names."""
    here = node("n", cards=1)
    here["metadata"]["name"] = NODE
    annotations = here["metadata"]["annotations"]
    name = "volcano.sh/node-vgpu-register"
    annotations[name] = annotations[name].replace("NVIDIA-A", MODEL)
    running = [volcano_bound(f"{POD}{number}", 8000, on="n") for number in range(2)]
    for each in running:
        each["spec"]["nodeName"] = NODE
    waiting = [pod(f"@{POD}", volcano(9_000_000)), pod("waits", volcano(1))]
    waiting[0]["spec"]["containers"].append(
        {"name": f"c{ACTS}", "resources": {"limits": {f"nvidia.com/{ACTS}": "1"}}}
    )
    return [here, *running, *waiting]


LISTED = ("wide", "csv", "name", "json", "yaml")
COMMANDS = {
    ("schedule",): ("table", "csv", "name", "json", "yaml"),
    ("top", "nodes"): LISTED,
    ("top", "cards"): LISTED,
    ("top", "pods", "-A"): LISTED,
    ("top", "namespaces"): LISTED,
    ("who", NODE): LISTED,
    ("pending", "-A"): LISTED,
    ("audit",): ("table", "wide", "json", "yaml"),
    ("explain", "pod", f"@{POD}"): ("text", "json", "yaml"),
    ("whatif", "--add", f"{NODE}=1"): LISTED,
    ("whatif", "--remove", f"missing{ACTS}"): ("wide",),
    ("defrag",): ("table", "json", "yaml"),
    ("defrag", "--free-nodes", "1"): ("table", "json", "yaml"),
}


@pytest.mark.parametrize(
    ("words", "output"), [(words, each) for words, known in COMMANDS.items() for each in known]
)
def test_no_command_and_no_format_writes_a_character_that_acts(
    words: tuple[str, ...], output: str
) -> None:
    result = command(*words, "-o", output, things=things())

    assert result.exit_code == 2 if "--remove" in words else result.exit_code in (0, 1)
    for text in (result.stdout, result.stderr):
        assert [each for each in text.split("\n") if not each.isprintable()] == []
    assert not any(line.startswith(("[31m", "=", "@")) for line in result.stderr.split("\n"))


def values(plain: Any) -> Iterator[object]:
    """All texts of a value."""
    if isinstance(plain, dict):
        for key, each in plain.items():
            yield key
            yield from values(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from values(each)
    else:
        yield plain


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("words", ["schedule", "top cards", "pending -A"])
def test_json_and_yaml_keep_the_value(words: str, output: str) -> None:
    result = command(*words.split(), "-o", output, things=things())

    read = json.loads if output == "json" else yaml.safe_load
    found = set(values(read(result.stdout)))
    assert {NODE, f"@{POD}"} & found


@pytest.mark.parametrize("first", [*"=+-@＝＋－＠"])  # noqa: RUF001
def test_a_cell_of_csv_is_no_formula(first: str) -> None:
    name = f'{first}HYPERLINK("http://evil","x")'

    result = command("pending", "-A", "-o", "csv", things=[node(), pod(name, volcano(10**6))])

    (row,) = csv.DictReader(result.stdout.splitlines())
    assert row["pod"] == f"'{name}"


def test_a_number_in_csv_stays_a_number() -> None:
    assert visible_cell("a=b") == "a=b"
    assert visible_cell("\t=1") == "\\t=1"
    result = command("top", "nodes", "-o", "csv", things=[node()])
    assert "'" not in result.stdout


def test_a_name_is_one_line() -> None:
    result = command("pending", "-A", "-o", "name", things=things())

    assert visible(f"pod/@{POD}") in result.stdout.splitlines()


def test_an_error_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / f"f{ACTS.replace(chr(0), '')}.yaml"
    file.write_text(stream(node(NODE), node(NODE)))

    result = command("schedule", "-f", file)

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert visible(NODE) in result.stderr


def test_a_file_whose_name_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "f\udcff.json"
    file.write_text(stream(*things()))

    for output in ("table", "json", "yaml"):
        result = command("audit", "-f", file, "-o", output)
        assert result.exit_code == 1, result.output
    assert command("schedule", "-f", tmp_path, "-f", file).stderr.startswith("dragoman: ")


def test_the_users_own_file_stays_as_it_is_unless_a_terminal_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# \x1b[31m\u202e\r\n\tkind: Pod\n"

    write_file(text)
    assert capsys.readouterr().out.endswith("\u202e\r\n\tkind: Pod\n")

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_file(text)
    assert capsys.readouterr().out == "# \\x1b[31m\\u202e\r\n\tkind: Pod\n"
    assert visible_lines("a\rb") == "a\\rb"


def test_letters_of_all_languages_stay() -> None:
    plain = {"é": "卡 😀 \u202e"}

    assert visible("卡 é 😀") == "卡 é 😀"
    assert '"é": "卡 😀 \\u202e"' in as_json(plain)
    assert as_yaml({"é": "卡 é"}) == "é: 卡 é\n"
    for text in ("\x7f", "\x85", "\U000e0041", "\ufeff"):
        assert json.loads(as_json([text])) == yaml.safe_load(as_yaml([text])) == [text]
        assert as_json([text]).replace("\n", "").isprintable()
