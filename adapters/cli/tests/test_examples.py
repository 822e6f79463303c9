"""Every example runs unchanged and gives the report of its golden file.

The golden files have the whole report; ``make golden`` rewrites them and the diff is the review.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.tests.builders import Plain, report, run

FOLDER = Path(__file__).parents[3] / "configs" / "examples"
WORKLOADS = frozenset({"gang-jobset", "gang-lws"})
"""They have no nodes; e2e/tests/schedulers/test_gangs.py runs them."""
EVERY = sorted(path.stem for path in FOLDER.glob("*.yaml"))
EXAMPLES = [name for name in EVERY if name not in WORKLOADS]
GOLDEN = Path(__file__).parent / "golden"


def outcome(example: str) -> Plain:
    found = run("-f", FOLDER / f"{example}.yaml", "-o", "json")
    assert found.stderr == ""
    plain: Plain = json.loads(found.stdout)
    return plain


def of(example: str, name: str) -> Any:
    return next(pod for pod in outcome(example)["pods"] if pod["name"] == name)


def cards(pod: Any) -> list[int]:
    return [share["index"] for shares in pod["containers"].values() for share in shares]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_gives_its_golden_file(example: str, rewrite_golden: bool) -> None:
    found = run("-f", FOLDER / f"{example}.yaml", "-o", "json")

    golden = GOLDEN / f"{example}.json"
    if rewrite_golden:
        golden.write_text(found.stdout)
    assert found.stdout == golden.read_text()
    assert "no nodes" not in found.stderr


@pytest.mark.parametrize("example", [name for name in EXAMPLES if name not in ("mixed", "quota")])
def test_every_pod_of_a_guide_is_placed(example: str) -> None:
    assert run("-f", FOLDER / f"{example}.yaml").exit_code == 0


def test_the_workloads_of_the_example_have_their_replicas() -> None:
    found = {each["name"]: each["fit"] for each in outcome("workloads")["workloads"]}

    assert found == {"inference": 3, "evaluation": 2, "training": 3}


@pytest.mark.parametrize("example", sorted(WORKLOADS))
def test_a_workload_of_an_example_is_placed_on_the_nodes_of_another(example: str) -> None:
    nodes = "koordinator-gpu-share" if example == "gang-jobset" else "hami-share"
    found = run("-f", FOLDER / f"{example}.yaml", "-f", FOLDER / f"{nodes}.yaml", "-o", "json")

    assert [each["replicas"] for each in json.loads(found.stdout)["workloads"]] == [4]


def test_there_is_a_line_for_every_example() -> None:
    readme = (FOLDER / "README.md").read_text()

    assert [name for name in EVERY if f"[{name}.yaml]({name}.yaml)" not in readme] == []


def test_all_examples_can_be_passed_at_once() -> None:
    assert run("-f", FOLDER, "-o", "json").exit_code == 1


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_what_kubectl_takes(example: str) -> None:
    for thing in yaml.safe_load_all((FOLDER / f"{example}.yaml").read_text()):
        assert {"apiVersion", "kind", "metadata"} <= thing.keys()
        if thing["kind"] == "Pod":
            assert all(
                {"name", "image", "command"} & container.keys()
                for container in thing["spec"]["containers"]
            )


def test_volcano_allocates_the_share_of_the_guide() -> None:
    pod = of("volcano-hami-core", "hami-pod")

    card = pod["containers"]["cuda-container"][0]["uuid"]
    assert pod["annotations"]["volcano.sh/vgpu-ids-new"] == f"{card},NVIDIA,3000,50:"


def test_three_gigabytes_of_mig_are_a_slice_of_five() -> None:
    pod = of("volcano-mig", "mig-pod")

    (share,) = pod["containers"]["cuda-container"]
    assert (share["memoryMiB"], share["mig"]) == (4864, {"profile": "1g.5gb", "start": 0})
    assert pod["annotations"]["volcano.sh/vgpu-ids-new"] == (
        f"{share['uuid']}[group1-0],NVIDIA,3000,0:"
    )


def test_binpack_of_the_scheduler_settings_gathers_pods_on_one_card() -> None:
    first, third = (of("volcano-scheduling", name) for name in ("mode-hami-core", "mode-either"))

    assert (first["node"], cards(first)) == (third["node"], cards(third))
    assert of("volcano-scheduling", "mode-mig")["node"] == "gpu-sliced"


@pytest.mark.parametrize("example", [name for name in EXAMPLES if name.startswith("gang-")])
def test_the_pods_of_a_gang_are_placed_together_or_not_at_all(example: str) -> None:
    things = [*yaml.safe_load_all((FOLDER / f"{example}.yaml").read_text())]
    full = outcome(example)["pods"]
    model = next(each for each in things if each["metadata"]["name"] == full[0]["name"])
    taken = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "taken", "annotations": full[0]["annotations"]},
        "spec": {"nodeName": full[0]["node"], "containers": model["spec"]["containers"]},
        "status": {"phase": "Running"},
    }

    short = report(*things, taken)["pods"]

    assert [each["gang"] is None for each in short] == [False, False, False, True]
    left = sum(each["node"] is not None for each in short[:3])
    assert left == (2 if example == "gang-scheduler-plugins" else 0)  # there two are enough


def test_koordinator_writes_the_annotation_of_the_guide() -> None:
    pod = of("koordinator-gpu-share", "pod-example")

    (written,) = json.loads(pod["annotations"]["scheduling.koordinator.sh/device-allocated"])["gpu"]
    assert written.pop("id") == pod["containers"]["curlimage"][0]["uuid"]
    assert written == {
        "minor": 1,
        "resources": {
            "koordinator.sh/gpu-core": "50",
            "koordinator.sh/gpu-memory": "11520Mi",
            "koordinator.sh/gpu-memory-ratio": "50",
        },
    }


def test_koordinator_allocates_cards_that_are_close() -> None:
    names = ("whole-pair", "same-numa", "best-partition")

    chosen = [cards(of("koordinator-whole-and-topology", name)) for name in names]

    assert chosen == [[0, 1], [4, 5, 6, 7], [0, 1]]


def test_metax_allocates_the_share_of_the_manual() -> None:
    pod = of("metax-share", "sample-pod")

    (share,) = pod["containers"]["ubuntu"]
    written = pod["annotations"]["metax-tech.com/gpu-devices-allocated"]
    assert json.loads(written) == [[{"uuid": share["uuid"], "compute": 60, "vRam": 4096}]]


def test_metax_policies_gather_on_a_node_and_spread_on_its_cards() -> None:
    first, second = outcome("metax-policies")["pods"]

    assert first["node"] == second["node"]
    assert cards(first) != cards(second)


def test_metax_allocates_the_named_card() -> None:
    named, elsewhere = outcome("metax-specific-card")["pods"]

    assert named["containers"]["ubuntu"][0]["uuid"] == "GPU-36beae85-c835-6b14-6ab2-02671837a59c"
    assert cards(named) != cards(elsewhere)


def test_metax_chooses_the_node_whose_link_zone_has_all_cards() -> None:
    pod = of("metax-topology", "sample-pod-topology")

    assert pod["node"] == "metax-topology-node-2"
    assert sorted(cards(pod)) in ([0, 1, 2, 3], [4, 5, 6, 7])


def test_an_online_task_borrows_the_compute_of_an_offline_one() -> None:
    (card,) = outcome("metax-online-offline")["cards"]

    assert len(card["sharers"]) == 2
    assert (card["usedCompute"], card["usedMemoryMiB"]) == (60, 8192)


def test_metax_takes_the_node_that_loses_least() -> None:
    assert of("metax-whole-card", "sample-pod-whole")["node"] == "metax-whole-node-2"


def test_the_mixed_example_puts_three_dialects_on_one_card_and_explains_two_rejected_pods() -> None:
    found = outcome("mixed")

    card = next(card for card in found["cards"] if card["node"] == "lab-1")
    assert [name.split("/")[1] for name in card["sharers"]] == [
        "volcano-lab",
        "koord-lab",
        "metax-lab",
    ]
    left = {pod["name"]: pod for pod in found["pods"] if pod["dialect"] and not pod["placed"]}
    assert left.keys() == {"volcano-too-large", "metax-mistaken"}
    assert left["volcano-too-large"]["explanation"]["nodes"].keys() == {
        "nvidia-1",
        "metax-1",
        "lab-1",
    }
    assert left["metax-mistaken"]["phase"] == "admission"


def test_hamis_shares_are_recorded_for_its_device_plugin() -> None:
    pod = of("hami-share", "hami-default")

    (share,) = pod["containers"]["main"]
    written = pod["annotations"]
    assert written["hami.io/vgpu-devices-to-allocate"] == f"{share['uuid']},NVIDIA,3000,30:;"
    assert written["hami.io/vgpu-devices-allocated"] == written["hami.io/vgpu-devices-to-allocate"]


def test_a_number_of_cards_alone_is_whole_cards_with_the_record_of_hami() -> None:
    one, other = (of("hami-whole", f"hami-normal-{number}") for number in (1, 2))

    assert cards(one) != cards(other)
    assert one["annotations"]["hami.io/vgpu-devices-allocated"].endswith(",NVIDIA,40960,100:;")


def test_hami_chooses_cards_by_type_uuid_and_policy() -> None:
    allowed, denied = (of("hami-choice", f"hami-type-{end}") for end in ("to-use", "not-to-use"))
    named = of("hami-choice", "hami-uuid-to-use")

    assert {allowed["node"], denied["node"]} == {"hami-choice-1"}
    assert named["containers"]["main"][0]["uuid"] == "GPU-4a410004-0000-4000-8000-000000000005"


def test_hami_makes_slices_of_several_profiles() -> None:
    large, small = (of("hami-mig", name) for name in ("hami-mig", "hami-mig-small"))

    found = [share["mig"] for pod in (large, small) for share in pod["containers"]["main"]]
    assert [each["profile"] for each in found] == ["2g.10gb", "2g.10gb", "1g.5gb"]
    assert json.loads(small["annotations"]["hami.io/vgpu-mig-allocations"]) == [
        {
            "containerIndex": 0,
            "deviceIndex": 0,
            "gpuUUID": small["containers"]["main"][0]["uuid"],
            "profile": "1g.5gb",
            "placement": {"start": 6, "size": 1},
        }
    ]
