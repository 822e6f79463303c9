"""Sources of manifests: files, folders, standard input, YAML, JSON, lists."""

import json
import tracemalloc
from pathlib import Path

import pytest

from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.tests.builders import Plain, device, node, pod, run, stream, volcano, write
from adapters.wire.decode import yaml_decoding

POD = pod(limits=volcano(1000))


def placed(*arguments: str | Path, stdin: str | bytes | None = None) -> list[str]:
    result = run(*arguments, "-o", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return [pod["name"] for pod in json.loads(result.stdout)["pods"] if pod["placed"]]


def test_equal_specs_and_labels_of_pods_are_one_object() -> None:
    amounts = (1000, 2000, 1000)
    texts = [
        json.dumps(pod(str(at), volcano(each), metadata={"labels": {"a": f"b{each}"}}))
        for at, each in enumerate(amounts)
    ]
    found = manifests([Source("pods", "\n".join(texts), named=True)])

    first, other, alike = (each for each, _ in found.pods.values())
    assert first.spec is alike.spec
    assert first.metadata.labels is alike.metadata.labels
    assert other.spec != first.spec
    assert other.metadata.labels == {"a": "b2000"}


def test_equal_resources_of_devices_are_one_object() -> None:
    text = stream(device("a", "GPU-1", "GPU-2"), device("b", "GPU-3"), node())
    found = manifests([Source("devices", text, named=True)])

    devices = [one for each, _ in found.devices.values() for one in each.spec.devices or ()]
    assert len(devices) == 3
    assert len({id(each.resources) for each in devices}) == 1


@pytest.mark.parametrize("shift", range(4))
def test_the_line_of_an_item_is_right_behind_text_of_many_bytes(shift: int) -> None:
    odd = pod("odd", volcano(1), metadata={"annotations": {"x": "a" * shift + "\u5361\n" * 4096}})
    items = [odd, pod("wrong", volcano(1), metadata={"namespace": 1})]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in items)
    result = run("-f", "-", stdin=f'{{"kind": "List", "items": [\n{lines}]}}')

    assert result.exit_code == 2
    assert "stdin:3: metadata.namespace must be text" in result.output


def test_several_files_are_one_input(tmp_path: Path) -> None:
    nodes = write(tmp_path, "nodes.json", json.dumps(node()))
    pods = write(tmp_path, "pods.json", json.dumps(POD))

    assert placed("-f", nodes, "-f", pods) == ["pod-a"]
    assert placed("-f", nodes, pods) == ["pod-a"]


def test_a_folder_is_searched_to_its_depths_in_the_order_of_paths(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, "node.yaml", json.dumps(node()))
    write(tmp_path, "b.yml", json.dumps(pod("b", volcano(1))))
    write(tmp_path, "a.json", json.dumps(pod("a", volcano(1))))
    write(tmp_path / "deep", "c.yaml", json.dumps(pod("c", volcano(1))))
    write(tmp_path, "notes.txt", "not a manifest")
    write(tmp_path, "empty.yaml", "# nothing")

    assert placed("-f", tmp_path) == ["a", "b", "c"]


def test_standard_input_is_read(tmp_path: Path) -> None:
    nodes = write(tmp_path, "nodes.json", json.dumps(node()))

    assert placed("-f", nodes, "-f", "-", stdin=json.dumps(POD)) == ["pod-a"]


def test_a_byte_order_mark_is_ignored() -> None:
    assert placed("-f", "-", stdin=stream(node(), POD).encode("utf-8-sig")) == ["pod-a"]


def test_yaml_documents_and_json_documents_are_read_alike() -> None:
    separated = f"---\n{json.dumps(node())}\n---\n{json.dumps(POD)}\n"
    indented = json.dumps(node(), indent=1) + json.dumps(POD, indent="\t")

    assert placed("-f", "-", stdin=separated) == ["pod-a"]
    assert placed("-f", "-", stdin=indented) == ["pod-a"]


def test_json_with_what_only_yaml_allows_is_read_as_yaml(tmp_path: Path) -> None:
    text = "{kind: Node, metadata: {name: a}}"

    assert run("-f", write(tmp_path, "input.yaml", text)).exit_code == 0
    assert run("-f", write(tmp_path, "input.json", text)).exit_code == 2


LISTS = {
    "a list": {"apiVersion": "v1", "kind": "List", "items": [node(), POD]},
    "lists in a list": {
        "kind": "List",
        "items": [
            {"kind": "NodeList", "items": [{**node(), "kind": "Node"}]},
            {"kind": "PodList", "items": [{"metadata": POD["metadata"], "spec": POD["spec"]}]},
            {"kind": "DeviceList", "items": []},
            {"kind": "ConfigMapList"},
        ],
    },
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_read_as_their_items(name: str) -> None:
    assert placed("-f", "-", stdin=json.dumps(LISTS[name], indent=1)) == ["pod-a"]
    assert placed("-f", "-", stdin="# YAML\n" + json.dumps(LISTS[name])) == ["pod-a"]


def test_a_thousand_documents_are_read() -> None:
    pods = [pod(f"pod-{i}", volcano(1)) for i in range(1000)]
    nodes = [node(f"node-{i}", cards=1) for i in range(100)]

    yaml = "\n---\n".join(json.dumps(thing) for thing in [*nodes, *pods])

    assert len(placed("-f", "-", stdin=f"# YAML\n{yaml}")) == 1000
    assert len(placed("-f", "-", stdin=stream(*nodes, *pods))) == 1000


def test_a_dump_is_read_in_less_than_twice_its_own_size_more() -> None:
    items = [pod(f"p{n}", metadata={"managedFields": ["f" * 4000]}) for n in range(2000)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4)
    tracemalloc.start()
    try:
        found = manifests([Source("dump", text, named=True)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found.pods) == 2000
    line = found.pods["default/p1999"][1].line
    assert '"name": "p1999"' in "".join(text.splitlines()[line - 1 : line + 4])
    assert peak < 2 * len(text)


def test_every_object_is_found_by_its_name() -> None:
    config: Plain = {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}
    text = stream(node(), device("node-a"), POD, config)

    found = manifests([Source("text", text, named=True)])

    assert list(found.nodes) == ["node-a"]
    assert list(found.devices) == ["node-a"]
    assert list(found.pods) == ["default/pod-a"]
    assert list(found.config_maps) == ["n/c"]
    assert str(found.config_maps["n/c"][1]) == "text:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0000:17:00.0", "0000:17:00.0"),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("017", 15),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("~", None),
        ("", None),
        ("no-one", "no-one"),
    ],
)
def test_plain_values_mean_what_they_mean_to_kubernetes(text: str, value: object) -> None:
    reader = yaml_decoding.Loader(f"value: {text}")

    found = reader.get_single_data()

    assert found == {"value": value}
    assert type(found["value"]) is type(value)


def test_merged_mappings_are_read() -> None:
    reader = yaml_decoding.Loader("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}")

    assert reader.get_single_data()["b"] == {"x": 1, "y": 3}


def test_other_config_maps_are_ignored() -> None:
    other: Plain = {"kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"a": "[not YAML"}}

    assert placed("-f", "-", stdin=stream(node(), POD, other, {**other, "metadata": {"name": "b"}}))
