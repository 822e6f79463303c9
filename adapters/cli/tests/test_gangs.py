"""The command places enough pods of a gang together, or none, and says why."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.builders import Plain, node, pod, report, run, stream, uuid, volcano, write
from adapters.cli.tests.command import as_plain, command
from adapters.cli.tests.gangs import (
    APIS,
    KOORDINATOR,
    KUBERNETES,
    LARGE,
    PLUGINS,
    VOLCANO,
    bound,
    group,
    member,
)
from adapters.dialects.gangs import GROUPS, MIN_AVAILABLE

SHORT = (
    "gang default/g of 3: 2 of 3 fit together; no room for default/c:"
    " node-a: 2 of 2 cards: memory 2000 MiB short"
)


def nodes_of(*things: Plain, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """By name of a pod, its node in the report."""
    return {each["name"]: each["node"] for each in report(*things, options=options)["pods"]}


def summaries(*things: Plain) -> set[str]:
    return {each["explanation"]["summary"] for each in report(*things)["pods"]}


@pytest.mark.parametrize("api", APIS)
def test_of_a_gang_of_three_where_two_fit_none_is_placed(api: str) -> None:
    pods = [member(name, api) for name in "abc"]

    found = report(node(), group(api, 3), *pods)

    assert {each["node"] for each in found["pods"]} == {None}
    assert {each["explanation"]["summary"] for each in found["pods"]} == {SHORT}
    assert not any(card["sharers"] for card in found["cards"])


@pytest.mark.parametrize("api", APIS)
def test_a_gang_that_fits_is_placed_and_each_pod_names_it(api: str) -> None:
    pods = [member(name, api) for name in "abc"]

    found = report(node(cards=3), *pods, group(api, 3))["pods"]

    assert {each["node"] for each in found} == {"node-a"}
    assert {each["gang"]["name"] for each in found} == {"default/g"}
    assert {each["gang"]["minimum"] for each in found} == {3}
    assert api.partition("/")[0].removesuffix("sigs.k8s.io") in found[0]["gang"]["api"] or (
        found[0]["gang"]["api"] == "gang by Koordinator's keys"
    )


def test_the_group_of_a_namespace_is_that_of_its_pods() -> None:
    pods = [member(name, metadata={"namespace": "team"}) for name in "ab"]

    assert set(nodes_of(node(cards=1), group(KUBERNETES, 2, namespace="team"), *pods).values()) == {
        None
    }
    assert nodes_of(node(cards=1), group(KUBERNETES, 2), *pods)["a"] == "node-a"


def test_a_gang_that_koordinators_annotations_describe_needs_no_object() -> None:
    texts = {"gang.scheduling.koordinator.sh/name": "g", MIN_AVAILABLE: "2"}
    pods = [pod(name, volcano(LARGE), metadata={"annotations": texts}) for name in "ab"]

    assert set(nodes_of(node(cards=1), *pods).values()) == {None}
    assert set(nodes_of(node(), *pods).values()) == {"node-a"}


def test_gangs_that_name_each_other_are_placed_together() -> None:
    both = '["default/g", "default/h"]'

    def things(cards: int) -> list[Plain]:
        groups = [group(KOORDINATOR, 1, name) for name in "gh"]
        for each in groups:
            each["metadata"]["annotations"] = {GROUPS: both}
        return [node(cards=cards), *groups, member("a", KOORDINATOR), member("b", KOORDINATOR, "h")]

    assert set(nodes_of(*things(1)).values()) == {None}
    assert set(nodes_of(*things(2)).values()) == {"node-a"}


def test_a_pod_beyond_the_number_takes_what_is_left() -> None:
    pods = [member(name, PLUGINS) for name in "abc"]

    found = nodes_of(node(), group(PLUGINS, 2), *pods)

    assert sorted(filter(None, found.values())) == ["node-a", "node-a"]


def test_each_of_volcanos_tasks_has_its_own_number() -> None:
    def task(name: str, of: str) -> Plain:
        return member(name, VOLCANO, metadata={"annotations": {"volcano.sh/task-spec": of}})

    masters = [task(name, "master") for name in ("a", "b")]
    worker = task("c", "worker")
    wide = group(VOLCANO, 2, minTaskMember={"master": 1, "worker": 1})
    ignored = group(VOLCANO, 2, minTaskMember={"master": 2, "worker": 1})

    assert set(nodes_of(node(), wide, *masters).values()) == {None}
    assert set(nodes_of(node(cards=3), wide, *masters, worker).values()) == {"node-a"}
    assert set(nodes_of(node(), ignored, *masters).values()) == {"node-a"}


def test_volcanos_annotation_says_nothing_to_kube_scheduler() -> None:
    pods = [member(name, VOLCANO, spec={"schedulerName": "default-scheduler"}) for name in "abc"]

    found = nodes_of(node(), group(VOLCANO, 3), *pods)

    assert len([*filter(None, found.values())]) == 2


def test_a_pod_that_comes_later_gets_what_a_gang_leaves() -> None:
    things = [node(), group(KUBERNETES, 3), *(member(name) for name in "abc")]

    found = nodes_of(*things, pod("single", volcano(LARGE)))

    assert found == {"a": None, "b": None, "c": None, "single": "node-a"}


def test_a_gang_whose_pods_do_not_exist_waits_for_them() -> None:
    assert summaries(node(), group(KUBERNETES, 3), member("a")) == {
        "gang default/g: 1 of 3 pods exist"
    }


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"schedulingGates": [{"name": "wait"}]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"limits": volcano(LARGE, cores=200)},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_pod_that_cannot_be_placed_is_none_of_its_gang(more: Plain, first: bool) -> None:
    odd, others = member("x", **more), [member(name) for name in "ab"]
    pods = [odd, *others] if first else [*others, odd]

    assert set(nodes_of(node(cards=5), group(KUBERNETES, 3), *pods).values()) == {None}


def test_pods_that_are_bound_already_count() -> None:
    things = [node(cards=3), group(KUBERNETES, 3), bound("a", 0), bound("b", 1), member("c")]
    found = report(*things)["pods"]

    assert [each["node"] for each in found] == ["node-a"] * 3
    assert {each["gang"]["name"] for each in found} == {"default/g"}


def test_a_gang_within_its_quota_pod_by_pod_and_not_together_is_not_placed() -> None:
    quota = {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "ShareQuota",
        "metadata": {"name": "quota", "namespace": "default"},
        "spec": {"limits": {"memory": "12000Mi"}},
    }
    pods = [member(name) for name in "abc"]

    (summary,) = summaries(node(cards=3), quota, group(KUBERNETES, 3), *pods)
    placed = nodes_of(node(cards=3), quota, group(KUBERNETES, 2), *pods[:2], pod("x", volcano(1)))

    assert summary == (
        "gang default/g of 3: at least 2 of 3 fit together; no room for default/c:"
        " the gang is over the quota of namespace default"
    )
    assert placed == {"a": "node-a", "b": "node-a", "x": None}


def test_pods_of_two_dialects_get_the_cards_that_leave_room_for_each_other() -> None:
    """HAMi describes the second card only, which Volcano's pod would take first, as the largest."""
    both = node(cards=2)
    devices = [{"id": uuid(1), "count": 10, "devmem": 10000, "devcore": 100, "type": "NVIDIA-A"}]
    listed = json.dumps([{**devices[0], "mode": "hami-core", "health": True}])
    both["metadata"]["annotations"]["hami.io/node-nvidia-register"] = listed
    small = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    pods = [member("large", limits=volcano(5000)), *(member(n, limits=small) for n in "abc")]

    assert nodes_of(both, group(KUBERNETES, 4), *pods) == dict.fromkeys(
        ("large", "a", "b", "c"), "node-a"
    )


def test_how_many_pods_of_a_large_gang_fit_together_is_said_as_far_as_it_is_known() -> None:
    """All choices are tried for fewer pods."""
    pods = [member(f"p{number:02}", limits=volcano(LARGE + number % 2)) for number in range(14)]

    many = summaries(node(cards=8), group(KUBERNETES, 14), *pods)
    few = summaries(node(cards=8), group(KUBERNETES, 10), *pods[:10])

    assert {text.split(" fit")[0] for text in many} == {"gang default/g of 14: at least 8 of 14"}
    assert {text.split(" fit")[0] for text in few} == {"gang default/g of 10: 8 of 10"}


def test_a_gang_whose_pods_request_very_different_shares_is_not_planned() -> None:
    pods = [member(f"p{size}", limits=volcano(100 + size)) for size in range(33)]

    assert summaries(node(), group(KUBERNETES, 33), *pods) == {
        "gang default/g of 33: its pods request more than 32 different shares"
    }


def served(name: str, devices: int) -> Plain:
    """A node of a device plugin."""
    amounts = {"nvidia.com/gpu": str(devices)}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def test_pods_of_device_plugins_are_pods_of_their_gang() -> None:
    plain = [member(name, limits={"nvidia.com/gpu": 2}) for name in "bc"]
    things = [node(cards=1), group(KUBERNETES, 3), member("a"), *plain]

    short = report(*things, served("plain", 3))["pods"]
    found = nodes_of(*things, served("plain", 4), pod("d", {"nvidia.com/gpu": 1}))

    assert {each["node"] for each in short} == {None}
    (summary,) = {each["explanation"]["summary"] for each in short}
    assert summary.startswith("gang default/g of 3: at least 2 of 3 fit together; no room")
    assert found == {"a": "node-a", "b": "plain", "c": "plain", "d": None}


def test_a_pod_of_a_device_plugin_that_fits_nowhere_says_why() -> None:
    plain = member("b", limits={"nvidia.com/gpu": 4})

    (summary,) = summaries(node(), served("plain", 3), group(KUBERNETES, 2), member("a"), plain)

    assert "no room for default/b: 0 of 2 nodes fit: 1 node: 4 nvidia.com/gpu: 3 of 3" in summary


def test_nodes_that_a_pod_may_not_run_on_are_named_too() -> None:
    away = node("away", more={"spec": {"unschedulable": True}})

    (summary,) = summaries(
        away, group(KUBERNETES, 2), *(member(name) for name in "ab"), node("small", 1, 1 << 30)
    )

    assert summary == (
        "gang default/g of 2: 0 of 2 fit together; no room for default/a: 0 of 2 nodes fit:"
        " 1 node: 1 of 1 cards: memory 4976 MiB short; 1 node: unschedulable"
    )


def test_explain_and_pending_say_the_same() -> None:
    things = [node(), group(KUBERNETES, 3), *(member(name) for name in "abc")]

    explained = as_plain("explain", "a", "-n", "default", things=things)
    rows = as_plain("pending", things=things)["items"]
    shown = command("explain", "a", "-n", "default", things=things)

    assert explained["summary"] == SHORT
    assert explained["gang"] == {
        "name": "default/g",
        "api": "PodGroup of scheduling.k8s.io",
        "minimum": 3,
    }
    assert (explained["best"], explained["fits"]) == (None, ["node-a"])
    assert [(row["reason"], row["gang"]) for row in rows] == [(SHORT, "default/g")] * 3
    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        f"default/a (volcano) is pending: {SHORT}",
        "Request: 1 card: 5.9 GiB",
        "Gang: default/g, of 3 pods (PodGroup of scheduling.k8s.io)",
    ]


def test_explain_says_what_a_pod_lacks_that_fits_nowhere_alone() -> None:
    things = [node(), group(KUBERNETES, 2), member("a"), member("b", limits=volcano(11_000))]

    shown = command("explain", "b", "-n", "default", things=things).stdout

    assert "is pending: gang default/g of 2: 1 of 2 fit together" in shown
    assert "What would make it fit" in shown


def test_of_a_gang_that_fits_each_pod_is_explained_with_its_node() -> None:
    nodes = [node("n1", cards=1), node("n2", cards=1)]
    things = [*nodes, group(KUBERNETES, 2), *(member(name) for name in "ab")]

    found = [as_plain("explain", name, "-n", "default", things=things) for name in "ab"]

    assert sorted(each["best"] for each in found) == ["n1", "n2"]
    assert {each["summary"] for each in found} == {"gang default/g of 2: 2 of 2 fit together"}


def test_a_pod_beyond_the_number_is_explained_as_one() -> None:
    things = [node(), group(KUBERNETES, 2), *(member(name) for name in "abc")]

    rows = as_plain("pending", things=things)["items"]

    assert [row["reason"] for row in rows] == [
        "gang default/g of 2: 2 of 2 fit together",
        "gang default/g of 2: 2 of 2 fit together",
        "gang default/g of 2: 2 of 2 fit together without this pod",
    ]


def test_a_pod_whose_gang_is_bound_already_is_on_its_own() -> None:
    things = [node(cards=3), group(KUBERNETES, 2), bound("a", 0), bound("b", 1), member("c")]

    found = as_plain("explain", "c", "-n", "default", things=things)

    assert found["summary"] == "cards fit on node-a"
    assert found["gang"]["name"] == "default/g"


def test_whatif_reads_the_groups_of_pods_that_would_come(tmp_path: Path) -> None:
    coming = [group(VOLCANO, 3), *(member(name, VOLCANO) for name in "abc")]
    file = write(tmp_path, "coming.yaml", stream(*coming))

    few = as_plain("whatif", "--pods", file, things=[node()])["items"]
    enough = as_plain("whatif", "--pods", file, "--add", "node-a=1", things=[node()])["items"]

    assert {row["then"] for row in few} == {"does not fit"}
    assert {row["reason"] for row in few} == {SHORT}
    assert {row["gang"] for row in few} == {"default/g"}
    assert all(row["placed"] for row in enough)


def test_whatif_moves_the_pods_of_a_gang_together() -> None:
    old = [node("old"), bound("a", 0, "old"), bound("b", 1, "old"), group(KUBERNETES, 2)]

    few = as_plain("whatif", "--remove", "old", things=[*old, node("new", cards=1)])["items"]
    enough = as_plain("whatif", "--remove", "old", things=[*old, node("new")])["items"]

    assert {row["then"] for row in few} == {"does not fit"}
    assert {row["then"] for row in enough} == {"new"}


def test_a_cluster_has_its_groups_read(tmp_path: Path) -> None:
    things = [node(), *(group(api, 3, f"g{at}", "default") for at, api in enumerate(APIS))]
    pods = [member(f"{at}{name}", api, f"g{at}") for at, api in enumerate(APIS) for name in "abc"]
    with api_server(tmp_path, *things, *pods) as server:
        found = as_plain("pending", "-A", "--kubeconfig", server.kubeconfig)["items"]

    assert {row["gang"] for row in found} == {f"default/g{at}" for at in range(4)}
    assert all("2 of 3 fit together" in row["reason"] for row in found)


def test_groups_that_the_user_may_not_list_are_a_problem_and_no_error(tmp_path: Path) -> None:
    with api_server(tmp_path, node(), member("a")) as server:
        server.forbidden.add("/apis/scheduling.k8s.io/v1beta1/podgroups")
        found = as_plain("audit", "--kubeconfig", server.kubeconfig, "--no-agents")["findings"]

    assert [each["text"] for each in found] == [
        "gangs of scheduling.k8s.io are not known: must list podgroups in all namespaces, because"
        " pods of all namespaces share cards: not allowed"
    ]


@pytest.mark.parametrize(
    ("thing", "problem"),
    [
        ({**group(KUBERNETES, 2), "metadata": {}}, "metadata.name is missing"),
        (group(VOLCANO, "two"), "spec.minMember"),  # type: ignore[arg-type]
    ],
)
def test_a_group_that_cannot_be_used_is_an_error(thing: Plain, problem: str) -> None:
    found = run("-f", "-", stdin=stream(node(), thing))

    assert found.exit_code == 2
    assert problem in found.stderr


def test_a_group_of_another_api_is_not_read() -> None:
    alone = run("-f", "-", stdin=stream(group("v1", 2)))
    beside = run("-f", "-", stdin=stream(node(), group("v1", 2)))

    assert "unknown kind PodGroup of v1; its apiVersion must be of scheduling.k8s" in alone.stderr
    assert beside.stderr == "note: skipped: 1 object of kinds without pods (PodGroup of v1)\n"


def test_a_group_that_comes_twice_is_an_error_and_of_another_api_is_another_one() -> None:
    twice = run("-f", "-", stdin=stream(node(), group(KUBERNETES, 2), group(KUBERNETES, 2)))
    both = run("-f", "-", stdin=stream(node(), group(KUBERNETES, 2), group(VOLCANO, 2)))

    assert (twice.exit_code, both.exit_code) == (2, 0)
    assert "PodGroup default/g is a duplicate; the first one is at" in twice.stderr


def test_a_list_of_groups_is_read() -> None:
    things = {"apiVersion": "v1", "kind": "List", "items": [group(KUBERNETES, 2)]}

    assert set(nodes_of(node(cards=1), things, *(member(n) for n in "ab")).values()) == {None}


def test_a_pod_that_a_gate_holds_back_is_none_of_its_gang_and_gets_no_card() -> None:
    gated = member("x", spec={"schedulingGates": [{"name": "wait"}]})
    things = [group(KUBERNETES, 2), gated, *(member(name) for name in "ab")]

    assert nodes_of(node(), *things) == {"x": None, "a": "node-a", "b": "node-a"}
    assert nodes_of(node(cards=3), *things)["x"] is None
