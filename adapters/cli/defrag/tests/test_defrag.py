"""Plans of moves: which pods move, what stays, and the forms of the plan."""

import itertools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from adapters.cli.defrag import planning
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
from adapters.cli.tests.gangs import APIS, KUBERNETES, VOLCANO, group, member
from core.hardware.quantity import MIB


def owned(kind: str = "ReplicaSet") -> Plain:
    return {"ownerReferences": [{"kind": kind, "name": "o", "controller": True}]}


def steps(plan: Plain) -> list[tuple[str, str, str]]:
    return [
        (move["pod"], move["from"]["node"], move["to"]["node"]) for move in plan["spec"]["moves"]
    ]


def moved_pods(*more: Plain, words: tuple[str, ...] = (), **metadata: Any) -> list[str]:
    """The pods that move so that ``waits`` fits a node that a pod with this metadata has."""
    things = [
        node("node-a", cards=1),
        node("node-b", cards=1),
        volcano_bound("a", 5000, **(owned() | metadata)),
        volcano_bound("b", 5000, on="node-b", **owned("Custom")),
        pod("waits", volcano(9000)),
        *more,
    ]
    return [move["pod"] for move in as_plain("defrag", *words, things=things)["spec"]["moves"]]


FULL = [
    node("node-a", cards=1),
    node("node-b", cards=1),
    volcano_bound("a", 5000, **owned()),
    pod("waits", volcano(9000), metadata={"namespace": "ml"}),
    pod("fills", volcano(10000), spec={"nodeName": "node-b"}, metadata={"uid": "f"}),
]


def test_the_pod_that_costs_least_moves() -> None:
    assert moved_pods() == ["a"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"kind": "ReplicaSet", "name": "o"}]},
        owned("DaemonSet"),
        owned("Node"),
        {"deletionTimestamp": "2026-01-31T12:00:00Z"},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "gang"}},
        {"annotations": {"volcano.sh/vgpu-ids-new": "not a record"}},
        *(
            {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-node-a-0,NVIDIA,5000,0:", key: value}}
            for key, value in (
                ("dragoman.dev/move", "false"),
                ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
                ("karpenter.sh/do-not-disrupt", "true"),
                ("karpenter.sh/do-not-disrupt", "5m"),
                ("kubernetes.io/config.mirror", "x"),
                ("volcano.sh/job-name", "j"),
            )
        ),
    ],
)
def test_a_pod_that_must_stay_is_not_moved(metadata: Plain) -> None:
    assert "a" not in moved_pods(**metadata)


@pytest.mark.parametrize(("minimum", "moved"), [(1, ["a"]), (2, ["b"])])
def test_a_member_of_a_podgroup_of_volcano_stays_where_others_need_it(
    minimum: int, moved: list[str]
) -> None:
    group: Plain = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": minimum},
    }
    texts = {
        "volcano.sh/vgpu-ids-new": "GPU-node-a-0,NVIDIA,5000,0:",
        "scheduling.k8s.io/group-name": "g",
    }

    member = volcano_bound("a", 5000, **owned(), annotations=texts)
    member["spec"]["schedulerName"] = "volcano"
    other = volcano_bound("b", 5000, on="node-b", **owned("Custom"))
    nodes = [node("node-a", cards=1), node("node-b", cards=1)]

    plan = as_plain("defrag", things=[*nodes, group, member, other, pod("waits", volcano(9000))])

    assert [move["pod"] for move in plan["spec"]["moves"]] == moved


def budget(name: str, allowed: int) -> Plain:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("budgets", "moved"),
    [([], ["a"]), ([1], ["a"]), ([0], ["b"]), ([1, 1], ["b"])],
    ids=["none", "one that allows it", "one that does not", "two"],
)
def test_a_disruption_budget_keeps_a_pod(budgets: list[int], moved: list[str]) -> None:
    things = [budget(f"b{number}", allowed) for number, allowed in enumerate(budgets)]

    assert moved_pods(*things, labels={"app": "a"}) == moved


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": "2026-01-31T12:00:00Z"}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}},
    ],
    ids=["its eviction is in progress", "it has no labels"],
)
def test_a_disruption_budget_keeps_a_pod_that_the_eviction_would_be_refused_for(
    change: Plain,
) -> None:
    labels = {} if "spec" in change else {"app": "a"}

    assert "a" not in moved_pods(budget("b", 0) | change, labels=labels)


def test_a_disruption_budget_of_another_namespace_keeps_no_pod() -> None:
    elsewhere = budget("b", 0) | {"metadata": {"name": "b", "namespace": "team"}}

    assert moved_pods(elsewhere, labels={"app": "a"}) == ["a"]


def with_a_claim(**metadata: Any) -> list[Plain]:
    """Two cards are wanted where a pod's claim has one; another node has a card for the claim."""
    other = a_slice(uuid(0, "node-b"))
    other["metadata"]["name"] = "other"
    other["spec"] |= {"nodeName": "node-b", "pool": {"name": "node-b", "generation": 1}}
    claim = a_claim("gpu-1")
    claim["metadata"]["uid"] = "claim"
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    about = {"uid": "uid-a", "namespace": "team", **metadata}
    return [
        node("node-a", cards=2),
        node("node-b", cards=1),
        a_slice(uuid(0), uuid(1)),
        other,
        claim,
        pod("a", spec={"nodeName": "node-a"}, metadata=about),
        pod("waits", volcano(9000, 2)),
    ]


def test_a_plan_says_what_it_could_do_if_claims_moved() -> None:
    things = with_a_claim(**owned())

    plan = as_plain("defrag", things=things)

    assert plan["spec"]["moves"] == []
    assert plan["report"]["withClaims"] == {"targets": 1, "moves": 1, "claims": ["team/c"]}
    assert (
        "with the claims of 1 pod moved as well: 1 of 1 fit after 1 move (team/c)\n"
        in command("defrag", things=things).stdout
    )


@pytest.mark.parametrize(
    "things",
    [
        with_a_claim(),
        [*with_a_claim(**owned()), volcano_bound("b", 5000, on="node-b")],
        [each for each in with_a_claim(**owned()) if each["metadata"]["name"] != "other"],
        with_a_claim(**owned())[:-1],
    ],
)
def test_claims_that_help_nothing_are_not_named(things: list[Plain]) -> None:
    assert as_plain("defrag", things=things)["report"]["withClaims"] is None
    assert "claims of" not in command("defrag", things=things).stdout


def test_a_claim_keeps_the_pod_that_uses_it_and_its_own_cards() -> None:
    claim = a_claim("gpu-1")
    claim["metadata"]["uid"] = "claim"
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "a", "uid": "uid-a"}]
    things = [
        node("node-a"),
        node("node-b", cards=1),
        a_slice("GPU-node-a-0", "GPU-node-a-1"),
        claim,
        volcano_bound("a", 5000, **owned(), namespace="team"),
        pod("waits", volcano(9000)),
        volcano_bound("b", 5000, on="node-b", **owned()),
    ]

    plan = as_plain("defrag", things=things)

    assert steps(plan) == [("b", "node-b", "node-a")]
    assert plan["report"]["staying"] == {"a ResourceClaim has the cards": 2}


def test_a_pod_whose_request_is_invalid_and_one_that_is_not_bound_stay() -> None:
    invalid = volcano_bound("a", 5000, **owned())
    invalid["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-cores"] = 500
    gone = volcano_bound("gone", 100, on="node-b")

    plan = as_plain("defrag", things=[node("node-a"), invalid, gone, pod("waits", volcano(90000))])

    assert plan["spec"]["moves"] == []
    assert sum(plan["report"]["staying"].values()) == 1


def test_a_plan_says_what_moves_where_and_what_is_gained() -> None:
    plan = as_plain("defrag", "--for", "pod/waits", things=FULL[:4])

    (target,) = plan["report"]["targets"]
    assert (target["name"], target["fits"], target["afterStep"]) == ("ml/waits", True, 0)
    assert (
        plan["report"]["cost"],
        plan["report"]["bound"],
        plan["report"]["optimal"],
        plan["report"]["cut"],
    ) == (0, 0, True, False)


def test_whole_nodes_are_emptied() -> None:
    things = [*FULL[:3], volcano_bound("b", 2000, on="node-b", **owned("Custom"))]

    plan = as_plain("defrag", "--free-nodes", "1", things=things)

    assert steps(plan) == [("a", "node-a", "node-b")]
    assert plan["report"]["targets"][0]["name"] == "node node-a"
    assert plan["report"]["emptyNodes"] == {"before": 0, "after": 1}


def test_the_table_names_the_node_that_is_empty_after_the_moves() -> None:
    things = [*FULL[:3], volcano_bound("b", 2000, on="node-b", **owned("Custom"))]

    result = command("defrag", "--free-nodes", "1", things=things)

    rows = [line.split()[:5] for line in result.stdout.partition("\n\n")[0].splitlines()[1:]]
    assert rows[-1] == ["empty", "-", "-", "node-a", "-"]


def test_nodes_with_pods_that_stay_cannot_be_emptied_and_the_exit_status_is_1() -> None:
    result = command("defrag", "--free-nodes", "1", things=[node(), volcano_bound("a", 5000)])

    assert result.exit_code == 1
    assert (
        "1 free node: no plan exists; 0 of 1 nodes with cards have only pods that may be moved"
        in result.stdout
    )


@pytest.mark.parametrize("pool", ["zone=x", "A", ""])
def test_a_share_is_freed_on_the_cards_of_a_pool(pool: str) -> None:
    here = node("node-a", cards=1)
    here["metadata"]["labels"] = {"zone": "x"}
    other = node("node-b", cards=1)
    things = [
        here, other, volcano_bound("a", 5000, **owned()),
        volcano_bound("b", 100, on="node-b", **owned("Custom")),
    ]  # fmt: skip
    words = ("--pool", pool) if pool else ()

    plan = as_plain("defrag", "--largest-share", "9900Mi", *words, things=things)

    assert plan["report"]["targets"][0]["fits"]
    if pool == "zone=x":
        assert steps(plan) == [("a", "node-a", "node-b")]
        assert plan["report"]["freeShares"][0]["largestMiB"] == {"before": 9900, "after": 10000}


def test_a_share_that_no_card_can_have_is_not_freed() -> None:
    plan = as_plain("defrag", "--largest-share", "1Ti", things=[node()])

    assert (plan["report"]["complete"], plan["report"]["targets"][0]["reason"]) == (
        False,
        "no plan exists",
    )


def test_pods_of_a_gang_are_one_target_by_the_name_of_any_or_of_the_gang() -> None:
    gang: Plain = {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
    things = [
        *FULL[:3],
        pod("w1", volcano(9000), metadata={**gang, "uid": "1"}),
        pod("w2", volcano(9000), metadata={**gang, "uid": "2"}),
        pod("other", volcano(1), metadata={"uid": "3"}),
    ]

    for name in ("w1", "pod/w2", "default/w1", "gang/g", "gang/default/g"):
        plan = as_plain("defrag", "--for", name, things=things)
        assert [target["name"] for target in plan["report"]["targets"]] == [
            "default/w1",
            "default/w2",
        ]
        assert not plan["report"]["complete"]


def test_a_gang_of_which_some_pods_have_cards_is_named_with_its_reason() -> None:
    gang: Plain = {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
    first = volcano_bound("w1", 1000, **gang)
    del first["spec"]["nodeName"]
    first["status"] = {"phase": "Pending"}
    things = [
        node(),
        ledger_of(node(), volcano_bound("w1", 1000)),
        first,
        pod("w2", volcano(1), metadata={**gang, "uid": "2"}),
        pod("plain", metadata={**gang, "uid": "3"}),
    ]

    for words in ((), ("--for", "gang/g")):
        result = command("defrag", *words, things=things)

        assert result.exit_code == 1, result.output
        assert "targets: 0 of 1 fit after the moves\n" in result.stdout
        assert "  default/w2: 1 of 3 pods of its gang that wait has cards already" in result.stdout


def test_of_a_gang_with_an_invalid_pod_none_fits() -> None:
    gang: Plain = {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
    things = [
        node(),
        pod("w1", volcano(1), metadata={**gang, "uid": "1"}),
        pod("w2", volcano(1, cores=500), metadata={**gang, "uid": "2"}),
    ]

    plan = as_plain("defrag", things=things)

    assert "of its gang does not fit" in plan["report"]["targets"][0]["reason"]
    assert "vgpu-cores" in plan["report"]["targets"][1]["reason"]


def test_a_quota_refuses_what_no_move_helps() -> None:
    quota = {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "ShareQuota",
        "metadata": {"name": "quota", "namespace": "default"},
        "spec": {"limits": {"memory": "1Mi"}},
    }

    plan = as_plain("defrag", things=[node(), quota, pod("waits", volcano(9000))])

    assert "no move helps" in plan["report"]["targets"][0]["reason"]


def test_pods_that_have_cards_or_ask_for_none_are_no_targets() -> None:
    assert as_plain("defrag", things=[node(), pod("plain")])["report"]["targets"] == []


def test_more_pods_wait_than_fit_and_a_bound_says_how_many_can() -> None:
    things = [*FULL[:4], *(pod(f"w{n}", volcano(m)) for n, m in enumerate((9000, 90000)))]

    result = command("defrag", things=things)

    assert result.exit_code == 1
    assert "targets: 1 of 3 fit after the moves; at most 2 can" in result.stdout


def test_cpu_decides_where_a_node_states_it() -> None:
    allocatable = {"status": {"allocatable": {"cpu": "4", "memory": "x", "pods": "2"}}}
    small = node("node-a", cards=1, more=allocatable)
    large = node("node-b", cards=1, more={"status": {"allocatable": {"cpu": "8"}}})
    busy = pod("busy", spec={"nodeName": "node-a"}, metadata={"uid": "u", **owned()})
    busy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3500m"}}
    busy["spec"]["initContainers"] = [
        {"name": "i", "resources": {"requests": {"cpu": "5"}}},
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
    ]
    waits = pod("waits", volcano(9000))
    waits["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "y"}

    plan = as_plain("defrag", things=[small, large, busy, waits])

    assert plan["report"]["targets"][0]["place"] == "node-b/0"
    assert plan["report"]["notCompared"] == [planning.NOT_COMPARED]


@pytest.mark.parametrize("stated", ["requests", "limits"])
def test_what_a_pod_requests_for_all_its_containers_counts(stated: str) -> None:
    small = node("node-a", cards=1, more={"status": {"allocatable": {"cpu": "4"}}})
    large = node("node-b", cards=1, more={"status": {"allocatable": {"cpu": "8"}}})
    waits = pod("waits", volcano(9000), spec={"resources": {stated: {"cpu": "6"}}})
    after = pod("after", volcano(900), spec={"resources": {stated: {"cpu": "3"}}})
    after["metadata"]["uid"] = "after"

    plan = as_plain("defrag", things=[small, large, waits, after])

    places = {target["name"]: target["place"] for target in plan["report"]["targets"]}
    assert places == {"default/waits": "node-b/0", "default/after": "node-a/0"}


def test_a_plan_is_the_same_in_whatever_order_the_objects_come() -> None:
    nodes = [node(f"n{number}", cards=2) for number in range(4)]
    held = [
        volcano_bound(
            f"p{number}{card}", 5000, on=f"n{number}", **owned(),
            annotations={"volcano.sh/vgpu-ids-new": f"GPU-n{number}-{card},NVIDIA,5000,0:"},
        )
        for number in range(4)
        for card in range(2)
    ]  # fmt: skip
    waits = [
        pod(f"w{number}", volcano(9000), metadata={"uid": f"w{number}"}) for number in range(3)
    ]
    things = [*nodes, *held, *waits]

    forward, backward = (as_plain("defrag", things=each) for each in (things, things[::-1]))

    assert forward == backward


def test_pods_that_ask_alike_are_searched_for_once_while_there_is_no_plan() -> None:
    def states(number: int) -> int:
        alike = [
            pod(f"w{each}", volcano(9000), metadata={"uid": f"{each}"}) for each in range(number)
        ]
        plan = as_plain("defrag", things=[*FULL[:3], FULL[4], *alike])
        return int(plan["report"]["states"])

    assert states(3) == states(1)


def test_the_picture_has_a_title_for_every_share(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    things = [*FULL[:3], volcano_bound("b", 2000, on="node-b", **owned("Custom"))]

    command("defrag", "--free-nodes", "1", "--svg", file, things=things)

    root = ElementTree.fromstring(file.read_text())  # noqa: S314
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["default/a", "default/b", "default/b", "default/a"]


def test_a_picture_shows_pods_that_come_and_at_most_sixty_nodes(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    nodes = [node(f"n{number}", cards=1) for number in range(61)]
    pods = [pod(f"w{number}", volcano(9000), metadata={"uid": f"{number}"}) for number in range(61)]

    command("defrag", "--svg", file, things=[*nodes, *pods])

    assert "#2f9e63" in file.read_text()
    assert "1 more nodes" in file.read_text()


def test_a_picture_of_no_change_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"

    command("defrag", "--svg", file, things=[node()])

    assert "no node changes" in file.read_text()


def test_a_picture_shows_the_end_of_a_long_name_and_names_of_any_kind(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    names = ["x" * 90 + "-end", "<a>&\"'", "a\x00b", "\ufffe"]
    nodes = [node(name, cards=1) for name in names]
    pods = [pod(f"w{each}", volcano(9000), metadata={"uid": f"w{each}"}) for each in range(5)]

    command("defrag", "--svg", file, things=[*nodes, *pods])

    root = ElementTree.fromstring(file.read_text())  # noqa: S314
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"..." + "x" * 56 + "-end", names[1], "a\\x00b", "\\ufffe"} <= {*texts}


@pytest.mark.parametrize("words", [(), ("-o", "yaml"), ("-o", "json")])
def test_a_plan_has_three_forms(words: tuple[str, ...]) -> None:
    result = command("defrag", *words, things=FULL)

    assert result.exit_code in (0, 1)
    assert "waits" in result.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--for x", "--for: no pod x waits for a node"),
        ("--for gang/x", "--for: no gang x waits for a node"),
        ("--for x -n ml", "--for: no pod x in namespace ml waits"),
        ("--for waits", "--for: several namespaces have a pod waits that waits"),
        ("--largest-share x", "'x' is not a quantity; write an amount such as 40Gi"),
        ("--for plain", "--for: default/plain requests no cards, or has some already"),
        ("--namespace ml", "Invalid value for --namespace: is for --for"),
        ("--free-nodes 1 --pool=", "Invalid value for --pool: is empty"),
        ("--largest-share=", "--largest-share: "),
        ("--largest-share 0", "'0' must be 1 byte to 256 TiB"),
        ("--largest-share 1Gi --pool x", "--pool: no node has the label or the model 'x'"),
        ("--free-nodes 1 --for x", "pass one of --for, --free-nodes and --largest-share"),
        ("--pool x", "is for --free-nodes and --largest-share"),
        ("--svg /", "--svg: cannot write /"),
    ],
)
def test_bad_input_gets_an_error_and_status_2(words: str, problem: str) -> None:
    second = pod("waits", volcano(1))
    plain = pod("plain", metadata={"uid": "plain"})
    result = command("defrag", *words.split(), things=[*FULL, second, plain])

    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())


def test_a_json_plan_is_ascii_and_complete() -> None:
    plan = json.loads(command("defrag", "-o", "json", things=FULL).stdout)

    assert (plan["apiVersion"], plan["kind"]) == ("dragoman.dev/v1alpha1", "MovePlan")
    assert {"targets", "cost", "bound", "freeShares", "fragmentation"} <= plan["report"].keys()


def test_searches_are_short_after_several_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(4)]
    nodes = [node(name, cards=1) for name in names]
    held = [volcano_bound(f"on-{name}", 6000, on=name, **owned()) for name in names]
    waits = [pod(f"w{size}", volcano(size), metadata={"uid": f"{size}"}) for size in (9000, 9100)]
    things = [*nodes, *held, *waits]

    long = as_plain("defrag", things=things)
    monkeypatch.setattr(planning, "FULL_SEARCHES", 0)
    monkeypatch.setattr(planning, "SHORT_SEARCH", 1)
    short = as_plain("defrag", things=things)

    assert (short["report"]["cut"], long["report"]["cut"]) == (True, False)
    assert short["report"]["states"] < long["report"]["states"]


def test_a_search_ends_when_its_time_is_over_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(4)]
    nodes = [node(name, cards=1) for name in names]
    held = [volcano_bound(f"on-{name}", 6000, on=name, **owned()) for name in names]
    waits = [pod(f"w{size}", volcano(size), metadata={"uid": f"{size}"}) for size in (3000, 9000)]
    things = [*nodes, *held, *waits]
    enough = as_plain("defrag", things=things)["report"]
    seconds = itertools.count()
    monkeypatch.setattr(planning, "monotonic", lambda: float(next(seconds)))

    late = as_plain("defrag", "--seconds", "20", things=things)["report"]
    text = command("defrag", "--seconds", "20", things=things).stdout

    assert (enough["endedAfterSeconds"], enough["cut"]) == (None, False)
    assert (late["endedAfterSeconds"], late["cut"]) == (20.0, True)
    # What fits without a move has its place all the same.
    assert [each["fits"] for each in late["targets"]] == [False, True]
    assert "time: the search ended after 20 s (--seconds)\n" in text


@pytest.mark.parametrize("waits", [volcano(1000), volcano(3000)])
def test_no_pod_moves_onto_its_own_card_for_one_that_reserves_no_compute(waits: Plain) -> None:
    def half(name: str, **metadata: Any) -> Plain:
        record = {"volcano.sh/vgpu-ids-new": f"{uuid(0, 'node-a')},NVIDIA,1000,50:"}
        return pod(
            name,
            volcano(1000, cores=50),
            metadata={"uid": f"uid-{name}", "annotations": record, **metadata},
            spec={"nodeName": "node-a"},
            status={"phase": "Running"},
        )

    things = [node(cards=1), half("a"), half("b", **owned()), pod("waits", waits)]

    answer = command("defrag", things=things)

    assert "no plan exists" in answer.stdout
    assert answer.exit_code == 1


GATED: Plain = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}


def test_no_pod_moves_for_one_that_a_scheduling_gate_holds_back() -> None:
    things = [*FULL[:3], pod("waits", volcano(9000), spec=GATED), FULL[4]]

    plan = command("defrag", things=things)
    named = command("defrag", "--for", "waits", things=things)

    assert "targets: 0 of 0 fit" in plan.stdout
    assert "1 waiting pods that scheduling gates hold back" in plan.stdout
    assert named.exit_code == 2
    assert "scheduling gates hold it back (kueue.x-k8s.io/admission)" in named.stderr


@pytest.mark.parametrize(
    "more", [{"spec": GATED}, {"metadata": {"deletionTimestamp": "2026-01-01"}}]
)
def test_no_pod_moves_for_a_gang_that_is_not_complete(more: Plain) -> None:
    things = [*FULL[:3], FULL[4], group(KUBERNETES, 2), member("a1", limits=volcano(9000))]

    plan = as_plain("defrag", things=[*things, member("a2", limits=volcano(100), **more)])

    assert plan["spec"]["moves"] == []
    assert [each["reason"] for each in plan["report"]["targets"]] == [
        "gang default/g: 1 of 2 pods exist"
    ]


def plugin_node(name: str, gpus: int) -> Plain:
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}}
    return node(name, cards=0, more={"status": status})


def uses(name: str, gpus: int, on: str | None = None) -> Plain:
    spec = {"nodeName": on} if on else {}
    meta = {"uid": f"u-{name}", **owned()}
    status = {"phase": "Running" if on else "Pending"}
    return pod(name, {"nvidia.com/gpu": gpus}, metadata=meta, spec=spec, status=status)


def test_a_pod_for_which_a_device_plugin_has_room_is_no_empty_node() -> None:
    text = command("defrag", things=[plugin_node("dgx", 8), uses("want-2", 2)]).stdout

    assert "fits   default     want-2   -      dgx" in text
    assert "empty" not in text
    assert "now: 1 of 1 fit without a move\n" in text


@pytest.mark.parametrize("wanted", [(3,), (4, 3)])
def test_no_plan_is_denied_for_pods_that_are_not_moved(wanted: tuple[int, ...]) -> None:
    things = [plugin_node("n1", 4), plugin_node("n2", 4), uses("a", 2, "n1"), uses("b", 2, "n2")]

    result = command("defrag", things=[*things, *(uses(f"w{n}", n) for n in wanted)])

    assert result.exit_code == 1
    assert "no plan exists" not in result.stdout
    assert "not searched: pods with devices of a device plugin are not moved" in result.stdout


def test_a_proof_holds_for_as_many_moves_as_were_looked_at() -> None:
    things = [
        node("node-a", cards=1),
        node("node-b", cards=1, memory=8000 * MIB),
        volcano_bound("a", 4000, **owned()),
        volcano_bound("b", 4000, **owned()),
        pod("waits", volcano(9000)),
    ]

    one, two = (command("defrag", "--max-moves", n, things=things).stdout for n in ("1", "2"))

    assert "default/waits: no plan of at most 1 moves exists; 0 of 2 nodes fit" in one
    assert "targets: 1 of 1 fit" in two


def test_targets_that_fit_without_a_move_are_counted_apart() -> None:
    sizes = {"node-a": 10000, "node-b": 6000, "node-c": 999}
    nodes = [node(name, cards=1, memory=size * MIB) for name, size in sizes.items()]
    things = [*nodes, FULL[3], volcano_bound("a", 5000, **owned())]

    # Each has one place: node-a when "a" has left it for node-b, and node-c.
    result = command("defrag", things=[*things, pod("small", volcano(999), metadata={"uid": "s"})])

    assert "targets: 2 of 2 fit after the moves\nnow: 1 of 2 fit without a move\n" in result.stdout


def test_nodes_of_device_plugins_are_not_denied_to_become_empty() -> None:
    things = [node(cards=1), volcano_bound("a", 1), plugin_node("n", 4), uses("b", 2, "n")]

    (target,) = as_plain("defrag", "--free-nodes", "1", things=things)["report"]["targets"]

    assert target["reason"].startswith("1 node of device plugins is not searched; 0 of 1 nodes")


@pytest.mark.parametrize("api", APIS)
def test_all_pods_of_a_gang_fit_or_none_in_the_words_of_any_scheduler(api: str) -> None:
    nodes = [node("near", cards=1), node("room", cards=1)]
    things = [*nodes, volcano_bound("a", 5000, on="near", **owned()), group(api, 2)]
    things += [member("g0", api), member("g1", api)]

    for words in ((), ("--for", "gang/g")):
        plan = as_plain("defrag", *words, things=things)

        assert plan["spec"]["moves"] == []
        reasons = {each["reason"] for each in plan["report"]["targets"]}
        assert reasons == {"no plan exists; only without its gang: cards fit on room"}


def test_pods_of_a_workload_of_volcano_are_no_gang_where_one_is_bound_alone() -> None:
    things = [node(cards=1), group(VOLCANO, 1), *(member(f"g{n}", VOLCANO) for n in range(2))]

    targets = as_plain("defrag", things=things)["report"]["targets"]

    assert [each["fits"] for each in targets] == [True, False]
