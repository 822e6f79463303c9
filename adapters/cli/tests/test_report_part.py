"""A part of a report: some pods, no cards, or only the sums."""

import csv
import json
from pathlib import Path

import pytest

from adapters.cli.tests.command import command

EXAMPLE = Path(__file__).parents[3] / "configs" / "examples" / "mixed.yaml"
SUMS = "8 of 10 pods placed, 1 already bound, 1 skipped; -o yaml shows their annotations"


def schedule(*words: str) -> str:
    done = command("schedule", "-f", EXAMPLE, *words)
    assert done.exit_code == 1, done.output
    return done.stdout


def names(*words: str) -> list[str]:
    return schedule("-o", "name", *words).splitlines()


def test_only_refused_pods_have_a_row_and_their_reasons() -> None:
    shown = schedule("--only", "refused", "--no-cards")

    assert shown.splitlines()[1:3] == [
        "✗  volcano-too-large  volcano  -     does not fit",
        "✗  metax-mistaken     metax    -     is not valid",
    ]
    assert "nvidia-1, lab-1: memory 12.4 to 19.3 GiB short" in shown
    assert "40.0 GiB" not in shown
    assert shown.endswith(f"{SUMS}\n")


def test_the_choices_are_the_parts_of_the_whole() -> None:
    parts = [names("--only", word) for word in ("placed", "refused", "bound", "skipped")]

    assert sorted(name for part in parts for name in part) == sorted(names())
    assert list(map(len, parts)) == [8, 2, 1, 1]
    assert names("--only", "bound", "--only", "skipped") == [*parts[2], *parts[3]]


def test_the_summary_is_one_line_beside_the_warnings() -> None:
    assert schedule("--summary") == f"{SUMS}\n"


def test_json_and_yaml_have_the_chosen_pods_and_an_empty_list_of_cards() -> None:
    found = json.loads(schedule("-o", "json", "--only", "refused", "--no-cards"))

    assert [pod["name"] for pod in found["pods"]] == ["volcano-too-large", "metax-mistaken"]
    assert found["cards"] == []
    assert "cards: []" in schedule("-o", "yaml", "--no-cards")


def test_cards_show_pods_that_were_left_out() -> None:
    found = json.loads(schedule("-o", "json", "--only", "refused"))

    assert any("default/volcano-lab" in card["sharers"] for card in found["cards"])


def test_csv_has_a_line_for_each_pod_with_amounts_and_reason() -> None:
    rows = {row["name"]: row for row in csv.DictReader(schedule("-o", "csv").splitlines())}

    placed, refused = rows["volcano-notebook"], rows["volcano-too-large"]
    assert (placed["result"], placed["node"], placed["memoryMiB"]) == ("placed", "nvidia-1", "3000")
    assert (refused["result"], refused["node"], refused["cards"]) == ("rejected", "", "")
    assert "memory 12.4 to 19.3 GiB short" in refused["summary"]


@pytest.mark.parametrize("more", [("-o", "json"), ("--only", "bound"), ("--no-cards",)])
def test_the_summary_is_of_a_whole_table(more: tuple[str, ...]) -> None:
    done = command("schedule", "-f", EXAMPLE, "--summary", *more)

    assert done.exit_code == 2
    assert "--summary: is for a whole table" in done.stderr


def test_a_namespace_chooses_the_pods_that_are_shown() -> None:
    every = names()
    assert names("-n", "default") == names("-A") == every
    assert names("-n", "elsewhere") == []
