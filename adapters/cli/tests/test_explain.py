"""``dragoman explain pod``: pending and placed pods."""

from pathlib import Path

import pytest

from adapters.cli.tests.api_server import PATHS, api_server
from adapters.cli.tests.builders import (
    Plain,
    a_claim,
    a_slice,
    ledger_of,
    node,
    pod,
    uuid,
    volcano,
    volcano_bound,
)
from adapters.cli.tests.command import as_plain, command


def lines(*words: str, things: list[Plain]) -> list[str]:
    return command("explain", "pod", *words, things=things).stdout.splitlines()


FULL = [node(), volcano_bound("a", 8000), volcano_bound("b", 9000, card=1)]


def test_a_bound_pod_has_its_cards_and_its_neighbours() -> None:
    shown = lines("a", things=[node(), volcano_bound("a", 4000), volcano_bound("b", 2000)])

    assert shown == [
        "default/a (volcano) is bound to node-a and has its cards",
        "Request: 1 card: 3.9 GiB",
        "",
        "Cards",
        f"  main: #0 {uuid(0)} (A), 3.9 GiB; shared with default/b",
    ]


def test_a_bound_pod_without_a_record_is_unknown_and_exit_status_1() -> None:
    things = [node(), pod("a", volcano(1), spec={"nodeName": "node-a"})]

    result = command("explain", "pod", "a", things=things)

    assert result.exit_code == 1
    assert "which cards it has is unknown: runs on node-a without a record" in result.stdout
    assert f"  {uuid(1)}: may be in use" in result.stdout.splitlines()


def test_a_slice_with_less_memory_than_requested_states_what_is_usable() -> None:
    card = "GPU-a,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,mig:"
    on = node()
    on["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = card
    bound = volcano_bound("a", 5120)
    bound["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-a[group1-0],NVIDIA,5120,0:"

    shown = lines("a", things=[on, bound])

    assert shown[-1] == (
        "  main: 1g.5gb fits by its configured size; 4864 MiB of the 5 GiB requested are usable"
    )
    (row,) = as_plain("top", "pods", things=[on, bound])["items"]
    assert row["grantedMiB"] == 4864


def test_a_card_that_the_node_lacks_is_named() -> None:
    lost = volcano_bound("a", 1000)
    lost["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-lost,NVIDIA,1000,0:"

    assert "  GPU-lost: 1.0 GiB; the node does not have this card" in lines(
        "a", things=[node(), lost]
    )


def test_a_pending_pod_gets_reasons_changes_and_evictions() -> None:
    shown = lines("p", things=[*FULL, pod("p", volcano(3000))])

    assert shown == [
        "default/p (volcano) is pending: fits none of 1 node",
        "Request: 1 card: 2.9 GiB",
        "",
        "Nodes",
        "  1 node: 2 of 2 cards: memory 1000 MiB short (node-a)",
        "",
        "What would make it fit",
        "  request less for main: memory, at most 2000 MiB",
        "  end on node-a: default/b (volcano, priority 0)",
    ]


def test_a_pod_of_higher_priority_may_preempt() -> None:
    high = pod("p", volcano(3000), spec={"priority": 10})

    (eviction,) = as_plain("explain", "pod", "p", things=[*FULL, high])["evictions"]

    assert (eviction["node"], len(eviction["pods"]), eviction["preemption"]) == ("node-a", 1, True)
    assert lines("p", things=[*FULL, high])[-1] == (
        "  evict on node-a: default/b (volcano, priority 0); of lower priority, so the service does"
        " it with preemption.enabled"
    )
    high["spec"]["preemptionPolicy"] = "Never"
    assert (
        lines("p", things=[*FULL, high])[-1] == "  end on node-a: default/b (volcano, priority 0)"
    )


def test_evictions_are_computed_of_nodes_that_the_pod_would_fit_if_they_were_empty() -> None:
    """Twenty nodes with few pods and too few cards keep the one that helps from the list."""
    small = [
        thing
        for number in range(20)
        for thing in (
            node(f"n{number}", cards=2),
            volcano_bound(f"on-{number}", 5000, on=f"n{number}"),
        )
    ]
    large = [node("z-large", cards=4)]
    large += [volcano_bound(f"l{number}", 5000, on="z-large", card=number) for number in range(2)]
    wanted = pod("p", volcano(9000, number=4))

    found = as_plain("explain", "pod", "p", things=[*small, *large, wanted])["evictions"]

    assert [each["node"] for each in found] == ["z-large"]


def test_reasons_are_grouped_and_counted() -> None:
    nodes = [node(f"n{number}", cards=1) for number in range(7)]
    shown = lines("p", things=[*nodes, pod("p", volcano(99999))])

    assert (
        "  7 nodes: 1 of 1 cards: memory 89999 MiB short (n0, n1, n2, n3, n4 and 2 more)" in shown
    )


def test_nodes_that_the_pod_may_not_use_are_named_with_the_cause() -> None:
    cordoned = node("node-a", more={"spec": {"unschedulable": True}})

    shown = lines("p", things=[cordoned, pod("p", volcano(1))])

    assert "  1 node: unschedulable (node-a)" in shown
    assert "  let it run on node-a: unschedulable" in shown


@pytest.mark.parametrize(
    "words", [["explain", "pod", "p"], ["pending"]], ids=["explain", "pending"]
)
def test_what_the_scheduler_counts_of_cards_is_named_where_cards_fit(words: list[str]) -> None:
    """HAMi issue 1429: a pod of HAMi that the default scheduler has."""
    stale = node(cards=1, more={"status": {"allocatable": {"volcano.sh/vgpu-memory": "81"}}})
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/1 nodes are available: 1 Insufficient volcano.sh/vgpu-memory."
    status = {"conditions": [{**said, "message": message}]}

    found = command(*words, things=[stale, pod("p", volcano(100), status=status)])

    short = "Insufficient volcano.sh/vgpu-memory (node-a states 81)"
    assert f"cards fit on node-a; kube-scheduler said: {short}" in found.output
    is_explain = words[0] == "explain"
    assert found.exit_code == is_explain
    assert ("refused by its scheduler, though cards fit" in found.stdout) == is_explain


def plugin_node(name: str, allocatable: dict[str, int], *, tainted: bool = True) -> Plain:
    """A node of NVIDIA's device plugin, or of none, that is for other pods."""
    taints = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}] if tainted else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable},
    }


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu"])
def test_only_nodes_with_free_devices_are_advised_where_every_node_is_excluded(
    resource: str,
) -> None:
    """Device plugin issues 421 and 68: a taint keeps the pod off, and cpu nodes were advised."""
    holder = pod("holder", {resource: 1}, spec={"nodeName": "full"}, status={"phase": "Running"})
    things = [
        plugin_node("cpu", {}),
        plugin_node("free", {resource: 1}),
        plugin_node("full", {resource: 1}),
        plugin_node("other", {"example.com/nic": 4}),
        holder,
    ]

    shown = lines("p", things=[*things, pod("p", {resource: 1})])

    advice = [line for line in shown if "let it run on" in line]
    assert advice == ["  let it run on free: untolerated taint sku=gpu:NoSchedule"]
    assert as_plain("explain", "pod", "p", things=[*things, pod("p", {resource: 1})])[
        "excluded"
    ] == ["free"]
    assert f"Request: 1 {resource}" in shown


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (volcano(100, number=3), "  request less for main: number of cards, at most 2"),
        (volcano(100, cores=100), "  request less for main: exclusive use, share the card"),
    ],
)
def test_other_amounts_can_be_lowered_too(limits: Plain, line: str) -> None:
    held = [volcano_bound("a", 10), volcano_bound("b", 10, card=1)]

    assert line in lines("p", things=[node(), *held, pod("p", limits)])


def test_where_nothing_helps_it_says_so() -> None:
    shown = lines("p", things=[node(), pod("p", {"metax-tech.com/sgpu": 1})])

    assert shown[-1] == "  no single change of the request, and no eviction on one node"


def test_a_pending_pod_that_fits_is_no_finding() -> None:
    result = command("explain", "pod/p", things=[node(), pod("p", volcano(1))])

    assert result.exit_code == 0
    assert "is pending: cards fit on node-a" in result.stdout


def test_an_invalid_request_is_named_with_field_and_value() -> None:
    result = command("explain", "pod", "p", things=[node(), pod("p", volcano(1, cores=101))])

    assert result.exit_code == 1
    assert "spec.containers[main].resources.limits[volcano.sh/vgpu-cores]" in result.stdout


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (pod("p"), "default/p is pending: requests no share"),
        (pod("p", spec={"nodeName": "node-a"}), "is bound to node-a and uses no cards"),
        (
            pod("p", volcano(1), spec={"nodeName": "x"}),
            "is bound to x, which does not exist, and uses no cards",
        ),
        (
            pod("p", volcano(1), status={"phase": "Succeeded"}),
            "has ended (Succeeded) and uses no cards",
        ),
    ],
)
def test_a_pod_without_cards_says_why(thing: Plain, text: str) -> None:
    result = command("explain", "pod", "p", things=[node(), thing])

    assert result.exit_code == 0
    assert text in result.stdout


def test_a_pod_that_is_being_bound_has_cards_and_no_node() -> None:
    ledger = ledger_of(node(), volcano_bound("a", 1000))
    waits = pod("a", volcano(1000), metadata={"uid": "uid-a"})

    shown = lines("a", things=[node(), ledger, waits])

    assert "has cards of node-a, and its Binding is not written yet" in shown[0]
    assert f"  main: #0 {uuid(0)} (A), 1.0 GiB" in shown


def test_a_pod_of_another_namespace_is_not_found_and_named() -> None:
    there = pod("p", metadata={"namespace": "ml"})

    result = command("explain", "pod", "p", "-n", "default", things=[node(), there])

    assert result.exit_code == 2
    assert "pod p: is not in namespace default; there is ml/p, see -n" in result.stderr


@pytest.mark.parametrize("words", [("node", "h1"), ("node/h1",), ("nodes/h1",)])
def test_who_is_named_to_those_who_ask_about_a_node(words: tuple[str, ...]) -> None:
    result = command("explain", *words, things=[node()])

    assert result.exit_code == 2
    assert "explains pods; try dragoman who h1" in result.stderr


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (volcano(1000, cores=100), "1 card: 1.0 GiB, 100% compute"),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "100"}, "1 card, whole"),
    ],
)
def test_the_request_is_what_the_pod_asks_for(asked: Plain, text: str) -> None:
    result = command("explain", "pod", "p", things=[node(), pod("p", asked)])

    assert f"Request: {text}\n" in result.stdout


def test_only_pods_are_explained() -> None:
    result = command("explain", "deploy", "p", things=[node()])

    assert result.exit_code == 2
    assert "must be: pod NAME" in result.stderr


def test_yaml_has_the_fields_of_json() -> None:
    words = ("explain", "pod", "a", "-o", "yaml")

    result = command(*words, things=FULL)

    assert "kind: PodExplanation\npod: default/a\n" in result.stdout


def an_event(reason: str, seen: str, **more: object) -> Plain:
    return {
        "kind": "Event",
        "metadata": {"name": "u1", "namespace": "default"},
        "involvedObject": {"uid": "u1"},
        "reason": reason,
        "message": f"{reason}\n said",
        "lastTimestamp": seen,
        "source": {"component": "default-scheduler"},
        **more,
    }


def test_the_history_of_a_pod_is_its_events_with_their_times(tmp_path: Path) -> None:
    waits = pod("a", volcano(99999), metadata={"namespace": "default", "uid": "u1"})
    series = {"count": 7, "lastObservedTime": "2026-11-22T10:05:00.000000Z"}
    events = [
        an_event("FailedScheduling", "2026-11-22T10:01:00Z", series=series),
        an_event("Queued", "2026-11-22T10:00:00Z"),
    ]

    with api_server(tmp_path, node(), waits, *events) as server:
        options = ("--kubeconfig", server.kubeconfig)
        shown = command("explain", "pod", "a", *options).stdout
        plain = as_plain("explain", "pod", "a", *options)
        server.forbidden.add(PATHS["Event"])
        without = command("explain", "pod", "a", *options).stdout

    assert shown.endswith(
        "\nHistory\n"
        "  2026-11-22T10:00:00Z Queued (default-scheduler): Queued said\n"
        "  2026-11-22T10:05:00.000000Z x7 FailedScheduling (default-scheduler):"
        " FailedScheduling said\n"
    )
    assert [each["count"] for each in plain["history"]] == [1, 7]
    assert "History" not in without


def test_only_the_latest_events_are_shown(tmp_path: Path) -> None:
    waits = pod("a", volcano(99999), metadata={"namespace": "default", "uid": "u1"})
    events = [an_event(f"R{number}", f"2026-11-22T10:{number:02}:00Z") for number in range(12)]

    with api_server(tmp_path, node(), waits, *events) as server:
        shown = command("explain", "pod", "a", "--kubeconfig", server.kubeconfig).stdout

    assert "  2 older Events are in -o json\n  2026-11-22T10:02:00Z R2 (" in shown


def test_a_pod_with_a_claim_has_the_cards_of_the_claim() -> None:
    claim = a_claim("gpu-0")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    mine = pod("a", {}, spec={"nodeName": "node-a"})
    mine["metadata"] |= {"namespace": "team", "uid": "uid-a"}
    things = [node(cards=1), a_slice(uuid(0)), claim, mine]

    shown = command("explain", "pod", "a", "-n", "team", things=things)
    plain = as_plain("explain", "pod", "a", "-n", "team", things=things)

    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == [
        "team/a is bound to node-a and has the cards of its claims",
        "",
        "Cards of ResourceClaim team/c",
        f"  #0 {uuid(0)} (A), 9.8 GiB, 100%",
    ]
    (of_claim,) = plain["claims"]
    assert (of_claim["claim"], of_claim["cards"][0]["uuid"]) == ("team/c", uuid(0))


def test_a_claim_that_no_slice_describes_is_unknown_and_exit_status_1() -> None:
    claim = a_claim("gpu-0")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    mine = pod("a", {}, spec={"nodeName": "node-a"})
    mine["metadata"] |= {"namespace": "team", "uid": "uid-a"}

    result = command("explain", "pod", "a", "-n", "team", things=[node(cards=1), claim, mine])

    assert result.exit_code == 1
    assert "which cards its claims have is unknown: no ResourceSlice describes" in result.stdout
    assert f"  {uuid(0)}: may be in use" in result.stdout.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        ("pod", "ml/a"),
        ("pod/ml/a",),
        ("ml/a",),
        ("pod", "a", "-n", "ml"),
        ("ml/a", "-n", "ml"),
        ("po", "ml/a", "-A"),
    ],
)
def test_a_pod_is_named_with_its_namespace_in_each_way(words: tuple[str, ...]) -> None:
    things = [node(), volcano_bound("a", 1), volcano_bound("a", 2, namespace="ml", uid="other")]

    assert as_plain("explain", *words, things=things)["pod"] == "ml/a"


@pytest.mark.parametrize("words", [("a",), ("pod", "a"), ("pod/a",), ("pod", "a", "-A")])
def test_of_files_a_name_that_only_one_namespace_has_is_enough(words: tuple[str, ...]) -> None:
    things = [node(), volcano_bound("a", 1, namespace="ml")]

    assert as_plain("explain", *words, things=things)["pod"] == "ml/a"


def test_of_files_a_name_that_several_namespaces_have_is_an_error_with_all_of_them() -> None:
    things = [node(), volcano_bound("a", 1), volcano_bound("a", 2, namespace="ml", uid="other")]

    done = command("explain", "pod", "a", things=things)

    assert done.exit_code == 2
    assert done.stderr == "dragoman: pod a: there are default/a, ml/a; name one\n"


@pytest.mark.parametrize(
    "words",
    [("pod",), ("pods/",), ("pod", "a", "b"), ("a", "b"), ("/a",), ("a/b/c",), ("pod", "/a")],
)
def test_words_that_name_no_pod_are_bad_input(words: tuple[str, ...]) -> None:
    done = command("explain", *words, things=[node()])

    assert done.exit_code == 2
    assert "must be: pod NAME" in done.stderr


def test_two_namespaces_of_one_pod_are_bad_input() -> None:
    done = command("explain", "ml/a", "-n", "web", things=[node()])

    assert done.exit_code == 2
    assert "the pod is named ml/a" in done.stderr


def test_nothing_is_to_end_for_a_pod_that_scheduling_gates_hold_back() -> None:
    gates = {"schedulingGates": [{"name": "queue"}, {"name": "example.com/quota"}]}
    things = [*FULL, pod("waits", volcano(9000), spec={**gates, "priority": 7})]

    plain = as_plain("explain", "pod", "waits", things=things)
    row = as_plain("pending", "-A", things=things)["items"][0]
    shown = lines("waits", things=[node(), pod("waits", volcano(9000), spec=gates)])

    assert plain["evictions"] == []
    assert row["reason"].endswith("scheduling gates hold it back: queue, example.com/quota")
    assert "evict" not in command("pending", "-A", things=things).stderr
    assert shown[0].endswith(
        "cards fit on node-a; scheduling gates hold it back: queue, example.com/quota"
    )
