"""The recipes whose controllers no test runs: their manifests, placed without a cluster."""

import json
from pathlib import Path

import pytest
import yaml

from adapters.cli.tests.builders import Plain, run, stream
from adapters.cli.tests.command import command

FOLDER = Path(__file__).parents[3] / "configs" / "examples" / "recipes"


def documents(name: str) -> list[Plain]:
    return [*yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())]


def nodes_of_pods(*things: Plain) -> list[str | None]:
    """The node of each pod that requests a share."""
    found = run("-f", "-", "-o", "json", stdin=stream(*things))
    return [each["node"] for each in json.loads(found.stdout)["pods"] if each["dialect"]]


@pytest.mark.parametrize("name", ["vllm", "kserve", "ray-cluster"])
def test_a_recipe_in_the_words_of_volcano_has_the_same_cards(name: str) -> None:
    said = command("translate", "--strict", "--to", "volcano", "-f", str(FOLDER / f"{name}.yaml"))
    other = [*yaml.safe_load_all(said.stdout)]

    placed = nodes_of_pods(*documents("nodes"), *documents(name))

    assert None not in placed
    assert nodes_of_pods(*documents("nodes"), *other) == placed


def test_a_ray_cluster_without_room_for_all_workers_gets_no_card() -> None:
    first, _ = documents("nodes")

    assert nodes_of_pods(first, *documents("ray-cluster")) == [None] * 3


def test_the_gang_of_the_ray_cluster_has_as_many_pods_as_the_cluster() -> None:
    (cluster,) = documents("ray-cluster")
    spec = cluster["spec"]
    groups = spec["workerGroupSpecs"]
    texts = [
        each["template"]["metadata"]["annotations"] for each in (spec["headGroupSpec"], *groups)
    ]

    least = {each["gang.scheduling.koordinator.sh/min-available"] for each in texts}

    assert least == {str(1 + sum(each["replicas"] for each in groups))}
