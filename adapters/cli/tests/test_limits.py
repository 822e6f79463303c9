"""Texts that are too large, too deep or too often repeated, rejected before a parser sees them."""

import json
from pathlib import Path

import pytest

from adapters.cli.input import document, source
from adapters.cli.input.document import check_json, check_yaml
from adapters.cli.input.source import InputError, InputLocation
from adapters.cli.tests.builders import Plain, node, pod, volcano, write
from adapters.cli.tests.command import command
from adapters.wire.decode.yaml_decoding import DEEPEST

CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TOO_DEEP = f"is nested more than {DEEPEST} levels deep"


def merged(levels: int, first: str = "{a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8}") -> str:
    """Mappings each of which merges the one before it ten times."""
    lines = [f"x0: &x0 {first}"]
    for level in range(1, levels):
        before = ", ".join([f"*x{level - 1}"] * 10)
        lines.append(f"x{level}: &x{level} {{<<: [{before}]}}")
    return "\n".join(lines) + "\n"


BOMB = merged(8)
DEEP = '{"a":' * 100_000


def place(line: int) -> InputLocation:
    return InputLocation("f.yaml", line)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a:\n  b: " + "[" * 5000, "f.yaml:2: a.b[0][0][0][0]: "),
        ("a: " + "[" * 5000 + "]" * 5000, "f.yaml:1: a[0][0][0][0][0]: "),
        ("k: 1\na:\n- x\n- " + "{b: " * 5000, "f.yaml:4: a[1].b.b.b.b: "),
        ("a:\n  " + "- " * 5000 + "x\n", "f.yaml:2: a[0][0][0][0][0]: "),
        ("? [x, y]\n: z\na: " + "[" * 5000, "f.yaml:3: a[0][0][0][0][0]: "),
        (f"a: &a {'[' * 150}{']' * 150}\nb: {'[' * 50}*a{']' * 50}\n", "f.yaml:2: b[0][0][0][0]"),
    ],
)
def test_a_text_without_end_is_rejected_with_its_field(text: str, field: str) -> None:
    with pytest.raises(InputError) as error:
        check_yaml(text, place)

    assert field in str(error.value)
    assert TOO_DEEP in str(error.value)
    assert "close the brackets, or remove what opens them" in str(error.value)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (BOMB, "f.yaml:6: x5.<<[0]: "),
        (merged(8, "[1, 2, 3, 4, 5, 6, 7, 8]").replace("{<<: ", "{y: "), "f.yaml:6: x5.y[1]: "),
        ("x: 1\n---\n" + BOMB, "f.yaml:8: x5.<<[0]: "),
    ],
)
def test_aliases_that_stand_for_too_much_are_rejected_with_their_field(
    text: str, field: str
) -> None:
    with pytest.raises(InputError) as error:
        check_yaml(text, place)

    assert str(error.value).startswith(field)
    assert "stand for more than 200,000 values" in str(error.value)


@pytest.mark.parametrize("text", ["a: &x [1, *x]\n", "a: &x {<<: *x}\n", "a: &x {b: {c: *x}}\n"])
def test_an_alias_inside_of_what_it_names_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match=r"the alias \*x stands inside of what it names"):
        check_yaml(text, place)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1),
        "a: b: c\n- [",
        "? {x: y}\n: 1\nb: 2\n---\nc: 3\n",
        "",
        merged(4),
        "a: &x {b: &x 1, c: *x}\n",
        "a: *unknown\n",
        "a: &x 1\n---\nb: &x [1]\n---\nc: [*x]\n",
    ],
)
def test_a_text_at_the_bound_and_one_that_is_no_yaml_pass(text: str) -> None:
    check_yaml(text, place)


def test_json_is_rejected_beyond_the_bound_and_brackets_in_texts_are_not_counted() -> None:
    check_json(b"[" * DEEPEST + b"]" * DEEPEST, place(1))
    check_json(json.dumps({"a": '"' + "[" * 5000, "b": [{}] * 500}).encode(), place(1))
    check_json(b"]" * 5000, place(1))

    with pytest.raises(InputError, match=f"f.yaml:1: {TOO_DEEP}"):
        check_json(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), place(1))


def settings(text: str) -> Plain:
    """A ConfigMap in which a scheduler's settings are a text."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-vgpu-device-config"},
        "data": {"device-config.yaml": text},
    }


def dump(*things: Plain) -> str:
    return "\n".join(map(json.dumps, things))


READERS = [
    "schedule -f",
    "top nodes -f",
    "who a -f",
    "pending -f",
    "audit -f",
    "explain pod p -f",
    "whatif --remove a -f",
    "demo",
    "serve --listen 127.0.0.1:0 --store memory -f",
]


@pytest.mark.parametrize("text", [BOMB, DEEP, f"z: {DEEP}", "z: &x [*x]\n"])
@pytest.mark.parametrize("words", READERS)
def test_each_command_that_reads_manifests_rejects_them(
    words: str, text: str, tmp_path: Path
) -> None:
    file = write(tmp_path, "f.yaml", text)

    rejected(file, *words.split(), file)


@pytest.mark.parametrize("text", [BOMB, f"z: {DEEP}", "z: &x [*x]\n"])
def test_the_settings_in_a_config_map_are_checked_too(text: str, tmp_path: Path) -> None:
    file = write(tmp_path, "f.json", dump(settings(text)))

    rejected(file, "schedule", "-f", file)


@pytest.mark.parametrize("text", [BOMB, f"z: {DEEP}"])
def test_what_is_written_back_is_checked_too(text: str, tmp_path: Path) -> None:
    manifest = "kind: Pod\nspec: {containers: [{resources: {limits: {volcano.sh/vgpu-number: 1}}}]}"
    translated = write(tmp_path, "pod.yaml", f"{manifest}\n{text}")
    configured = write(tmp_path, "scheduler.yaml", f"{CONFIGURATION}{text}")

    rejected(translated, "translate", "--to", "hami", "-f", translated)
    rejected(configured, "configure", "kube-scheduler", "-f", configured)


@pytest.mark.parametrize("text", [BOMB, DEEP])
def test_a_kubeconfig_and_the_settings_of_the_service_are_checked_too(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "config", text)

    rejected(file, "top", "nodes", "--kubeconfig", file)
    rejected(file, "serve", "--config", file)
    monkeypatch.setenv("KUBECONFIG", str(file))
    rejected(file, "top", "nodes")
    monkeypatch.delenv("KUBECONFIG")
    (tmp_path / ".kube").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    rejected(write(tmp_path / ".kube", "config", text), "top", "nodes")


@pytest.mark.parametrize("depth", [300, 100_000])
def test_json_of_any_depth_is_rejected(depth: int, tmp_path: Path) -> None:
    nested = "[" * depth + "]" * depth
    record = write(tmp_path, "record.json", json.dumps({"kind": "Node", "metadata": {"name": "a"}}))
    record.write_text(record.read_text()[:-1] + f', "x": {nested}}}')
    listed = write(tmp_path, "list.json", f'{{"kind": "List", "items": [{record.read_text()}]}}')
    limit = json.dumps(pod(limits=volcano(1)))[:-1] + f', "x": {nested}}}'
    translated = write(tmp_path, "pod.json", limit)

    rejected(record, "schedule", "-f", record)
    rejected(listed, "schedule", "-f", listed)
    rejected(translated, "translate", "--to", "hami", "-f", translated)


def test_a_damaged_record_of_any_depth_is_named(tmp_path: Path) -> None:
    line = f'# dragoman-configure: {{"did":"added","field":["a"],"value":{"[" * 100_000}}}'
    file = write(tmp_path, "scheduler.yaml", f"{line}\n{CONFIGURATION}")

    result = command("configure", "kube-scheduler", "-f", file)

    assert result.exit_code == 2
    assert len(result.stderr) < 1000


def test_a_file_and_a_document_have_a_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "f.json", dump(node()))
    monkeypatch.setattr(source, "LARGEST", file.stat().st_size - 1)
    rejected(file, "schedule", "-f", file, problem="is larger than 0 MiB, the most that a file")
    monkeypatch.undo()

    monkeypatch.setattr(document, "LARGEST_OBJECT", 1 << 20)
    configured = write(tmp_path, "c.yaml", CONFIGURATION + "# x\n" * (1 << 18))
    problem = "is larger than 1 MiB, the most that an API server accepts of one object"
    rejected(configured, "configure", "kube-scheduler", "-f", configured, problem=problem)


def rejected(file: Path, *words: str | Path, problem: str = "") -> None:
    """A command ends with status 2 and one short line that names the file."""
    result = command(*words)

    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"dragoman: {file}:")
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 500
