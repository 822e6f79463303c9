"""ShareQuotas in files: they limit what is placed, and are explained, listed and audited."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.cli.tests.command import command

EXAMPLE = Path(__file__).parents[4] / "configs" / "examples" / "quota.yaml"
TEXT = "quota of namespace ml: cards 0.5 short (1.5 of 2 used)"


def placed(folder: Path) -> str:
    """The example as a dump after its first two pods were bound."""
    report = json.loads(command("schedule", "-f", str(EXAMPLE), "-o", "json").stdout)
    by_name = {pod["name"]: pod for pod in report["pods"]}
    documents: list[Any] = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]
    for each in documents:
        line = by_name.get(each["metadata"]["name"], {})
        if line.get("node"):
            each["metadata"]["annotations"] = line["annotations"]
            each["spec"]["nodeName"] = line["node"]
    file = folder / "dump.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


def test_pending_and_explain_name_the_quota(tmp_path: Path) -> None:
    dump = placed(tmp_path)

    assert TEXT in command("pending", "-A", "-f", dump).stdout
    explained = command("explain", "pod", "one-more", "-n", "ml", "-f", dump)
    assert explained.exit_code == 1
    assert f"1 node: {TEXT} (quota-node)" in explained.stdout


def test_what_would_make_it_fit_is_a_smaller_request(tmp_path: Path) -> None:
    explained = command("explain", "pod", "one-more", "-n", "ml", "-f", placed(tmp_path)).stdout

    assert "request less for main: memory, at most 8192 MiB" in explained


def test_top_namespaces_shows_used_and_limit(tmp_path: Path) -> None:
    dump = placed(tmp_path)

    text = command("top", "namespaces", "-f", dump).stdout
    (row,) = json.loads(command("top", "namespaces", "-f", dump, "-o", "json").stdout)["items"]

    assert "cards 1.5 cards of 2 cards, memory 20 GiB of 32 GiB" in text
    assert row["quota"] == {
        "cards": {"used": "1.5", "limit": "2"},
        "memoryMiB": {"used": 20480, "limit": 32768},
    }


def test_an_audit_finds_a_quota_that_is_exceeded(tmp_path: Path) -> None:
    dump = placed(tmp_path)
    assert "quota-exceeded" not in command("audit", "-f", dump).stdout
    lower = Path(dump)
    lower.write_text(lower.read_text().replace("cards: 2\n", "cards: 1\n"))

    found = command("audit", "-f", dump)

    assert found.exit_code == 1
    assert "quota-exceeded" in found.stdout
    assert "namespace ml: cards: 1.5 cards of 1 card are in use" in found.stdout


def test_whatif_obeys_the_quota(tmp_path: Path) -> None:
    found = command("whatif", "--add", "quota-node=1", "-f", placed(tmp_path))

    assert found.exit_code == 1
    assert TEXT in found.stdout


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ("cards: several", "spec.limits.cards: 'several': must be a quantity"),
        ("memory: 1.5", "spec.limits.memory: 1.5: must be a whole number of bytes"),
    ],
)
def test_a_limit_that_is_not_valid_is_named_with_its_line(
    tmp_path: Path, limits: str, problem: str
) -> None:
    file = tmp_path / "quota.yaml"
    file.write_text(
        EXAMPLE.read_text().replace("cards: 2", limits, 1).replace("    memory: 32Gi\n", "")
    )

    found = command("schedule", "-f", str(file))

    assert found.exit_code == 2
    assert f"quota.yaml:5: {problem}" in found.stderr


def test_a_namespace_has_one_quota(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    (first, *_) = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]
    file.write_text(EXAMPLE.read_text() + "---\n" + yaml.safe_dump(first))

    assert "ShareQuota of ml is a duplicate" in command("schedule", "-f", str(file)).stderr
