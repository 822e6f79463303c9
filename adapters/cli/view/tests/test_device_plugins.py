"""All tools on a cluster of NVIDIA's operator, which no dialect describes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.tests.builders import Plain, device, node, pod, stream, volcano_bound, write
from adapters.cli.tests.command import as_plain, command

DUMP = Path(__file__).parents[2] / "tests" / "dumps" / "nvidia_operator.yaml"
MIG = "nvidia.com/mig-3g.20gb"


def of(*words: str) -> str:
    """What a command prints of the dump."""
    result = command(*words, "-f", DUMP)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def notes_of(*words: str) -> str:
    """What a command notes of the dump."""
    return command(*words, "-f", DUMP).stderr


def changed(tmp_path: Path, name: str, **labels: str) -> Path:
    """The dump with other labels of a node."""
    plain: dict[str, Any] = yaml.safe_load(DUMP.read_text())
    (found,) = (each for each in plain["items"] if each["metadata"]["name"] == name)
    found["metadata"]["labels"] |= {f"nvidia.com/gpu.{key}": text for key, text in labels.items()}
    return write(tmp_path, "dump.json", json.dumps(plain))


def test_an_audit_of_a_healthy_cluster_has_no_finding_and_no_warning() -> None:
    result = command("audit", "-f", DUMP)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "0 pods with cards: no findings" in result.stdout


def test_labels_that_contradict_the_amounts_are_a_note(tmp_path: Path) -> None:
    result = command("audit", "-f", changed(tmp_path, "dgx-1", count="16"))

    assert result.exit_code == 1
    (line,) = (each for each in result.stdout.splitlines() if each.startswith("note "))
    assert line.split()[1:3] == ["device-plugin-labels", "dgx-1"]
    assert "nvidia.com/gpu.count=16 contradicts the capacity, 8 nvidia.com/gpu" in line


def test_the_nodes_have_a_table_of_their_own() -> None:
    lines = of("top").splitlines()

    assert lines[0] == "Served by device plugins, not in the ledger"
    assert [line.split() for line in lines[2:4]] == [
        ["dgx-1", "nvidia.com/gpu", "NVIDIA-A100-SXM4-80GB", "80.0", "1", "8/8"],
        ["t4-1", "nvidia.com/gpu", "Tesla-T4", "15.0", "4", "1/8"],
    ]
    assert not any("control-1" in line or "npu-1" in line for line in lines)


def test_the_table_follows_that_of_the_ledger(tmp_path: Path) -> None:
    plain = yaml.safe_load(DUMP.read_text())
    dump = write(tmp_path, "dump.json", stream(plain, node(), volcano_bound("a", 1000)))

    lines = command("top", "-f", dump).stdout.splitlines()
    blank = lines.index("")

    assert lines[1].startswith("node-a")
    assert lines[blank + 1] == "Served by device plugins, not in the ledger"
    assert "" in command("top", "-f", dump, "-o", "csv").stdout.splitlines()
    assert "" not in command("top", "-f", dump, "--no-headers").stdout.splitlines()


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_objects_have_the_nodes_in_a_field_of_their_own(form: str) -> None:
    plain = yaml.safe_load(of("top", "-o", form))

    assert plain["items"] == []
    (mig,) = (each for each in plain["devicePlugins"] if each["resource"] == MIG)
    assert (mig["inUse"], mig["allocatable"], mig["memoryMiB"]) == (2, 2, 19968)
    assert (mig["cards"], mig["migStrategy"], mig["unhealthy"]) == (2, "mixed", 0)


def test_names_and_sorting_know_the_nodes_too() -> None:
    assert "node/l40s-1" in of("top", "-o", "name").splitlines()
    assert of("top", "--sort", "inUse", "--no-headers").startswith("dgx-1")


@pytest.mark.parametrize("words", [("top", "pods", "-A"), ("who", "mig-mixed-1")])
def test_pods_have_their_devices(words: tuple[str, ...]) -> None:
    (line,) = (each for each in of(*words).splitlines() if " mig-a " in each)

    assert line.split() == ["research", "mig-a", "nvidia", "mig-mixed-1", "1", MIG, "-"]


def test_pods_that_wait_or_have_devices_count_in_their_namespace() -> None:
    rows = {e["namespace"]: e for e in as_plain("top", "namespaces", "-f", DUMP)["items"]}

    assert (rows["web"]["pods"], rows["web"]["pending"]) == (3, 2)
    assert rows["web"]["devices"] == {"nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 1}
    assert rows["video"]["pods"] == 1
    csv = of("top", "namespaces", "-o", "csv")
    assert "nvidia.com/gpu=2 nvidia.com/gpu.shared=1" in csv


def test_pods_that_wait_for_devices_are_pending_with_the_counts() -> None:
    reasons = {e["pod"]: e["reason"] for e in as_plain("pending", "-A", "-f", DUMP)["items"]}

    assert reasons == {
        "bert-2": "0 of 8 nodes fit: 5 nodes: 16 devices of the plugin requested, node has 0 to 13"
        " free; 3 nodes: does not state nvidia.com/gpu",
        "mig-c": f"0 of 8 nodes fit: 1 node: 1 {MIG}: 0 of 2 free; 7 nodes: does not state {MIG}",
        "notebook-c": "cards fit on t4-2",
        "notebook-d": "cards fit on 4 nodes, best mig-single-1",
    }


def test_a_pod_with_resources_that_no_dialect_counts_is_named() -> None:
    text = "requests huawei.com/Ascend910B, which Dragoman does not count"

    assert f"note: npu/finetuning {text}" in notes_of("pending", "-A")
    assert f"is pending: {text}" in of("explain", "pod", "finetuning", "-n", "npu")
    assert f"is bound to npu-1: {text}" in of("explain", "pod", "pretraining", "-n", "npu")


def test_a_node_with_resources_that_no_dialect_counts_is_named() -> None:
    note = "note: npu-1 states huawei.com/Ascend910B, which Dragoman does not count"

    assert note in notes_of("top")
    assert note in notes_of("who", "npu-1")
    assert notes_of("who", "dgx-1") == ""


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("pending", "-n", "nosuch"), "no pods wait in namespace nosuch; 4 in others, see -A"),
        (
            ("top", "pods", "-n", "nosuch"),
            "no pods have cards in namespace nosuch; 8 in others, see -A",
        ),
    ],
)
def test_an_empty_list_of_a_namespace_counts_the_others(words: tuple[str, ...], note: str) -> None:
    assert f"note: {note}" in notes_of(*words)


def test_a_list_that_is_empty_in_all_namespaces_says_so() -> None:
    assert command("pending", things=(node(),)).stderr == "note: no pods wait\n"
    assert command("top", "pods", things=(node(),)).stderr == "note: no pods have cards\n"


def test_a_bound_pod_has_the_devices_of_the_plugin() -> None:
    found = as_plain("explain", "pod", "mig-a", "-n", "research", "-f", DUMP)

    assert found["summary"] == (
        f"is bound to mig-mixed-1: has 1 {MIG} of the device plugin, in no ledger"
    )
    assert found["devices"] == {MIG: 1}


def test_a_waiting_pod_names_the_pods_whose_end_frees_devices() -> None:
    lines = of("explain", "pod", "mig-c", "-n", "research").splitlines()

    assert f"  1 node: 1 {MIG}: 0 of 2 free (mig-mixed-1)" in lines
    assert lines[-1] == "  end on mig-mixed-1: research/mig-a"


def test_a_waiting_pod_that_is_too_large_has_no_remedy() -> None:
    assert "no single change" in of("explain", "pod", "bert-2", "-n", "ml")


def placed(*extra: Plain) -> dict[str, str | None]:
    plain = yaml.safe_load(DUMP.read_text())
    report = as_plain("schedule", things=(plain, *extra))
    return {each["name"]: each["node"] for each in report["pods"] if each["placed"]}


def koordinators(cards: int) -> tuple[Plain, Plain]:
    """A node and its Device."""
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
    return bare, device("node-a", *(f"GPU-{number}" for number in range(cards)))


def waiting(name: str, resource: str, amount: int) -> Plain:
    limits = {resource: str(amount)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def test_pods_are_placed_where_devices_are_free_after_those_of_the_same_run() -> None:
    more = [waiting(f"more-{number}", "nvidia.com/gpu.shared", 4) for number in range(2)]

    found = placed(*more)

    assert (found["notebook-c"], found["more-0"]) == ("t4-2", "t4-2")
    assert "more-1" not in found


def test_a_placed_pod_has_no_card_of_the_ledger() -> None:
    report = as_plain("schedule", "-f", DUMP)
    (line,) = (each for each in report["pods"] if each["name"] == "notebook-c")
    (bound,) = (each for each in report["pods"] if each["name"] == "mig-a")

    assert (line["containers"], line["annotations"]) == ({}, {})
    assert line["explanation"]["summary"] == (
        "1 nvidia.com/gpu.shared of the device plugin, no card of the ledger"
    )
    assert "in no ledger" in bound["explanation"]["summary"]


def test_a_pod_without_free_devices_gets_cards_of_the_ledger() -> None:
    found = placed(*koordinators(16))

    assert found["bert-2"] == "node-a"


def test_where_the_kubelet_chooses_a_node_of_the_ledger_must_state_enough() -> None:
    amounts = {"capacity": {"nvidia.com/gpu": "16"}, "allocatable": {"nvidia.com/gpu": "16"}}

    assert "bert-2" not in placed(node(cards=16))
    assert placed(node(cards=16, more={"status": amounts}))["bert-2"] == "node-a"


def test_a_rejected_pod_has_the_reasons_of_both_kinds_of_nodes() -> None:
    plain = yaml.safe_load(DUMP.read_text())
    report = as_plain("schedule", things=(plain, *koordinators(2)))
    (line,) = (each for each in report["pods"] if each["name"] == "bert-2")

    assert "node has 0 to 13 free" in line["explanation"]["summary"]
    assert {"dgx-1", "node-a"} <= set(line["explanation"]["nodes"])


def test_a_pod_with_invalid_amounts_is_named_invalid() -> None:
    pod = waiting("half", MIG, 1)
    pod["spec"]["containers"][0]["resources"]["limits"][MIG] = "500m"

    (line,) = as_plain("pending", things=(node(), pod))["items"]

    assert line["request"] == "invalid"


def test_a_node_more_of_the_same_kind_lets_the_pod_fit() -> None:
    result = as_plain("whatif", "--add", "mig-mixed-1=1", "-f", DUMP)

    then = {each["pod"]: each["then"] for each in result["items"]}
    assert then["mig-c"] == "mig-mixed-1-new-1"


def test_a_pod_of_amds_plugin_is_in_amds_words() -> None:
    stated = {"amd.com/gpu": "8"}
    own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    things = [own | {"status": {"allocatable": stated, "capacity": stated}}]
    user = pod("p", {"amd.com/gpu": "1"}, spec={"nodeName": "n"})

    found = as_plain("top", "pods", things=[*things, user | {"status": {"phase": "Running"}}])

    assert [row["dialect"] for row in found["devicePlugins"]] == ["amd"]
