"""Which allocations a run adopts, which pods it places, and which it skips."""

import json
from typing import Any

import pytest

from adapters.cli.tests.builders import (
    Plain,
    device,
    ledger_of,
    metax,
    node,
    pod,
    report,
    run,
    stream,
    uuid,
    volcano,
    volcano_bound,
)
from core.hardware.quantity import MIB

ALLOCATED = {"metadata": {"annotations": {"volcano.sh/vgpu-ids-new": f"{uuid(0)},NVIDIA,9000,50:"}}}
ON_A = {"spec": {"nodeName": "node-a"}}


def of(found: Plain, name: str) -> Any:
    return next(pod for pod in found["pods"] if pod["name"] == name)


def test_a_bound_pod_keeps_its_cards_wherever_it_is_in_the_input() -> None:
    found = report(
        node(cards=1),
        pod("late", volcano(2000)),
        pod("small", volcano(1000)),
        pod("early", volcano(9000, cores=50), **ALLOCATED, **ON_A),
    )

    assert [pod["name"] for pod in found["pods"]] == ["late", "small", "early"]
    assert [pod["placed"] for pod in found["pods"]] == [False, True, True]
    early = of(found, "early")
    assert early["explanation"]["summary"] == "already bound"
    assert (early["node"], early["annotations"], early["labels"]) == ("node-a", {}, {})
    assert early["containers"]["main"][0]["memoryMiB"] == 9000
    assert found["cards"][0]["sharers"] == ["default/early", "default/small"]


def test_a_terminating_pod_keeps_its_cards() -> None:
    going = {"deletionTimestamp": "2026-01-31T12:00:00Z", **ALLOCATED["metadata"]}
    bound = pod("going", volcano(9000, cores=50), metadata=going, **ON_A)

    found = report(node(cards=1), bound, pod(limits=volcano(2000)))

    assert not of(found, "pod-a")["placed"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_has_no_cards_and_is_skipped(phase: str) -> None:
    status = {"phase": phase}
    over = pod("over", volcano(9000), status=status, **ALLOCATED, **ON_A)
    never = pod("never", volcano(9000), status=status)

    result = run(
        "-f", "-", "-o", "json", stdin=stream(node(cards=1), over, never, pod(limits=volcano(5000)))
    )

    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert of(found, "pod-a")["placed"]
    assert of(found, "over")["explanation"]["summary"] == f"has ended ({phase})"
    assert (of(found, "never")["placed"], of(found, "never")["node"]) == (False, None)


def test_a_pending_pod_that_is_being_deleted_is_skipped() -> None:
    going = {"deletionTimestamp": "2026-01-31T12:00:00Z"}

    found = report(node(), pod(limits=volcano(1000), metadata=going))

    assert of(found, "pod-a")["explanation"]["summary"] == "is being deleted"
    assert found["cards"][0]["sharers"] == found["cards"][1]["sharers"] == []


def test_a_bound_pod_without_a_record_blocks_the_cards_and_is_reported() -> None:
    result = run(
        "-f",
        "-",
        "-o",
        "json",
        stdin=stream(node(), pod("bound", volcano(1), **ON_A), pod(limits=volcano(1))),
    )

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert "warning: pod default/bound: runs on node-a without a record" in result.stderr
    assert of(found, "bound")["placed"]
    assert "held by an allocation that cannot be read" in str(of(found, "pod-a")["explanation"])
    assert [card["sharers"] for card in found["cards"]] == [["default/bound"]] * 2


def test_a_bound_pod_on_a_missing_node_is_reported() -> None:
    bound = pod("bound", volcano(1), spec={"nodeName": "elsewhere"})

    result = run("-f", "-", "-o", "json", stdin=stream(node(), bound))

    text = "already bound to elsewhere, which is not among the input"
    assert result.exit_code == 0
    assert f"warning: pod default/bound: {text}\n" in result.stderr
    assert of(json.loads(result.stdout), "bound")["explanation"]["summary"] == text


def test_a_bound_pod_that_mixes_dialects_has_none() -> None:
    mixed = volcano(1) | metax(10, 1)

    found = report(node(), pod("bound", mixed, **ON_A))

    assert of(found, "bound")["dialect"] is None


def test_a_pod_that_requests_no_share_is_skipped() -> None:
    result = run("-f", "-", "-o", "json", stdin=stream(node(), pod(), pod("b", **ON_A)))

    found = json.loads(result.stdout)
    assert result.exit_code == 0
    for name, where in (("pod-a", None), ("b", "node-a")):
        line = of(found, name)
        assert line["dialect"] is None
        assert (line["node"], line["placed"], line["phase"]) == (
            where,
            where is not None,
            "schedule",
        )
        assert line["explanation"] == {"summary": "requests no share", "nodes": {}}


def test_an_invalid_request_fails_at_admission() -> None:
    found = report(node(), pod(limits=metax(150, 1)))

    line = of(found, "pod-a")
    assert (line["dialect"], line["placed"], line["phase"]) == ("metax", False, "admission")
    assert "metax-tech.com/vcore" in line["explanation"]["summary"]
    assert "150" in line["explanation"]["summary"]


def test_a_pod_that_mixes_dialects_fails_at_admission() -> None:
    found = report(node(), pod(limits=volcano(1) | metax(10, 1)))

    line = of(found, "pod-a")
    assert (line["dialect"], line["placed"], line["phase"]) == (None, False, "admission")
    assert "mixes the dialects volcano, metax" in line["explanation"]["summary"]


def test_an_unschedulable_node_is_ignored_and_reported() -> None:
    closed = node(more={"spec": {"unschedulable": True}})

    line = of(report(closed, pod(limits=volcano(1))), "pod-a")

    assert not line["placed"]
    assert line["explanation"] == {
        "summary": "0 of 1 nodes fit: 1 node: unschedulable",
        "nodes": {"node-a": "unschedulable"},
    }


def test_a_node_selector_chooses_by_labels() -> None:
    nodes = [node("node-a"), node("node-b"), node("node-c", memory=10 * MIB)]
    nodes[1]["metadata"]["labels"] = nodes[2]["metadata"]["labels"] = {"pool": "x"}
    wants = {"spec": {"nodeSelector": {"pool": "x"}}}

    found = report(*nodes, pod("a", volcano(1000), **wants), pod("b", volcano(20000), **wants))

    assert of(found, "a")["node"] == "node-b"
    assert of(found, "b")["explanation"]["nodes"] == {
        "node-a": "lacks the label pool=x of the nodeSelector",
        "node-b": "2 of 2 cards: memory 10000 MiB short",
        "node-c": "2 of 2 cards: memory 19990 MiB short",
    }
    assert of(found, "b")["explanation"]["summary"].endswith(
        "; 1 node: lacks the label pool=x of the nodeSelector"
    )


def test_reasons_against_other_nodes_are_reported_for_placed_pods_only_on_demand() -> None:
    things = (node("small", memory=10 * MIB), node("large"), pod(limits=volcano(1000)))

    quiet, full = report(*things), report(*things, options=("--explain",))

    assert of(quiet, "pod-a")["explanation"]["nodes"] == {}
    assert of(full, "pod-a")["explanation"]["nodes"] == {
        "small": "2 of 2 cards: memory 990 MiB short"
    }


def test_a_pod_without_a_uid_gets_the_same_one_every_time() -> None:
    first, second = (report(node(), pod(limits=volcano(1))) for _ in range(2))

    assert of(first, "pod-a")["uid"] == of(second, "pod-a")["uid"]
    assert of(report(node(), pod("b", volcano(1))), "b")["uid"] != of(first, "pod-a")["uid"]
    assert of(report(pod(metadata={"uid": "own"})), "pod-a")["uid"] == "own"


def test_a_device_without_its_node_is_reported() -> None:
    result = run("-f", "-", stdin=stream(node(), device("elsewhere", "GPU-x")))

    assert "warning: Device elsewhere: no Node has this name" in result.stderr


def test_an_invalid_description_of_a_node_is_reported_once() -> None:
    broken = node()
    broken["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = "GPU-a,1:"

    result = run("-f", "-", stdin=stream(broken))

    assert result.stderr.count("warning: node node-a: volcano.sh/node-vgpu-register") == 1


def test_settings_without_effect_are_noted() -> None:
    result = run("-f", "-", stdin=stream(node(), pod(limits={"volcano.sh/vgpu-memory": 1000})))

    assert (
        "warning: pod default/pod-a: container main names volcano.sh/vgpu-memory" in result.stderr
    )


def test_over_allocation_is_reported() -> None:
    bound = [pod(name, volcano(9000, cores=50), **ALLOCATED, **ON_A) for name in ("a", "b")]

    result = run("-f", "-", stdin=stream(node(), *bound))

    assert f"warning: node node-a: card {uuid(0)}:" in result.stderr


def test_one_card_in_three_dialects_is_one_card() -> None:
    known = node(cards=1)
    known["metadata"]["annotations"]["metax-tech.com/node-gpu-devices"] = json.dumps(
        [
            {
                "uuid": uuid(0),
                "totalDevCount": 16,
                "totalCompute": 100,
                "totalVRam": 10000,
                "healthy": True,
            }
        ]
    )
    halves = {
        "koordinator.sh/gpu.shared": 1,
        "koordinator.sh/gpu-core": 40,
        "koordinator.sh/gpu-memory-ratio": 40,
    }

    found = report(
        known,
        device("node-a", uuid(0)),
        pod("v", volcano(3000, cores=30)),
        pod("k", halves),
        pod("m", metax(30, 2)),
        pod("too-much", volcano(1000)),
    )

    (card,) = found["cards"]
    assert card["sharers"] == ["default/v", "default/k", "default/m"]
    assert (card["usedMemoryMiB"], card["usedCompute"]) == (3000 + 4000 + 2048, 100)
    assert not of(found, "too-much")["placed"]


def test_a_card_on_two_nodes_is_reported() -> None:
    other = node("node-b", cards=1)
    other["metadata"]["annotations"] = node(cards=1)["metadata"]["annotations"]

    result = run("-f", "-", stdin=stream(node(cards=1), other))

    assert f"warning: card {uuid(0)} is on node-a and node-b\n" in result.stderr


def test_a_card_that_bound_pods_over_allocate_is_a_warning_and_exit_status_1() -> None:
    pods = [volcano_bound("a", 6000), volcano_bound("b", 5000)]

    result = run("-f", "-", stdin=stream(node(), *pods))

    assert result.exit_code == 1
    assert (
        f"card {uuid(0)}: 10.7 of 9.8 GiB are allocated:"
        " default/a (volcano) 5.9 GiB, default/b (volcano) 4.9 GiB"
    ) in result.stderr


def test_cards_that_a_ledger_has_allocated_are_in_use() -> None:
    things = [node(cards=1), volcano_bound("a", 9000)]
    unrecorded = volcano_bound("a", 9000)
    del unrecorded["metadata"]["annotations"]

    found = report(things[0], ledger_of(*things), unrecorded, pod("b", volcano(2000)))

    assert [line["placed"] for line in found["pods"]] == [True, False]
    assert found["cards"][0]["usedMemoryMiB"] == 9000


def test_a_pending_pod_with_an_allocation_in_a_ledger_keeps_its_cards() -> None:
    ledger = ledger_of(node(cards=1), volcano_bound("a", 9000))
    being_bound = pod("a", volcano(9000), metadata={"uid": "uid-a"})

    (line,) = report(node(cards=1), ledger, being_bound)["pods"]

    assert (line["node"], line["explanation"]["summary"]) == (
        "node-a",
        "has cards of node-a, and its Binding is not written yet",
    )


def test_a_node_whose_ledger_cannot_be_read_takes_no_pod() -> None:
    broken = ledger_of(node())
    broken["spec"]["cards"] = "none"

    found = report(node(), broken, pod("b", volcano(1)))

    assert found["pods"][0]["explanation"]["nodes"] == {
        "node-a": "the ledger's record cannot be read: Expected `array`, got `str`"
        ' - at `$.cards` is "none"'
    }


def test_misspelled_and_uncounted_names_are_warnings() -> None:
    typo = {"metadata": {"name": "typo", "annotations": {"nvidia.com/use-gputyp": "A100"}}}
    pods = (
        pod("typo", {"nvidia.com/gpumem": 4000, "nvidia.com/gpu": 1}, **typo),
        pod("strange", {"huawei.com/Ascend910B": 1}),
    )

    found = run("-f", "-", stdin=stream(node(), *pods)).stderr

    assert (
        "pod default/typo: metadata.annotations[nvidia.com/use-gputyp]: no dialect reads it; "
        "did you mean nvidia.com/use-gputype?"
    ) in found
    assert (
        "pod default/strange: spec.containers[main].resources[huawei.com/Ascend910B]: "
        "Dragoman does not count this resource"
    ) in found
