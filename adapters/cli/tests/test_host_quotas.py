"""ResourceQuotas in files: HAMi's limits hold for what is placed, all others are ignored."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.tests.command import command

EXAMPLE = Path(__file__).parents[3] / "configs" / "examples" / "quota.yaml"
THIRTY = {"limits.nvidia.com/gpumem": str(30 * 1024)}
TEXT = "quota of namespace ml: memory 6 GiB short (20 GiB of 30 GiB used)"


def documents() -> list[Any]:
    return [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]


def a_resource_quota(hard: object, name: str = "gpus") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"hard": hard},
    }


def a_file(folder: Path, *quotas: dict[str, Any], shares: bool = False) -> str:
    """The example with these ResourceQuotas, and with its ShareQuota or without."""
    rest = [each for each in documents() if shares or each["kind"] != "ShareQuota"]
    file = folder / "dump.yaml"
    file.write_text(yaml.safe_dump_all([*quotas, *rest]))
    return str(file)


def report(file: str) -> dict[str, Any]:
    found = command("schedule", "-f", file, "-o", "json")
    assert found.exit_code in (0, 1), found.stderr
    read: dict[str, Any] = json.loads(found.stdout)
    return read


def nodes(file: str) -> list[str | None]:
    return [pod.get("node") for pod in report(file)["pods"]]


def cards(file: str) -> list[Any]:
    """By pod, what its containers get; without the annotations, which have the time."""
    return [pod["containers"] for pod in report(file)["pods"]]


def test_pods_of_all_dialects_count_and_the_one_past_the_limit_is_refused(tmp_path: Path) -> None:
    file = a_file(tmp_path, a_resource_quota(THIRTY))

    assert nodes(file) == ["quota-node", "quota-node", None]
    assert TEXT in command("schedule", "-f", file).stdout


@pytest.mark.parametrize(
    "tool",
    [
        ("explain", "pod", "one-more", "-n", "ml"),
        ("pending", "-A"),
        ("top", "namespaces"),
        ("audit",),
        ("whatif", "--add", "quota-node=1"),
    ],
)
def test_the_other_tools_read_one(tmp_path: Path, tool: tuple[str, ...]) -> None:
    tiny = {"limits.nvidia.com/gpumem": "1"}

    found = command(*tool, "-f", a_file(tmp_path, a_resource_quota(tiny)))

    assert found.exit_code in (0, 1), found.stderr
    refused = "the pod counts 16 GiB of memory, and the limit is 1 MiB"
    assert refused in found.stdout or tool[0] in ("top", "audit")


def test_all_are_placed_beside_a_quota_of_other_resources(tmp_path: Path) -> None:
    file = a_file(
        tmp_path, a_resource_quota({"pods": "10", "limits.cpu": "4", "requests.nvidia.com/gpu": 1})
    )

    assert None not in nodes(file)
    assert cards(file) == cards(a_file(tmp_path))


@pytest.mark.parametrize(
    "hard", [5, ["limits.nvidia.com/gpumem"], {"limits.nvidia.com/gpumem": "x"}]
)
def test_one_that_cannot_be_read_is_named_and_places_nothing(tmp_path: Path, hard: object) -> None:
    file = a_file(tmp_path, a_resource_quota(hard))

    assert set(nodes(file)) == {None}
    assert "ResourceQuota ml/gpus: spec.hard" in command("schedule", "-f", file).output


def test_the_strictest_of_several_and_of_a_share_quota_holds(tmp_path: Path) -> None:
    loose, strict = ({"limits.nvidia.com/gpumem": str(gib * 1024)} for gib in (400, 1))

    assert None not in nodes(a_file(tmp_path, a_resource_quota(loose)))
    assert nodes(a_file(tmp_path, a_resource_quota(loose), shares=True))[-1] is None
    assert set(
        nodes(a_file(tmp_path, a_resource_quota(loose), a_resource_quota(strict, "b"), shares=True))
    ) == {None}


def test_one_alone_is_no_invalid_input(tmp_path: Path) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text(yaml.safe_dump(a_resource_quota({"limits.nvidia.com/gpumem": "1"})))

    assert command("schedule", "-f", str(file)).exit_code != 2
