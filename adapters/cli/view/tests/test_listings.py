"""``top``, ``who`` and ``pending`` on small clusters."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.builders import Plain, device, node, pod, uuid, volcano, volcano_bound
from adapters.cli.tests.command import as_plain, command
from adapters.cli.view.pod_meta import age

THINGS = [
    node("node-a"),
    node("node-b", cards=1),
    volcano_bound("a", 4000),
    volcano_bound("b", 9000, card=1, namespace="ml"),
    pod("waits", volcano(9000, number=2), metadata={"namespace": "ml"}),
]


def items(*words: str, things: list[Plain] = THINGS) -> list[Plain]:
    found: list[Plain] = as_plain(*words, things=things)["items"]
    return found


def column(rows: list[Plain], field: str) -> list[Any]:
    return [row[field] for row in rows]


def test_top_nodes_has_what_is_allocated_and_what_is_left() -> None:
    first, second = items("top")

    assert (first["node"], first["cards"], first["idle"], first["pods"]) == ("node-a", 2, 0, 2)
    assert (first["grantedMiB"], first["memoryMiB"], first["largestMiB"]) == (13000, 20000, 6000)
    assert (second["node"], second["largestMiB"], second["strandedMiB"]) == ("node-b", 10000, 0)


def test_top_nodes_shows_memory_that_is_stranded() -> None:
    full = volcano_bound("c", 1000)
    full["spec"]["containers"][0]["resources"]["limits"] = volcano(1000, cores=100)
    full["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = f"{uuid(0)},NVIDIA,1000,100:"

    (row,) = items("top", "nodes", things=[node(cards=1), full])

    assert (row["largestMiB"], row["strandedMiB"]) == (0, 9000)


def test_top_cards_has_each_card_with_its_state() -> None:
    rows = items("top", "cards")

    assert column(rows, "uuid") == [uuid(0), uuid(1), uuid(0, "node-b")]
    assert column(rows, "state") == ["shared", "shared", "idle"]
    assert column(rows, "slotsUsed") == [1, 1, 0]


@pytest.mark.parametrize(
    ("things", "state"),
    [
        ([volcano_bound("a", 6000), volcano_bound("b", 5000)], "over-allocated"),
        (
            [pod("a", volcano(1), spec={"nodeName": "node-a"})],
            "blocked: which cards a pod has is unknown",
        ),
    ],
)
def test_the_state_of_a_card_says_what_is_wrong(things: list[Plain], state: str) -> None:
    assert items("top", "cards", things=[node(), *things])[0]["state"] == state


def test_a_card_without_free_memory_is_full_and_one_that_no_plugin_offers_is_unusable() -> None:
    away: Plain = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-c",
            "annotations": {
                "hami.io/node-nvidia-register": "GPU-c,10,24576,100,NVIDIA-A10,0,true,0,hami-core:"
            },
        },
        "status": {"allocatable": {"nvidia.com/gpu": "0"}},
    }

    done = command("top", "cards", things=[node(), volcano_bound("a", 10000), away])

    states = [line.partition("/10")[2].split(maxsplit=1) for line in done.stdout.splitlines()[1:]]
    assert states[:2] == [["full"], ["idle"]]
    assert states[2] == [
        "unusable:",
        "allocatable nvidia.com/gpu is 0: HAMi's device plugin does not run",
    ]


def test_a_pod_that_reserves_no_compute_has_none() -> None:
    things = [node(), volcano_bound("a", 4000)]

    for words in (("top", "pods"), ("who", "node-a")):
        assert "3.9         -" in command(*words, things=things).stdout


@pytest.mark.parametrize("place", ["node-a/1", "node-a:1", f"node-a/{uuid(1)}", uuid(1)])
def test_a_card_has_the_names_that_other_output_gives_it(place: str) -> None:
    assert column(items("who", place), "pod") == ["b"]


@pytest.mark.parametrize("kinds", [("node", "no"), ("card",), ("pod", "po"), ("namespace", "ns")])
def test_top_takes_what_kubectl_takes(kinds: tuple[str, ...]) -> None:
    expected = command("top", f"{kinds[0]}s", things=THINGS).stdout

    assert [command("top", each, things=THINGS).stdout for each in kinds] == [expected] * len(kinds)


def labelled(name: str, **labels: str) -> Plain:
    return pod(name, volcano(1), metadata={"labels": labels})


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["a", "b"]),
        ("app==web,env!=test", ["a"]),
        ("env in (test, prod)", ["b", "c"]),
        ("env notin (test)", ["a", "c", "d"]),
        ("app", ["a", "b"]),
        ("!app,env", ["c"]),
        ("example.com/a-b=x_y.z", ["d"]),
        ("app=", []),
    ],
)
def test_a_selector_chooses_as_kubectls_does(selector: str, names: list[str]) -> None:
    things = [
        node(),
        labelled("a", app="web"),
        labelled("b", app="web", env="test"),
        labelled("c", env="prod"),
        labelled("d", **{"example.com/a-b": "x_y.z"}),
    ]

    done = command("pending", "-l", selector, "-o", "name", things=things)

    assert done.stdout.split() == [f"pod/{name}" for name in names]
    assert ("no pods with these labels wait" in done.stderr) == (not names)


@pytest.mark.parametrize("selector", ["", "=a", "a b", "a in b", "a,", "(", "a=b,,c", "a>1"])
def test_no_other_text_is_a_selector(selector: str) -> None:
    done = command("pending", "-l", selector, things=THINGS)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "must be labels such as app=web" in done.stderr


def test_a_selector_is_for_pods_and_nodes() -> None:
    things = [node("node-b", cards=1), node(), volcano_bound("a", 4000)]
    things[0]["metadata"]["labels"] = {"pool": "x"}
    things[2]["metadata"]["labels"] = {"app": "web"}

    assert column(items("top", "-l", "pool=x", things=things), "node") == ["node-b"]
    assert column(items("top", "cards", "-l", "!pool", things=things), "node") == ["node-a"] * 2
    for words in (("top", "pods"), ("who", "node-a")):
        assert column(items(*words, "-l", "app=web", things=things), "pod") == ["a"]
        assert items(*words, "-l", "app=db", things=things) == []
    assert command("top", "namespaces", "-l", "a", things=things).exit_code == 2


def test_a_reason_has_a_line_for_each_group_of_nodes() -> None:
    cordoned = node("node-c", more={"spec": {"unschedulable": True}})
    things = [node(), cordoned, volcano_bound("a", 4000), pod("p", volcano(9000, number=2))]

    shown, bare = (command("pending", *more, things=things) for more in ((), ("--no-headers",)))

    first, *groups = shown.stdout.splitlines()[1:]
    assert first.endswith("   0 of 2 nodes fit:")
    assert [each.strip() for each in groups] == [
        "1 node: 1 of 2 cards: memory 3000 MiB short",
        "1 node: unschedulable",
    ]
    (line,) = bare.stdout.splitlines()
    assert line.endswith("nodes fit: " + "; ".join(each.strip() for each in groups))


def test_pods_have_an_age_and_the_oldest_waits_first() -> None:
    now = datetime.now(UTC)
    times = {"new": now - timedelta(minutes=5), "old": now - timedelta(days=3, hours=2)}
    things = [node(), pod("unknown", volcano(1))]
    for name, time in times.items():
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
        things.append(pod(name, volcano(1), metadata={"creationTimestamp": stamp}))

    lines = [line.split() for line in command("pending", things=things).stdout.splitlines()]

    assert [line[3][:2] for line in lines] == ["AG", "3d", "5m", "-"]
    assert [line[1] for line in lines[1:]] == ["old", "new", "unknown"]
    assert items("pending", "--sort-by", "created", things=things)[0]["pod"] == "unknown"
    assert "AGE" in command("top", "pods", things=THINGS).stdout
    assert "AGE" in command("who", "node-a", things=THINGS).stdout


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 60, "7h1m"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (191 * 3600, "7d23h"),
        (192 * 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(seconds: int, text: str) -> None:
    """Source: k8s.io/apimachinery pkg/util/duration/duration_test.go, TestHumanDuration."""
    now = datetime(2026, 1, 31, tzinfo=UTC)

    assert age((now - timedelta(seconds=seconds)).isoformat(), now) == text
    assert [age(each, now) for each in (None, "", "soon", "2026-01-31T00:00:00")] == [""] * 4


def test_a_namespace_that_limits_nothing_is_noted() -> None:
    for kind in ("nodes", "cards"):
        done = command("top", kind, "-n", "ml", things=THINGS)
        assert f"note: {kind} are shown with the pods of all namespaces" in done.stderr
    assert column(items("top", "namespaces", "-n", "ml"), "namespace") == ["ml"]


def test_who_says_that_it_shows_all_namespaces_of_a_cluster(tmp_path: Path) -> None:
    with api_server(tmp_path, *THINGS) as server:
        reached = ("--kubeconfig", str(server.kubeconfig))
        every, one = (command("who", "node-a", *more, *reached) for more in ((), ("-n", "ml")))

    assert "note: pods of all namespaces are shown, see -n" in every.stderr
    assert "namespaces" not in one.stderr


def test_an_unhealthy_and_an_exclusive_card_have_their_states() -> None:
    sick = device("node-a", uuid(0))
    sick["spec"]["devices"][0]["health"] = False
    alone = volcano_bound("c", 10000, on="node-b")
    alone["spec"]["containers"][0]["resources"]["limits"] = volcano(10000, cores=100)
    alone["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = (
        f"{uuid(0, 'node-b')},NVIDIA,10000,100:"
    )

    rows = items("top", "cards", things=[node(cards=1), sick, node("node-b", cards=1), alone])

    assert column(rows, "state") == ["unhealthy", "exclusive"]


def test_lists_of_files_show_all_namespaces_unless_one_is_chosen() -> None:
    assert column(items("top", "pods"), "pod") == ["a", "b"]
    assert column(items("top", "pods", "-n", "ml"), "pod") == ["b"]
    assert column(items("top", "pods", "-A"), "pod") == ["a", "b"]
    assert column(items("pending"), "pod") == ["waits"]
    assert command("pending", things=THINGS).stderr == ""


def test_a_list_of_a_cluster_counts_the_pods_of_other_namespaces(tmp_path: Path) -> None:
    waits = pod("also-waits", volcano(9000, number=2))
    with api_server(tmp_path, *THINGS, waits, namespace="default") as server:
        with_rows = ("--kubeconfig", server.kubeconfig)
        top, pending = command("top", "pods", *with_rows), command("pending", *with_rows)
        chosen = command("pending", "-n", "ml", *with_rows)
        everywhere = command("pending", "-A", *with_rows)

    note = "note: 1 more in other namespaces, see -A\n"
    assert (top.stderr, pending.stderr) == (note, note)
    assert (chosen.stderr, everywhere.stderr) == ("", "")
    assert len(everywhere.stdout.splitlines()) == 7


def test_who_shows_all_namespaces_unless_one_is_chosen() -> None:
    assert column(items("who", "node-a", "-A"), "pod") == ["a", "b"]
    assert column(items("who", "node-a", "-n", "ml"), "pod") == ["b"]


def test_top_namespaces_counts_pods_that_wait() -> None:
    rows = items("top", "namespaces")

    assert [(row["namespace"], row["pods"], row["pending"], row["grantedMiB"]) for row in rows] == [
        ("default", 1, 0, 4000),
        ("ml", 1, 1, 9000),
    ]


def test_pending_names_what_would_make_room_for_pods_of_high_priority() -> None:
    full = [node(cards=1), volcano_bound("low", 9000)]
    high = pod("high", volcano(9000), spec={"priority": 10})

    assert command("pending", things=[*full, high]).stderr == (
        "note: default/high: evicting default/low (priority 0) would make room on node-a; the"
        " service does so only with preemption.enabled\n"
    )
    assert command("pending", things=[*full, pod("equal", volcano(9000))]).stderr == ""


def test_a_pending_pod_of_several_dialects_counts_as_one_that_waits() -> None:
    mixed = pod("m", {**volcano(1), "metax-tech.com/sgpu": 1})

    assert column(items("top", "namespaces", things=[node(), mixed]), "pending") == [1]


def test_who_lists_the_shares_of_a_node_or_a_card() -> None:
    assert column(items("who", "node-a"), "pod") == ["a", "b"]
    assert column(items("who", "node-a/1"), "pod") == ["b"]
    assert column(items("who", f"node-a/{uuid(0)}"), "pod") == ["a"]
    assert items("who", "node-b") == []


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("elsewhere", "no node 'elsewhere'; nodes: node-a, node-b"),
        ("node-b/3", f"node node-b has no card '3'; cards: 0 ({uuid(0, 'node-b')})"),
    ],
)
def test_an_unknown_place_is_bad_input_with_the_known_ones(place: str, problem: str) -> None:
    result = command("who", place, things=THINGS)

    assert result.exit_code == 2
    assert problem in result.stderr


def test_pending_has_the_request_and_the_reason() -> None:
    (row,) = items("pending", "-A")

    assert (row["pod"], row["request"]) == ("waits", "2 cards: 8.8 GiB each")
    assert row["fits"] == 0
    assert "1 node: 2 of 2 cards: memory" in row["reason"]
    assert "1 node: 2 cards asked for one container, node has 1" in row["reason"]
    assert items("pending", "-n", "default") == []


def test_a_pending_pod_that_fits_waits_for_its_scheduler() -> None:
    (row,) = items("pending", things=[node(), pod("p", volcano(1))])

    assert (row["fits"], row["reason"]) == (1, "cards fit on node-a")


def test_pending_names_an_invalid_request_and_leaves_out_pods_without_one() -> None:
    things = [node(), pod("bad", volcano(1, cores=101)), pod("none")]

    (row,) = items("pending", things=things)

    assert (row["pod"], row["request"]) == ("bad", "invalid")


def test_rows_are_sorted_by_a_field() -> None:
    assert column(items("top", "--sort", "largestMiB"), "node") == ["node-b", "node-a"]
    assert column(items("top", "pods", "-A", "--sort", "grantedMiB"), "pod") == ["b", "a"]
    assert column(items("top", "--sort", "node"), "node") == ["node-a", "node-b"]


def test_an_unknown_field_is_bad_input_with_the_known_ones() -> None:
    result = command("top", "--sort", "nonsense", things=THINGS)

    assert result.exit_code == 2
    assert "'nonsense' is no field; fields: node, model, cards" in result.stderr


@pytest.mark.parametrize("words", [("top", "nodes"), ("top", "cards"), ("top", "namespaces")])
def test_the_fields_for_sorting_are_those_of_every_row(words: tuple[str, ...]) -> None:
    result = command(*words, "--sort", "?", things=THINGS)

    keys = result.stderr.split("fields: ")[1].strip().split(", ")
    assert all(keys == [key for key in row if key != "uuids"] for row in items(*words))


def test_names_and_csv_are_for_other_programs() -> None:
    names = command("top", "pods", "-A", "-o", "name", things=THINGS).stdout
    table = command("top", "pods", "-A", "-o", "csv", "--no-headers", things=THINGS).stdout

    assert names == "pod/a\npod/b\n"
    assert table.splitlines()[0].startswith("default,a,volcano,node-a,1,4000,0,0,")


def test_a_live_cluster_is_read_in_the_namespace_of_its_context(tmp_path: Path) -> None:
    with api_server(tmp_path, *THINGS, namespace="ml") as server:
        result = command("top", "pods", "--kubeconfig", server.kubeconfig, "-o", "json")

    assert column(json.loads(result.stdout)["items"], "pod") == ["b"]


def test_standard_input_cannot_be_watched() -> None:
    result = command("top", "--watch", things=THINGS)

    assert result.exit_code == 2
    assert "standard input can be read once only" in result.stderr


def test_a_watch_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("adapters.cli.commands.listings.time.sleep", pause)
    with api_server(tmp_path, *THINGS) as server:
        words = ("top", "-w", "--interval", "2", "--no-headers", "-o", "name")
        result = command(*words, "--kubeconfig", server.kubeconfig)

    assert result.stdout == "node/node-a\nnode/node-b\n" * 2
    assert pauses == [2.0, 2.0]
