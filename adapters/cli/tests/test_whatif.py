"""Other nodes, pods and policies, and what becomes of the pods."""

from pathlib import Path
from typing import Any

import pytest

from adapters.cli.tests.builders import Plain, node, pod, stream, volcano, volcano_bound, write
from adapters.cli.tests.command import as_plain, command
from core.hardware.quantity import MIB


def rows(*words: str | Path, things: list[Plain]) -> list[tuple[Any, ...]]:
    found = as_plain("whatif", *words, things=things)["items"]
    return [(row["pod"], row["now"], row["then"]) for row in found]


WAITS = pod("waits", volcano(9000))
FULL = [node(cards=1), volcano_bound("a", 5000), WAITS]


def test_additional_nodes_have_the_cards_of_their_model_and_no_pods() -> None:
    assert rows("--add", "node-a=2", things=FULL) == [("waits", "does not fit", "node-a-new-1")]


def test_a_name_that_is_in_use_is_not_given_to_an_additional_node() -> None:
    things = [*FULL, node("node-a-new-1", cards=1, memory=10 * MIB)]

    assert rows("--add", "node-a=1", things=things) == [("waits", "does not fit", "node-a-new-2")]


def test_pods_of_a_removed_node_wait_again() -> None:
    things = [node("node-a"), node("node-b"), volcano_bound("a", 5000)]

    (row,) = as_plain("whatif", "--remove", "node-a", things=things)["items"]

    assert (row["pod"], row["now"], row["then"], row["reason"]) == (
        "a",
        "node-a",
        "node-b",
        "moves",
    )


def test_pods_of_daemon_sets_end_with_their_node() -> None:
    daemon = volcano_bound("d", 5000)
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    things = [node("node-a"), node("node-b"), daemon, volcano_bound("a", 5000)]

    assert rows("--remove", "node-a", things=things) == [("a", "node-a", "node-b")]


def test_a_pod_that_no_other_node_has_room_for_does_not_fit_and_the_exit_status_is_1() -> None:
    things = [node("node-a"), volcano_bound("a", 5000)]

    result = command("whatif", "--remove", "node-a", things=things)

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == (
        "now: 0 of 0 waiting pods placed; then: 0 of 1 waiting pods placed"
    )


def test_a_removed_node_can_be_the_model_of_its_replacement() -> None:
    things = [node("node-a"), volcano_bound("a", 5000)]

    assert rows("--remove", "node-a", "--add", "node-a=1", things=things) == [
        ("a", "node-a", "node-a-new-1")
    ]


def test_pods_that_come_are_placed_after_those_that_wait(tmp_path: Path) -> None:
    coming = write(tmp_path, "pods.json", stream(pod("first", volcano(6000))))
    waits = pod("waits", volcano(6000))

    assert rows("--pods", coming, things=[node(cards=1), waits]) == [
        ("waits", "node-a", "node-a"),
        ("first", "new", "does not fit"),
    ]


def test_another_policy_chooses_another_node() -> None:
    things = [node("node-a"), node("node-b"), volcano_bound("a", 1000), pod("p", volcano(1))]

    assert rows("--node-policy", "binpack", things=things)[0][2] == "node-a"
    assert rows("--node-policy", "spread", things=things)[0][2] == "node-b"


def test_an_invalid_request_stays_invalid() -> None:
    things = [node(), pod("p", volcano(1, cores=101))]

    assert rows("--add", "node-a=1", things=things) == [("p", "invalid", "invalid")]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "pass a change: --pods, --add, --remove"),
        (("--add", "node-a"), "'node-a' must be NODE=COUNT"),
        (("--add", "node-a=0"), "COUNT from 1 to 1000"),
        (("--add", "x=1"), "no node 'x'; nodes: node-a"),
        (("--remove", "x"), "--remove: no node 'x'; nodes: node-a"),
    ],
)
def test_a_change_that_cannot_be_made_is_bad_input(words: tuple[str, ...], problem: str) -> None:
    result = command("whatif", *words, things=FULL)

    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("coming", "problem"),
    [
        (pod("a", volcano(1)), "pod default/a exists in the cluster"),
        (pod("b", volcano(1), spec={"nodeName": "x"}), "pod default/b is bound to x already"),
    ],
)
def test_pods_that_cannot_come_are_bad_input(coming: Plain, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, "pods.json", stream(coming))

    result = command("whatif", "--pods", path, things=FULL)

    assert result.exit_code == 2
    assert problem in result.stderr


def test_the_same_input_gives_the_same_answer() -> None:
    things = [*FULL, *(pod(f"p{number}", volcano(3000)) for number in range(5))]
    words = ("whatif", "--add", "node-a=2", "--node-policy", "spread", "-o", "yaml")

    assert command(*words, things=things).stdout == command(*words, things=things).stdout


def test_a_namespace_chooses_the_pods_that_are_shown_and_that_decide_the_exit_status() -> None:
    fits = pod("fits", volcano(100), metadata={"namespace": "ml"})
    things = [node(cards=1), volcano_bound("a", 5000), WAITS, fits]
    change = ("--device-policy", "spread")

    assert rows(*change, "-n", "ml", things=things) == [("fits", "node-a", "node-a")]
    assert command("whatif", *change, "-n", "ml", things=things).exit_code == 0
    assert command("whatif", *change, "-A", things=things).exit_code == 1
