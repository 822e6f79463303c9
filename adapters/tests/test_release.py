"""What ``make release`` is built from: one version, dated changes, locks, and the workflows."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / ".ci" / "release"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


@pytest.fixture(autouse=True)
def scripts() -> Iterator[None]:
    """The scripts import each other."""
    sys.path.insert(0, str(SCRIPTS))
    yield
    sys.path.remove(str(SCRIPTS))


def module(name: str) -> Any:
    return importlib.import_module(name)


def a_repository(folder: Path, **files: str) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)  # noqa: S607
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_every_file_that_repeats_the_version_has_that_of_pyproject() -> None:
    assert list(module("version").differing()) == []


def test_a_file_with_another_version_is_named_and_rewritten(tmp_path: Path) -> None:
    image = f"dragoman/{'node'}"  # in two parts, because this file is compared too
    text = f"Build:\n\n    docker build -t registry.example.com/{image}:1.2.0 .\n"
    root = a_repository(tmp_path, page_md=text, README_md="Version 1.2.0, not released.\n")
    differing = module("version").differing

    assert sorted(differing(root)) == ["README.md:1: 1.2.0", "page.md:3: 1.2.0"]
    assert len(list(differing(root, write=True))) == 2
    assert list(differing(root)) == []
    assert (root / "page.md").read_text() == text.replace("1.2.0", "1.2.3")
    assert (root / "README.md").read_text() == "Version 1.2.3, not released.\n"


def test_the_changelog_has_the_changes_of_the_version() -> None:
    found = module("changes").changes(ROOT / "CHANGELOG.md", module("version").version())

    assert "### Added" in found


@pytest.mark.parametrize("headline", ["## [1.2.0] - 2026-01-01", "## [1.2.3]"])
def test_changes_without_a_section_or_its_date_are_rejected(tmp_path: Path, headline: str) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text(f"# Changelog\n\n{headline}\n\n- One.\n")

    with pytest.raises(ValueError, match=r"1\.2\.3"):
        module("changes").changes(file, "1.2.3")


def test_the_changes_end_where_those_of_the_version_before_begin(tmp_path: Path) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text("## [2.0.0] - 2026-02-01\n\n- New.\n\n## [1.0.0] - 2026-01-01\n\n- Old.\n")

    assert module("changes").changes(file, "2.0.0") == "- New.\n"
    assert module("changes").changes(file, "1.0.0") == "- Old.\n"


def test_the_bill_has_every_package_of_the_lock_and_is_reproducible() -> None:
    lock, made = ROOT / "requirements" / "node.txt", datetime(2026, 1, 1, tzinfo=UTC)

    text = module("bill").bill(lock, "dragoman-node", "1.2.3", made)

    found = json.loads(text)
    pinned = set(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE))
    assert {(each["name"], each["version"]) for each in found["components"]} == pinned
    assert found["metadata"]["component"]["version"] == "1.2.3"
    assert module("bill").bill(lock, "dragoman-node", "1.2.3", made) == text


def test_packages_of_other_platforms_are_not_in_the_bill(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(
        "one==1 \\\n    --hash=sha256:00\ntwo==2 ; sys_platform == 'win32' \\\n"
        "three==3 ; sys_platform != 'win32' \\\n    # via one\n"
    )

    assert list(module("bill").locked(lock)) == [("one", "1"), ("three", "3")]


def test_the_manifest_of_krew_has_every_platform() -> None:
    platforms = module("plugin_packages").PLATFORMS
    sums = {each: (f"dragoman-{each.name}.tar.gz", "a" * 64) for each in platforms}

    text = module("krew").manifest("1.2.3", ("3.11", "3.14"), sums)

    manifest = yaml.safe_load(text)
    found = manifest["spec"]["platforms"]
    assert manifest["spec"]["version"] == "v1.2.3"
    assert "Python of 3.11 to 3.14" in manifest["spec"]["caveats"]
    assert [each["selector"]["matchLabels"] for each in found] == [
        {"os": each.os, "arch": each.cpu} for each in platforms
    ]
    assert [(each["uri"], each["sha256"]) for each in found] == [*sums.values()]
    assert {each["bin"] for each in found} == {"kubectl-dragoman"}
    assert not re.search(r"\b[A-Z]+_[A-Z0-9]+\b|VERSION|PYTHON", text)


def test_the_lock_of_the_tools_has_what_the_release_needs() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]

    assert {"pex", "cyclonedx-python-lib", "hatchling"} <= set(groups["dev"])


def test_the_workflows_run_the_gates_before_a_release() -> None:
    texts = {file.stem: file.read_text() for file in WORKFLOWS}
    checks, release = (yaml.safe_load(texts[name]) for name in ("check", "release"))

    assert set(texts) == {"check", "release"}
    steps = [step.get("run", "") for job in checks["jobs"].values() for step in job["steps"]]
    assert {".ci/run", "make e2e-kind"} <= set(steps)
    assert release["jobs"]["check"]["uses"].endswith("check.yaml")
    assert release["jobs"]["release"]["needs"] == "check"
    assert "make release IMAGES=require" in texts["release"]


def test_every_target_of_make_in_the_workflows_exists() -> None:
    named = set(re.findall(r"run: make ([a-z0-9-]+)", "".join(f.read_text() for f in WORKFLOWS)))

    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert named
    assert named <= set(targets)
