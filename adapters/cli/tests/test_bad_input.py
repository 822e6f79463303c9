"""Invalid input: one error with file and line, exit status 2, and no other output."""

import json
from pathlib import Path

import pytest

from adapters.cli.tests.builders import node, pod, run, stream, volcano, write

NODE = "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n"

CASES = {
    "not YAML": ("a: [1\n", 2, "is not YAML"),
    "a tab": ("kind: Node\nmetadata:\n\tname: a\n", 3, "a tab"),
    "a control character": ("kind: Node\nx: \x01\n", 2, "is not YAML"),
    "an unknown alias": ("kind: *nothing\n", 1, "is not YAML"),
    "a duplicate key": (NODE + "  name: b\n", 5, "'name' is duplicated"),
    "a number of too many digits": (f"kind: Node\nx: {'9' * 5000}\n", 2, "is not of type int"),
    "a value that does not match its tag": ("kind: !!int ''\n", 1, "'' is not of type int"),
    "text": ("hello\n", 1, "a manifest is a mapping"),
    "a list": ("- kind: Node\n", 1, "this is a list"),
    "no kind": ("---\nmetadata:\n  name: a\n", 2, "kind is missing"),
    "a kind that is no text": ("kind: 5\n", 1, "kind must be text"),
    "an unknown kind": ("---\nkind: Banana\n", 2, "unknown kind Banana"),
    "a workload": ("apiVersion: apps/v1\nkind: Deployment\n", 1, "metadata.name is missing"),
    "another project's workload": (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n",
        1,
        "metadata.name is missing",
    ),
    "a known kind of another group": ("apiVersion: x.io/v1\nkind: Node\n", 1, "unknown kind Node"),
    "no name": ("kind: Node\nmetadata: {}\n", 1, "metadata.name is missing"),
    "no name of a pod": ("kind: Pod\n", 1, "metadata.name is missing"),
    "no containers": ("kind: Pod\nmetadata: {name: p}\n", 1, "spec.containers is missing"),
    "a container without a name": (
        POD + "  - image: x\n",
        1,
        "spec.containers[1].name is missing",
    ),
    "a container twice": (POD + "  - name: c\n", 1, "'c' is a duplicate"),
    "a node twice": (NODE + "---\n" + NODE, 6, "Node a is a duplicate; the first one is at FILE:1"),
    "a pod twice": (
        POD + "---\n" + POD,
        9,
        "Pod default/p is a duplicate; the first one is at FILE:1",
    ),
    "a label that is true": (NODE + "  labels:\n    x: y\n    z: true\n", 7, "put it in quotes"),
    "a label that is a list": (NODE + "  labels:\n    z: []\n", 6, "labels[z] must be text"),
    "a label's key": (NODE + "  labels:\n    5: x\n", 6, "labels[5] must be text"),
    "metadata that is text": ("kind: Node\nmetadata: a\n", 2, "metadata must be a mapping"),
    "containers that are no list": (
        "kind: Pod\nmetadata: {name: p}\nspec:\n  containers: {a: b}\n",
        4,
        "spec.containers must be a list, but is a mapping",
    ),
    "an amount that is a list": (
        POD + "    resources:\n      limits:\n        a/b: 1\n        c/d: [1]\n",
        11,
        "spec.containers[0].resources.limits[c/d] must be",
    ),
    "items that are no list": ("kind: List\nitems: {a: b}\n", 1, "items must be a list"),
    "an item without a name": (
        "kind: List\nitems:\n- kind: Node\n  metadata: {name: a}\n- kind: Node\n",
        5,
        "metadata.name is missing",
    ),
    "an item that is a number": ("kind: List\nitems:\n- 1\n", 3, "a manifest is a mapping"),
    "a list of unknown things": ("kind: BananaList\nitems: []\n", 1, "unknown kind BananaList"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_yaml_is_an_error_with_file_and_line(name: str, tmp_path: Path) -> None:
    text, line, problem = CASES[name]
    file = write(tmp_path, "input.yaml", text)

    result = run("-f", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dragoman: {file}:{line}: ")
    assert problem.replace("FILE", str(file)) in result.stderr
    assert result.stderr.count("\n") == 1


JSON_CASES = {
    "not JSON": ('{"kind": "Node",\n "metadata": }', 2, "is not JSON: expecting value"),
    "an unknown escape": ('{"kind":"Node","metadata":{"name":"\\q"}}', 1, "is not JSON"),
    "cut off": ('{"kind": "Node",\n', 2, "is not JSON"),
    "a wrong type": ('\n{"kind":"Node",\n\t"metadata":{"name":5}}', 3, "metadata.name must be"),
    "a wrong type in a list": (
        '{"kind":"List","items":[\n{"kind":"Node","metadata":{"name":"a"}},\n'
        '{"kind":"Node",\n"metadata":{"name":"b","labels":{"x":1}}}]}',
        4,
        "metadata.labels[x] must be text, but is a whole number; put it in quotes",
    ),
    "a wrong type beside what YAML cannot say": (
        '{"kind":"Node",\n"metadata":{"name":"\\ud83d\\ude00","uid":5}}',
        1,
        "metadata.uid must be text",
    ),
    "a duplicate document": (
        '{"kind":"Node","metadata":{"name":"a"}}\n{"kind":"Node","metadata":{"name":"a"}}',
        2,
        "Node a is a duplicate",
    ),
    "items that are no list": ('{"kind":"List","items":{}}', 1, "items must be a list"),
    "a member of a list in a list": (
        '{"kind":"List","items":[\n{"kind":"NodeList","items":[\n{"metadata":{"name":"a"}},\n'
        '{"metadata":{"name":7}}]}]}',
        4,
        "name",
    ),
    "an item that is a number": ('{"kind":"List","items":[\n1]}', 2, "a manifest is a mapping"),
    "a number between documents": ('{"kind":"List"}\n7', 2, "a manifest is a mapping"),
    "a duplicate item of a list": (
        '{"kind":"NodeList","items":[\n{"metadata":{"name":"a"}},\n{"metadata":{"name":"a"}}]}',
        3,
        "Node a is a duplicate; the first one is at FILE:2",
    ),
}


@pytest.mark.parametrize("name", JSON_CASES)
def test_bad_json_is_an_error_with_file_and_line(name: str, tmp_path: Path) -> None:
    text, line, problem = JSON_CASES[name]
    file = write(tmp_path, "input.json", text)

    result = run("-f", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dragoman: {file}:{line}: ")
    assert problem.replace("FILE", str(file)) in result.stderr


def test_json_that_is_nested_too_deeply_is_rejected(tmp_path: Path) -> None:
    text = '{"kind":"Node","metadata":{"name":"a"},"x":' + "[" * 5000 + "]" * 5000 + "}"
    file = write(tmp_path, "input.json", text)

    assert run("-f", file).exit_code == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "null\n"])
def test_a_named_file_without_manifests_is_rejected(text: str, tmp_path: Path) -> None:
    file = write(tmp_path, "input.yaml", text)

    result = run("-f", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"dragoman: {file}: contains no manifest\n"


def test_an_empty_list_has_no_items(tmp_path: Path) -> None:
    for text in ("kind: List\nitems:\n", "kind: List\nitems: []\n", '{"kind":"List","items":null}'):
        result = run("-f", write(tmp_path, "input.yaml", text))

        assert (result.exit_code, result.stderr) == (
            2,
            "dragoman: the input: contains no manifest\n",
        )


def test_empty_standard_input_is_rejected() -> None:
    result = run("-f", "-", stdin="")

    assert (result.exit_code, result.stderr) == (2, "dragoman: stdin: contains no manifest\n")


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    result = run("-f", tmp_path / "nothing.yaml")

    assert result.exit_code == 2
    assert "nothing.yaml: cannot be read: No such file or directory" in result.stderr


def test_a_folder_without_manifests_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "kind: Node")

    result = run("-f", tmp_path)

    assert result.exit_code == 2
    assert result.stderr == f"dragoman: {tmp_path}: no .json, .yaml, .yml file in this folder\n"


def test_bytes_that_are_not_text_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_bytes(b"kind: Node\n\xff\xfe")

    result = run("-f", file)

    assert (result.exit_code, result.stderr) == (2, f"dragoman: {file}:2: is not UTF-8 text\n")


def test_one_uid_for_two_pods_is_rejected(tmp_path: Path) -> None:
    pods = [pod(name, metadata={"uid": "u"}) for name in ("a", "b")]

    result = run("-f", write(tmp_path, "input.json", stream(*pods)))

    assert result.exit_code == 2
    assert "input.json:2: Pod default/b has the uid of Pod default/a" in result.stderr


def test_the_last_of_a_thousand_documents_is_found_by_its_line(tmp_path: Path) -> None:
    text = "---\n".join(NODE.replace("name: a", f"name: a{i}") for i in range(999))
    file = write(tmp_path, "input.yaml", f"{text}---\nkind: Node\n")

    result = run("-f", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"dragoman: {file}:4996: metadata.name is missing\n"


def test_a_bad_last_file_leaves_nothing_printed(tmp_path: Path) -> None:
    good = write(tmp_path, "a.json", stream(node(), pod(limits=volcano(1000))))
    bad = write(tmp_path, "b.yaml", "kind: Node\n")

    result = run("-f", good, "-f", bad, "-o", "json")

    assert (result.exit_code, result.stdout) == (2, "")


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
DEVICE_CONFIG = "volcano-vgpu-device-config"


def test_settings_that_are_not_yaml_are_rejected_by_config_map_key_and_line() -> None:
    metadata = {"name": DEVICE_CONFIG, "namespace": "kube-system"}
    config = CONFIG | {"metadata": metadata, "data": {"device-config.yaml": "nvidia:\n  a: [\n"}}

    result = run("-f", "-", stdin=json.dumps(config))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f"dragoman: stdin:1: ConfigMap kube-system/{DEVICE_CONFIG}, data[device-config.yaml], line"
    )


def test_an_invalid_setting_is_rejected_with_its_path() -> None:
    text = "nvidia:\n  gpuMemoryFactor: many\n"
    config = CONFIG | {"metadata": {"name": DEVICE_CONFIG}, "data": {"device-config.yaml": text}}

    result = run("-f", "-", stdin=json.dumps(node()) + "\n" + json.dumps(config))

    assert result.exit_code == 2
    assert result.stderr.startswith(f"dragoman: stdin:2: ConfigMap {DEVICE_CONFIG}")
    assert "gpuMemoryFactor" in result.stderr


def test_settings_in_two_namespaces_are_rejected() -> None:
    configs = [
        CONFIG
        | {
            "metadata": {"name": DEVICE_CONFIG, "namespace": namespace},
            "data": {"device-config.yaml": "nvidia: {}"},
        }
        for namespace in ("kube-system", "volcano-system")
    ]

    result = run("-f", "-", stdin=stream(*configs))

    assert result.exit_code == 2
    assert "stdin:2: ConfigMap volcano-system/" in result.stderr
    assert "exists in another namespace too, at stdin:1; keep only one" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("-f", "-", "-o", "xml"), ("-f", "-", "--node-policy", "best")]
)
def test_wrong_arguments_are_bad_input(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, stdin=json.dumps(node())).exit_code == 2
